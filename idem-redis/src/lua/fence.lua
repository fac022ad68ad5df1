-- The whole fence (R8): ARGV[2..4] are incarnation, attempt and owner.
local R = KEYS[7]
local ID = identity(R)
local function is_under(r)
  return r.incarnation == ARGV[2] and r.attempt == tonumber(ARGV[3]) and r.owner == ARGV[4]
end
local found, fault = load(R)
if fault then return {fault, whole(NOW)} end
