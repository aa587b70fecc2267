-- KEYS: the bucket's names. ARGV: first and last name as for ZRANGEBYLEX, how many, what records' keys begin with. Answers of each:
-- {name, holder, token, mark, left µs, age µs, state}.
local answers = {}
for _, name in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])) do
  local key = ARGV[4] .. name
  local rec = read(key)
  if rec then
    local h, t, m, left, age = told(rec)
    answers[#answers + 1] = {name, h, t, m, left, age, state(key)}
  else -- somebody has deleted it
    answers[#answers + 1] = {name}
  end
end
return answers
