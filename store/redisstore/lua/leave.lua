-- KEYS: the line's holders by when they came, and what they want. ARGV: the holder. Answers 1 if it had a place.
redis.call('HDEL', KEYS[2], ARGV[1])
local answer = redis.call('ZREM', KEYS[1], ARGV[1])
