-- values reads keys, of which the first n are records. MGET passes by what is no string. Lua gives one command at most some 8,000 keys.
local function values(keys, n)
  if #keys == 1 then return {redis.pcall('GET', keys[1])} end
  local read, most = {}, 1000
  for from = 1, #keys, most do
    for i, v in ipairs(redis.call('MGET', unpack(keys, from, math.min(from + most - 1, #keys)))) do read[from + i - 1] = v end
  end
  for i = 1, n do
    if not read[i] then read[i] = redis.pcall('GET', keys[i]) end
  end
  return read
end

-- records returns every key of a record in KEYS, and then also.
local function records(stride, also)
  local keys = {}
  for i = 1, #KEYS, stride do keys[#keys + 1] = KEYS[i] end
  keys[#keys + 1] = also
  return keys, #KEYS / stride
end
