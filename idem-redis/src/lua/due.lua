-- What came due in some indexes: KEYS are sorted sets by time. ARGV: 1 a time or '', 2 an identity,
-- 3 how many. Entries after (time, identity), each index on its own; those of one instant stand in
-- the order of their identities.
local most = tonumber(ARGV[3])
local least = ARGV[1] == '' and '-inf' or ARGV[1]
local answer = {whole(NOW)}
for _, index in ipairs(KEYS) do
  local taken, offset = {}, 0
  repeat
    local part = redis.call('ZRANGEBYSCORE', index, least, whole(NOW), 'WITHSCORES', 'LIMIT', offset, most)
    for at = 1, #part, 2 do
      local id, score = part[at], part[at + 1]
      local behind = ARGV[1] ~= '' and tonumber(score) == tonumber(ARGV[1]) and id <= ARGV[2]
      if not behind and #taken < 2 * most then
        taken[#taken + 1] = id
        taken[#taken + 1] = whole(tonumber(score))
      end
    end
    offset = offset + most
  until #part < 2 * most or #taken >= 2 * most
  answer[#answer + 1] = taken
end
return answer
