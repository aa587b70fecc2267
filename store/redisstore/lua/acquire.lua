-- KEYS: the bucket's counter, names and due, then of each claim its record and its peer, or the record again. ARGV: where the name begins
-- in a record's key, '1' if a grant that is asked for again is written again, then of each claim: holder, TTL in µs, mark, what to have
-- in the peer. Answers of each: {'granted', token, mark, state, abandoned µs}, {'held' or 'done', holder, token, mark, left µs, age µs,
-- state}, or {'overflow'}. What is refused writes nothing.
local answers = {}
for i = 4, #KEYS, 2 do
  local key, peer, at = KEYS[i], KEYS[i + 1], 3 + (i - 4) * 2
  local holder, mark, p = ARGV[at], ARGV[at + 2], ARGV[at + 3]
  local rec, answer = read(key), nil
  local other, left = foreign(rec, peer, p)
  if rec and live(rec, holder, rec.t, peer) then
    if ARGV[2] == '1' then redis.call('HSET', key, 'h', holder) end
    answer = {'granted', rec.t, rec.m, state(key), '0'}
  elseif string.sub(mark, 1, 1) == '-' or (mark ~= '0' and rec and not less(rec.m, mark)) then
    local h, t, m, l, age = told(rec)
    answer = {'done', h, t, m, l, age, rec and state(key) or ''}
  elseif other then
    answer = {'held', other, rec and rec.t or '0', rec and rec.m or '0', left, '0', ''}
  elseif rec and rec.u > now and (rec.h ~= holder or rec.r) then
    local h, t, m, l, age = told(rec)
    answer = {'held', h, t, m, l, age, ''}
  else
    answer = grant(rec, key, peer, p, holder, tonumber(ARGV[at + 1]))
  end
  answers[#answers + 1] = answer
end
return answers
