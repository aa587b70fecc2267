-- What scripts that read records begin with. A record is a string: numbers that struct has packed, then three texts. Its fields are version, r released,
-- w somebody may stand in its line, s it has a state, t token, u until (0 after a release without a linger: the name is free by any clock), g granted, e
-- how long it must be kept (math.huge for ever), d its score in due (0 if it is not there), and as long as they are h holder, m mark, p what stands in the
-- key that is shared with other libraries: a string, or 'r:' and the field of Redisson's hash. Instants are microseconds of the server's clock; they and
-- tokens are exact in a double until 2255. Marks may be larger, so they stay texts. ARGV[1] is what all keys of the part begin with.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local form, head, version = '<BBBBdddddBBH', 48, 1
local exact, int64 = 9007199254740991, '9223372036854775807'
local usual = nil -- a function where a script has a short way for what is usual
