-- usual is what the usual claim writes, and the token: of a name that is free and whose record is plain. It returns nil of any other, which is left to the
-- functions of acquire.lua, as whatever is not as usual is. They do the same with more work.
usual = function(v, holder, ttl)
  local r, w, t, u, _, e, d = plain(v)
  if r ~= 1 or u > now or t >= exact then return nil end
  local token = t < now and now or t + 1
  return struct.pack(form, version, 0, w, 0, token, now + ttl, now, e, d, #holder, 1, 0) .. holder .. '0', token
end

-- One claim needs none of the functions that follow, which the server would make anew. Its answers are as those of answer.lua, but a refusal is one text: '!',
-- token, µs that are left and age as numbers that struct has packed, and the holder.
if #KEYS == 1 and ARGV[6] == '' then
  local v, holder = redis.pcall('GET', KEYS[1]), ARGV[4]
  local written, token = usual(v, holder, ARGV[5])
  if written then
    redis.call('SET', KEYS[1], written)
    return ARGV[7] .. ' ' .. struct.pack('<d', token)
  end
  local r, _, t, u, g, _, _, before = plain(v)
  if r and u > now and t < exact and (r == 1 or before ~= holder) then
    return ARGV[7] .. '!' .. struct.pack('<ddd', t, u - now, g < now and now - g or 0) .. (r == 1 and '' or before)
  end
end
