-- KEYS[1] names the layout of what is stored. ARGV: 1 the layout that this build writes, 2 whether
-- to set it, 3 whether replicas are waited for. A user who may not run some command would break off a script half-way, so none of
-- those is used at all: the answer is then a list with the command's name.
local K = KEYS[1]
local needed = {{'TIME'}, {'EVAL', 'return 1', '0'}, {'EVALSHA', 'x', '0'}, {'GET', K}, {'SET', K, ''},
  {'EXISTS', K}, {'DEL', K}, {'INCR', K}, {'PEXPIREAT', K, '1'}, {'HGET', K, ''}, {'HMGET', K, ''},
  {'HGETALL', K}, {'HEXISTS', K, ''}, {'HSET', K, '', ''}, {'HDEL', K, ''}, {'ZADD', K, '0', ''},
  {'ZREM', K, ''}, {'ZCARD', K}, {'ZCOUNT', K, '0', '0'}, {'ZRANGE', K, '0', '0'},
  {'ZRANGEBYSCORE', K, '0', '0'}, {'ZRANGEBYLEX', K, '-', '+'}}
if ARGV[3] == '1' then needed[#needed + 1] = {'WAIT', '0', '0'} end
for _, command in ipairs(needed) do
  if not redis.acl_check_cmd(unpack(command)) then return {command[1]} end
end
local found = redis.call('GET', K)
if not found and ARGV[2] == '1' then
  redis.call('SET', K, ARGV[1])
  return ARGV[1]
end
return found
