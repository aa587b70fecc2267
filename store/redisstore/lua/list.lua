-- KEYS: the bucket's names. ARGV: first and last name as for ZRANGEBYLEX, how many, what records' keys begin with. Answers of each:
-- {name, holder, token, mark, left µs, age µs, state}, {name} for one that is there no more, or {name, and as attempt}.
local function row(name)
  local key = ARGV[4] .. name
  local rec = read(key)
  if not rec then return {name} end -- somebody has deleted it
  local h, t, m, left, age = told(rec)
  return {name, h, t, m, left, age, state(key)}
end

local answer = {}
for _, name in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])) do
  local said = attempt(row, name)
  if #said ~= 1 and #said ~= 7 then said = {name, unpack(said)} end
  answer[#answer + 1] = said
end
