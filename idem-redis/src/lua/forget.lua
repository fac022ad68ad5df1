-- KEYS from the seventh on are records of the scope. ARGV[2] is how many may go.
local deleted, in_progress, left = 0, 0, 0
for at = 7, #KEYS do
  local name = KEYS[at]
  local r, fault = load(name)
  if fault then
    return {fault}
  elseif r and r.state == 'p' then
    in_progress = in_progress + 1
  elseif deleted < tonumber(ARGV[2]) then
    if delete(name) then deleted = deleted + 1 end
  else
    left = left + 1
  end
end
return {'forgotten', deleted, in_progress, left}
