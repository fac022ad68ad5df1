-- Counts of one partition, from its indexes alone.
local I, F, B, E = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now = whole(NOW)
local oldest = -1
for _, index in ipairs({F, B}) do
  local first = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
  if #first > 0 and tonumber(first[2]) <= NOW then oldest = math.max(oldest, NOW - tonumber(first[2])) end
end
local fresh, begun = redis.call('ZCARD', F), redis.call('ZCARD', B)
local fresh_lapsed = redis.call('ZCOUNT', F, '-inf', now)
local begun_lapsed = redis.call('ZCOUNT', B, '-inf', now)
local expired = redis.call('ZCOUNT', E, '-inf', now)
local kept = redis.call('ZCARD', I) - fresh - begun - expired
return {fresh + begun - fresh_lapsed - begun_lapsed, begun_lapsed, fresh_lapsed, math.max(0, kept), expired,
  whole(oldest)}
