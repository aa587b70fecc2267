-- usual is what the usual release writes: of a live lease whose record is plain and is due for a sweep early enough, which nobody stands in line for, and which
-- leaves nothing. It returns nil of any other, which is left to the functions of release.lua. They do the same with more work.
usual = function(v, holder, token)
  local r, w, t, u, g, e, d, before = plain(v)
  if r ~= 0 or w ~= 0 or u <= now or d == 0 or d > now or t ~= tonumber(token) or before ~= holder then return nil end
  return struct.pack(form, version, 1, 0, 0, t, 0, g, now, d, #holder, 1, 0) .. holder .. '0'
end

-- One release, whose end nobody watches, needs none of the functions that follow, which the server would make anew.
if #KEYS == 1 and ARGV[2] == '0' and ARGV[6] == '' then
  local read = redis.call('MGET', KEYS[1], ARGV[1] .. 'watched')
  local written = not read[2] and usual(read[1], ARGV[4], ARGV[5])
  if written and not redis.pcall('SET', KEYS[1], written).err then return ARGV[8] .. ' \0\0\0\0\0\0\240\63' end -- 1, as struct packs it
end
