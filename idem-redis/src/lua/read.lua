-- KEYS are records. Each comes back as its fields, as nil, or as what is wrong with it.
local answer = {whole(NOW)}
for _, name in ipairs(KEYS) do
  local fields = redis.pcall('HGETALL', name)
  if fields.err then
    fields = 'corrupt'
  elseif #fields == 0 then
    fields = false
  end
  answer[#answer + 1] = fields
end
return answer
