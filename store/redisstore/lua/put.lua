-- put writes even when memory is full: a server looks at its memory before the first write of a script only, and lets PERSIST
-- through, which changes nothing here.
local function put(...)
  local v = redis.pcall(...)
  if type(v) ~= 'table' or not v.err then return v end
  if not string.find(v.err, 'OOM', 1, true) then error(v) end
  redis.call('PERSIST', key_of('floor'))
  return redis.call(...)
end

-- put_state replaces the state of a record, which the caller then writes.
local function put_state(rec, state)
  local key = key_of('s:', name_of(rec.key))
  if state ~= '' then put('SET', key, state) elseif rec.s then redis.call('DEL', key) end
  rec.s = state ~= ''
end

-- put_all writes records, and what else is in all: keys and values by turns.
local function put_all(recs, all)
  all = all or {}
  for _, rec in ipairs(recs) do all[#all + 1], all[#all + 2] = rec.key, packed(rec) end
  if #all == 2 then put('SET', all[1], all[2]) elseif #all > 0 then put('MSET', unpack(all)) end
end
