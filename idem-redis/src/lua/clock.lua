-- The time is read once (R6). In whole microseconds it is exact in a double until the year 2255;
-- tostring would round it, so every number is written by whole().
local function whole(n) return string.format('%.0f', n) end
local time = redis.call('TIME')
local NOW = tonumber(time[1]) * 1000000 + tonumber(time[2])
local NATIVE_EXPIRY = true
