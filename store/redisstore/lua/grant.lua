-- floor is what the first token of a name must be above: the greatest that was forgotten in the part. Only sweep.lua raises it.
local least = nil
local function floor(key)
  if not least then
    local text = redis.call('GET', key) or '0'
    if not whole(text, int(exact)) then corrupt(key, 'it is the greatest token that was forgotten, and is no number') end
    least = tonumber(text)
  end
  return least
end

-- grant makes of the record of a name that is free, or of none, the one of a lease, and returns it: the caller writes it. The token is greater than those before and than
-- above. It returns nil when the tokens are used up.
local function grant(key, rec, holder, ttl, above)
  local token = math.max(now, (rec and rec.t or floor(key_of('floor'))) + 1, above + 1)
  if token > exact then return nil end
  if not rec then return {key = key, new = true, r = false, w = false, s = false, t = token, u = now + ttl, g = now, e = 0, d = 0, h = holder, m = '0', p = ''} end
  rec.h, rec.r, rec.t, rec.u, rec.g, rec.p = holder, false, token, now + ttl, now, ''
  return rec
end

-- abandoned is how long ago a lease was granted that was not released; 0 if it was released.
local function abandoned(rec)
  if not rec or rec.r then return 0 end
  return math.max(1, now - rec.g)
end

-- granted is the answer to the one that has the lease: the token alone if there is no more to say.
local function granted(rec, left_behind, age)
  if rec.m == '0' and left_behind == '' and age == 0 then return rec.t end
  return {'granted', rec.t, rec.m, left_behind, age}
end

-- store writes records that were granted, and what else is in all: keys and values by turns. They come last: where the user lacks a right in between, the names stay free.
local function store(recs, all)
  local new = {}
  all = all or {}
  for _, rec in ipairs(recs) do
    if rec.new then new[#new + 1], new[#new + 2], rec.new = 0, name_of(rec.key), nil end
    all[#all + 1], all[#all + 2] = rec.key, packed(rec)
  end
  if #new > 0 then redis.call('ZADD', key_of('names'), unpack(new)) end
  if #all == 2 then redis.call('SET', all[1], all[2]) elseif #all > 0 then redis.call('MSET', unpack(all)) end
end
