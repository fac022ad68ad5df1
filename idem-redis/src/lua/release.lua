-- ARGV: 1 wait, 2-4 fence.
local r = visible(found)
if not r then return standing({'gone', whole(NOW)}) end
if not is_under(r) or r.state == 'c' then return {'lost', whole(NOW)} end
if r.attempt > 1 or r.number then return {'begun', whole(NOW)} end
delete(R)
return {'gone', whole(NOW)}
