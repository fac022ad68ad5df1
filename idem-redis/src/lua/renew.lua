-- ARGV: 1 wait, 2-4 fence, 5 lease (0 gives it up). Runs on a full server too: it adds nothing,
-- and a holder whose work goes on must not lose its lease for want of memory.
local r = visible(found)
if not r or not is_under(r) then return {'lost', whole(NOW)} end
if r.state == 'c' then return standing({'completed', whole(NOW)}) end
if r.given_up then return standing({'given-up', whole(NOW)}) end
local lease = tonumber(ARGV[5])
if lease == 0 then
  r.lease_end, r.given_up = math.min(NOW, r.lease_end), true
else
  r.lease_end = math.max(NOW + lease, r.lease_end)
end
index_lease(ID, r)
redis.call('HSET', R, 'lu', whole(r.lease_end), 'gu', r.given_up and '1' or '0')
if r.given_up then return {'given-up', whole(NOW)} end
return {'held', whole(NOW), whole(r.lease_end - NOW)}
