-- KEYS[1] names the layout of what is stored. ARGV: 1 the layout that this build writes, 2 whether to set it.
local found = redis.call('GET', KEYS[1])
if not found and ARGV[2] == '1' then
  redis.call('SET', KEYS[1], ARGV[1])
  return ARGV[1]
end
return found
