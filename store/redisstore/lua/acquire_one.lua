-- The usual claim, without the functions that follow, which the server would make anew: of one name that is free or in the way, and whose record has
-- neither mark nor state. What it does is what they do; whatever is not as usual is left to them.
if #KEYS == 1 and ARGV[6] == '' then
  local v = redis.pcall('GET', KEYS[1])
  if type(v) == 'string' and #v > head then
    local of, r, w, s, t, u, g, e, d, hs, ms, ps = struct.unpack(form, v)
    local usual = of == version and r <= 1 and w <= 1 and s == 0 and hs > 0 and ms == 1 and ps == 0 and #v == head + hs + 1 and string.sub(v, -1) == '0'
    if usual and t >= 1 and t < exact and t % 1 == 0 and u >= 0 and u <= exact and g >= 0 and g <= exact and e >= 0 and d >= 0 then
      local holder, before = ARGV[4], string.sub(v, head + 1, -2)
      if u <= now and r == 1 then
        local token = math.max(now, t + 1)
        redis.call('SET', KEYS[1], struct.pack(form, version, 0, w, 0, token, now + tonumber(ARGV[5]), now, e, d, #holder, 1, 0) .. holder .. '0')
        return string.format('%s %.0f', ARGV[7], token)
      elseif u > now and (r == 1 or before ~= holder) then
        return {ARGV[7], {{'held', r == 1 and '' or before, t, '0', u - now, math.max(0, now - g), ''}}}
      end
    end
  end
end
