-- The claim table of the design, row by row.
-- ARGV: 1 wait, 2 owner, 3 operation, 4 marks begun, 5 lease, 6 retention or 'forever', 7 least
-- after completion, 8 policy, 9 attempts, 10 age limit or '', 11 incarnation or '', 12 randomness,
-- 13 has input, 14 input, then pairs of scheme and digest, the one that an insert writes first.
local R = KEYS[7]
local ID = identity(R)
local OWNER, OPERATION, POLICY = ARGV[2], ARGV[3], ARGV[8]
local LEASE_END = NOW + tonumber(ARGV[5])
local PRINTS = 15

local function compare(r)
  if r.scheme == 0 or tonumber(ARGV[PRINTS]) == 0 then return 'incomparable' end
  for at = PRINTS, #ARGV, 2 do
    if tonumber(ARGV[at]) == r.scheme then
      return ARGV[at + 1] == r.digest and 'same' or 'differs'
    end
  end
  return 'unknown'
end

-- Differs from every earlier incarnation: the count never restarts while the server keeps its
-- data, and the time and the caller's randomness tell lives apart if it ever lost them.
local function fresh_incarnation()
  local lives = redis.call('INCR', N)
  local hex = redis.sha1hex(whole(lives) .. ':' .. whole(NOW) .. ':' .. ARGV[12])
  return (string.gsub(string.sub(hex, 1, 32), '%x%x', function(byte)
    return string.char(tonumber(byte, 16))
  end))
end

local function insert(replaced)
  local life = fresh_incarnation()
  local r = {lease_end = LEASE_END, created = NOW, marks = ARGV[4] == '1', total = tonumber(ARGV[6])}
  index_lease(ID, r)
  redis.call('ZREM', E, ID)
  redis.call('DEL', R)
  local fields = {'v', '1', 'st', 'p', 'op', OPERATION, 'fs', ARGV[PRINTS], 'fd', ARGV[PRINTS + 1],
    'at', '1', 'ow', OWNER, 'ic', life, 'ca', whole(NOW), 'rt', ARGV[6], 'ra', ARGV[7],
    'mb', ARGV[4], 'lu', whole(LEASE_END), 'gu', '0'}
  if ARGV[13] == '1' then
    fields[#fields + 1] = 'in'
    fields[#fields + 1] = ARGV[14]
  end
  redis.call('HSET', R, unpack(fields))
  return {'inserted', whole(NOW), life, whole(LEASE_END - NOW), replaced}
end

local function hold(r, lease_end)
  local payload, input = redis.call('HGET', R, 'rp'), redis.call('HGET', R, 'in')
  r.lease_end, r.owner = lease_end, OWNER
  index_lease(ID, r)
  redis.call('HSET', R, 'at', whole(r.attempt), 'ow', OWNER, 'lu', whole(lease_end),
    'gu', r.given_up and '1' or '0', 'mb', r.marks and '1' or '0')
  return {'held', whole(NOW), r.incarnation, whole(r.attempt), whole(lease_end - NOW),
    whole(math.max(0, NOW - r.created)), whole(r.scheme), r.digest, whole(r.number or 0), payload, input}
end

local function is_reusable(r)
  return r.state == 'p' and r.lease_end <= NOW and not r.number and POLICY ~= 'only'
    and (r.marks or (r.total ~= nil and r.created + r.total <= NOW))
end

local function may_take_over(r)
  if r.attempt >= MOST_ATTEMPTS then return false end
  if POLICY == 'never' then return not r.number end
  local young = ARGV[10] == '' or NOW < r.created + tonumber(ARGV[10])
  if POLICY == 'below' then return young and r.attempt < tonumber(ARGV[9]) end
  return young and r.incarnation == ARGV[11] and r.attempt == tonumber(ARGV[9])
end

local found, fault = load(R)
if fault then return {fault, whole(NOW)} end
local r = visible(found)
if not r then
  if POLICY == 'only' then return {'gone', whole(NOW)} end
  return insert('0')
end
-- The same call again (R5). Where the lease was given up it stays so.
if r.state == 'p' and r.owner == OWNER then return hold(r, math.max(LEASE_END, r.lease_end)) end
local comparison = compare(r)
if comparison == 'unknown' then return {'scheme', whole(NOW)} end
if r.operation ~= OPERATION or comparison == 'differs' then
  if is_reusable(r) then return insert('1') end
  return {'mismatch', whole(NOW), r.state == 'c' and '1' or '0'}
end
if r.state == 'c' then
  local reply = redis.call('HGET', R, 're')
  local left = r.expires and whole(r.expires - NOW) or ''
  return standing({'completed', whole(NOW), reply, left, r.incarnation, whole(r.attempt), r.owner})
end
if r.lease_end > NOW then return {'in-progress', whole(NOW), whole(r.lease_end - NOW)} end
if not may_take_over(r) then return {'lapsed', whole(NOW), whole(r.attempt), whole(NOW - r.lease_end)} end
-- Without a recovery point a record that marks begun began nothing. That stays true only while
-- everyone who holds it marks.
r.attempt, r.given_up, r.marks = r.attempt + 1, false, r.marks and ARGV[4] == '1'
return hold(r, LEASE_END)
