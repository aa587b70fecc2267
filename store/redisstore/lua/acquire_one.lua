-- The usual claim, without the functions that follow, which the server would make anew: of one name that is free or in the way, and whose record has
-- neither mark nor state. What it does is what they do; whatever is not as usual is left to them. Its answers are as those of answer.lua, but a refusal is one
-- text: '!', token, µs that are left and age as numbers that struct has packed, and the holder.
if #KEYS == 1 and ARGV[6] == '' then
  local v = redis.pcall('GET', KEYS[1])
  if type(v) == 'string' and #v > head then
    local of, r, w, s, t, u, g, e, d, hs, ms, ps = struct.unpack(form, v)
    local usual = of == version and r <= 1 and w <= 1 and s == 0 and hs > 0 and ms == 1 and ps == 0 and #v == head + hs + 1 and string.byte(v, -1) == 48
    if usual and t >= 1 and t < exact and t % 1 == 0 and u >= 0 and u <= exact and g >= 0 and g <= exact and e >= 0 and d >= 0 then
      local holder = ARGV[4]
      if u <= now and r == 1 then
        local token = t < now and now or t + 1
        redis.call('SET', KEYS[1], struct.pack(form, version, 0, w, 0, token, now + ARGV[5], now, e, d, #holder, 1, 0) .. holder .. '0')
        return ARGV[7] .. ' ' .. struct.pack('<d', token)
      elseif u > now then
        local before = string.sub(v, head + 1, -2)
        if r == 1 or before ~= holder then
          return ARGV[7] .. '!' .. struct.pack('<ddd', t, u - now, g < now and now - g or 0) .. (r == 1 and '' or before)
        end
      end
    end
  end
end
