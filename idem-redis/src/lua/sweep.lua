-- KEYS from the seventh on are candidates; each is judged again here (R10). A reply that the
-- server expired by itself has only its index entries left, and counts as deleted.
local deleted = 0
for at = 7, #KEYS do
  local name = KEYS[at]
  local r, fault = load(name)
  if fault then
    for _, index in ipairs({E, W}) do redis.call('ZREM', index, identity(name)) end
  elseif not visible(r) or (r.state == 'p' and r.marks and not r.number and r.total
      and r.lease_end <= NOW and r.created + r.total <= NOW) then
    if delete(name) then deleted = deleted + 1 end
  elseif r.state == 'p' then
    -- An entry that misled the sweeper is put right, or it would come first again and again.
    index_lease(identity(name), r)
    redis.call('ZREM', E, identity(name))
  else
    redis.call('ZREM', W, identity(name))
    redis.call('ZREM', E, identity(name))
    if r.expires then redis.call('ZADD', E, whole(r.expires), identity(name)) end
  end
end
return deleted
