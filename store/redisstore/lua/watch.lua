-- KEYS: the mark that somebody watches names of the part. ARGV: for how many ms from now on. Answers since when, without a gap, releases have been published,
-- in µs of the server's clock.
local since = redis.call('GET', KEYS[1])
if not since then
  local clock = redis.call('TIME')
  since = string.format('%.0f', clock[1] * 1000000 + clock[2])
end
local mark = {'SET', KEYS[1], since, 'PX', ARGV[1]}
if redis.pcall(unpack(mark)).err then -- when memory is full a command that writes must come first that takes none
  redis.call('PERSIST', KEYS[1])
  redis.call(unpack(mark))
end
local answer = since
