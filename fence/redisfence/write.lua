-- KEYS: the resource's mark, then those of the write. ARGV: the token, then those of the write. Answers {'stale', mark}, or {'written',
-- what the write answers}. The write stands between this and the last line, as the body of a function. Tokens and marks are compared
-- as texts without leading zeros, for the numbers of Lua are exact up to 2^53 only.
local token, mark = ARGV[1], redis.call('GET', KEYS[1]) or '0'
if #token < #mark or (#token == #mark and token < mark) then return {'stale', mark} end
if token ~= mark then redis.call('SET', KEYS[1], token) end
local keys, args = {}, {}
for i = 2, #KEYS do keys[i - 1] = KEYS[i] end
for i = 2, #ARGV do args[i - 1] = ARGV[i] end
local function write(KEYS, ARGV)
