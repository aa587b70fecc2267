-- KEYS: the bucket's counter, names and due, then of each claim its record and the key that is shared with Java clients, or the record
-- again. ARGV: where the name begins in a record's key, '1' if a grant that is asked for again is written again, then of each claim:
-- holder, TTL in µs, mark, what to write into the shared key or ''. Answers of each: {'granted', token, mark, state, abandoned µs},
-- {'held' or 'done', holder, token, mark, left µs, age µs, state}, or {'overflow'}. What is refused writes nothing.
local answers, first = {}, tonumber(ARGV[1])
for i = 4, #KEYS, 2 do
  local key, peer, at = KEYS[i], KEYS[i + 1], 3 + (i - 4) * 2
  local holder, ttl, mark, value = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  local rec, answer, who, lasts = read(key, 's'), nil, nil, nil
  local negative = string.sub(mark, 1, 1) == '-'
  if rec and live(rec, holder, rec.t, peer) then
    if ARGV[2] == '1' then redis.call('HSET', key, 'h', holder) end
    answer = {'granted', rec.t, rec.m, rec.s or '', '0'}
  elseif negative or (mark ~= '0' and rec and not less(rec.m, mark)) then
    local h, t, m, left, age = told(rec)
    answer = {'done', h, t, m, left, age, rec and rec.s or ''}
  else
    who, lasts = foreign(rec, peer, value)
    if who then
      answer = {'held', who, rec and rec.t or '0', rec and rec.m or '0', int(lasts), '0', ''}
    elseif rec and rec.u > now and (rec.h ~= holder or rec.r) then
      local h, t, m, left, age = told(rec)
      answer = {'held', h, t, m, left, age, ''}
    else
      local abandoned = '0'
      if rec and not rec.r then abandoned = int(math.max(1, now - rec.g)) end
      local token = grant(key, rec, first, holder, ttl, KEYS[1], KEYS[2])
      if token then
        answer = {'granted', token, rec and rec.m or '0', rec and rec.s or '', abandoned}
        if value ~= '' then share(key, peer, value, ttl) end
      else
        answer = {'overflow'}
      end
    end
  end
  answers[#answers + 1] = answer
end
return answers
