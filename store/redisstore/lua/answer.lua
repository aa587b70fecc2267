-- What all scripts end with. An answer begins with the tag of its request, which is the last of ARGV: that of another request, on a connection
-- whose returns are out of step with what was asked, is not believed. An answer of numbers alone is one text, in which struct has packed them: that is less work
-- for both sides.
local tag = ARGV[#ARGV]
if type(answer) ~= 'table' then return {tag, answer} end
local texts = {tag, ' '}
for i, v in ipairs(answer) do
  if type(v) ~= 'number' then return {tag, answer} end
  texts[i + 2] = struct.pack('<d', v)
end
return table.concat(texts)
