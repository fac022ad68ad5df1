-- The indexes of one partition: identities, leases without and with a recovery point, expiries of
-- replies, what never began and may be swept, and the count of lives. Records follow from KEYS[7].
local I, F, B, E, W, N = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local EXACT = 9007199254740992
local MOST_ATTEMPTS = 4294967295

-- A record's name is the partition's tag, 'r', and its identity; an index's is the tag and one letter.
local function identity(name) return string.sub(name, #I + 1) end

local function number(text, least, most)
  if not text or #text > 16 or not string.find(text, '^%d+$') then return nil end
  local n = tonumber(text)
  if n < least or n > most then return nil end
  return n
end

local function has(name, field) return redis.call('HEXISTS', name, field) == 1 end

local function is_sound(name, r, h)
  if not (r.operation and #r.operation > 0 and r.scheme and r.digest and #r.digest == 32) then return false end
  if not (r.attempt and r.owner and #r.owner == 16 and r.incarnation and #r.incarnation == 16) then return false end
  if not (r.created and (h[12] == '0' or h[12] == '1')) then return false end
  if h[10] ~= 'forever' and not (r.total and r.least) then return false end
  if r.state == 'p' then
    return r.lease_end ~= nil and (h[14] == '0' or h[14] == '1') and (not h[15] or r.number ~= nil)
      and has(name, 'rp') == (r.number ~= nil)
  end
  return r.state == 'c' and r.completed ~= nil and (h[17] == 'never' or r.expires ~= nil) and has(name, 're')
end

-- The record without its payloads; nil where there is none; nil and what is wrong with it.
local function load(name)
  local h = redis.pcall('HMGET', name, 'v', 'st', 'op', 'fs', 'fd', 'at', 'ow', 'ic', 'ca', 'rt',
    'ra', 'mb', 'lu', 'gu', 'rn', 'co', 'ex')
  if h.err then return nil, 'corrupt' end
  if not h[1] then
    if redis.call('EXISTS', name) == 0 then return nil end
    return nil, 'corrupt'
  end
  if h[1] ~= '1' then return nil, 'layout' end
  local r = {
    state = h[2], operation = h[3], scheme = number(h[4], 0, 255), digest = h[5],
    attempt = number(h[6], 1, MOST_ATTEMPTS), owner = h[7], incarnation = h[8],
    created = number(h[9], 0, EXACT), total = number(h[10], 0, EXACT), least = number(h[11], 0, EXACT),
    marks = h[12] == '1', lease_end = number(h[13], 0, EXACT), given_up = h[14] == '1',
    number = number(h[15], 1, MOST_ATTEMPTS), completed = number(h[16], 0, EXACT),
    expires = number(h[17], 0, EXACT),
  }
  if not is_sound(name, r, h) then return nil, 'corrupt' end
  return r
end

-- An expired reply counts as absent, whether it is still there or not (R11).
local function visible(r)
  if r and r.state == 'c' and r.expires and r.expires <= NOW then return nil end
  return r
end

-- Where a record in progress stands in the indexes. They are written before the record: an index
-- entry without a record is harmless, a record that no index knows is not. The first write is one
-- that a full server refuses, so nothing is written then.
local function index_lease(id, r)
  redis.call('ZADD', I, 0, id)
  local home, other = F, B
  if r.number then home, other = B, F end
  redis.call('ZADD', home, whole(r.lease_end), id)
  redis.call('ZREM', other, id)
  if r.marks and r.total and not r.number then
    redis.call('ZADD', W, whole(math.max(r.lease_end, r.created + r.total)), id)
  else
    redis.call('ZREM', W, id)
  end
end

-- Whether something stood: of two who delete a record one is told so.
local function delete(name)
  local id = identity(name)
  local stood = redis.call('DEL', name)
  for _, index in ipairs({I, F, B, E, W}) do stood = stood + redis.call('ZREM', index, id) end
  return stood > 0
end

-- An answer that rests on an earlier write. Where replicas are waited for (ARGV[1]) it makes a
-- write of its own: a server promises to wait for what this connection wrote, and no more.
local function standing(answer)
  if ARGV[1] == '1' then redis.call('INCR', N) end
  return answer
end
