-- ARGV: 1 wait, 2-4 fence, 5 lease, 6 number, 7 payload.
local r = visible(found)
if not r or not is_under(r) or r.state ~= 'p' then return {'lost', whole(NOW)} end
local next_number = tonumber(ARGV[6])
local repeated = r.number == next_number and redis.call('HGET', R, 'rp') == ARGV[7]
if not repeated and (r.number or 0) + 1 ~= next_number then return {'out-of-order', whole(NOW)} end
if not r.given_up then r.lease_end = math.max(NOW + tonumber(ARGV[5]), r.lease_end) end
r.number = next_number
index_lease(ID, r)
redis.call('HSET', R, 'rn', whole(next_number), 'rp', ARGV[7], 'lu', whole(r.lease_end))
return {'held', whole(NOW), whole(math.max(0, r.lease_end - NOW))}
