-- ARGV: 1 wait, 2-4 fence, 5 reply. Native expiry comes a second after the record's own, which
-- alone decides: it only gives the memory back.
local NATIVE_MARGIN_MS = 1000
local r = visible(found)
if not r or not is_under(r) then return {'lost', whole(NOW)} end
if r.state == 'c' then
  if redis.call('HGET', R, 're') ~= ARGV[5] then return {'lost', whole(NOW)} end
  return standing({'stored', whole(NOW)})
end
local expires
if r.total then expires = math.max(r.created + r.total, NOW + r.least) end
redis.call('ZADD', I, 0, ID)
if expires then redis.call('ZADD', E, whole(expires), ID) end
redis.call('HSET', R, 'st', 'c', 're', ARGV[5], 'co', whole(NOW), 'ex', expires and whole(expires) or 'never')
redis.call('HDEL', R, 'in', 'rn', 'rp', 'lu', 'gu')
-- After the record: until it is completed the reconciler must be able to find it.
for _, index in ipairs({F, B, W}) do redis.call('ZREM', index, ID) end
if expires and NATIVE_EXPIRY then
  local at = math.max(math.ceil(expires / 1000), math.ceil(NOW / 1000)) + NATIVE_MARGIN_MS
  redis.call('PEXPIREAT', R, whole(at))
end
return {'stored', whole(NOW)}
