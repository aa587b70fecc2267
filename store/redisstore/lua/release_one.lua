-- The usual release, without the functions that follow, which the server would make anew: of one live lease, whose record has neither mark nor state and
-- is due for a sweep early enough; nobody stands in its line or watches, and it leaves nothing. What it does is what they do; whatever is not as usual is left
-- to them.
if #KEYS == 1 and ARGV[2] == '0' and ARGV[6] == '' then
  local read = redis.call('MGET', KEYS[1], ARGV[1] .. 'watched')
  local v = read[1]
  if v and not read[2] and #v > head then
    local of, r, w, s, t, u, g, e, d, hs, ms, ps = struct.unpack(form, v)
    local usual = of == version and r == 0 and w == 0 and s == 0 and hs > 0 and ms == 1 and ps == 0 and #v == head + hs + 1
    if usual and t >= 1 and t <= exact and t % 1 == 0 and u > now and u <= exact and g >= 0 and g <= exact and e >= 0 and d > 0 and d <= now
      and t == tonumber(ARGV[5]) then
      local rest = ARGV[4] .. '0'
      if string.sub(v, head + 1) == rest then
        local done = redis.pcall('SET', KEYS[1], struct.pack(form, version, 1, 0, 0, t, now, g, now, d, hs, 1, 0) .. rest)
        if not done.err then return ARGV[8] .. ' \0\0\0\0\0\0\240\63' end -- 1, as struct packs it
      end
    end
  end
end
