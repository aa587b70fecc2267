-- plain unpacks a record as most are, which has neither mark nor state nor a shared key: r, w, t, u, g, e, d, holder. It returns nil of any other, and of
-- what is no record.
local function plain(v)
  if type(v) ~= 'string' or #v <= head then return nil end
  local of, r, w, s, t, u, g, e, d, hs, ms, ps = struct.unpack(form, v)
  if of ~= version or r > 1 or w > 1 or s ~= 0 or hs == 0 or ms ~= 1 or ps ~= 0 or #v ~= head + hs + 1 or string.byte(v, -1) ~= 48 then return nil end
  if not (t >= 1 and t <= exact and t % 1 == 0 and u >= 0 and u <= exact and g >= 0 and g <= exact and e >= 0 and d >= 0) then return nil end
  return r, w, t, u, g, e, d, string.sub(v, head + 1, -2)
end
