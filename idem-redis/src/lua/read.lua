-- KEYS are records. Each comes back as its fields, as nil, or as what is wrong with it. Once they
-- have more bytes than ARGV[1] the rest is put off; the first never is.
local left = tonumber(ARGV[1])
local answer = {whole(NOW)}
for _, name in ipairs(KEYS) do
  local fields = 'later'
  if left > 0 then
    fields = redis.pcall('HGETALL', name)
    if fields.err then
      fields = 'corrupt'
    elseif #fields == 0 then
      fields = false
    else
      for _, part in ipairs(fields) do left = left - #part end
    end
  end
  answer[#answer + 1] = fields
end
return answer
