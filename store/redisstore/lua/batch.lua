-- values reads keys, of which the first n are records. MGET passes by what is no string.
local function values(keys, n)
  if #keys == 1 then return {redis.pcall('GET', keys[1])} end
  local read = redis.call('MGET', unpack(keys))
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
