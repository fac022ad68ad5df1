-- For tests: the caller's clock, its time sent last. The server's own expiry goes by the server's
-- clock, so it is left out.
local function whole(n) return string.format('%.0f', n) end
local NOW = tonumber(table.remove(ARGV))
local NATIVE_EXPIRY = false
