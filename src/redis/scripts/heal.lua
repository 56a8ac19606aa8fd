-- Clears notes that rows wait for another row of their key. ARGV: which ones, and
--   heads: of rows that are the first in line of their key, or have none; the number of rows to clear them of, those to
--     look at, those to pass over first.
--   all: of every row; the number of rows, the number of rows to look at, 0.
-- Answers the number of rows, those passed over in all, whether there are more.
local now = time_now()
local all, limit, look, passed = ARGV[1] == 'all', tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local rows = redis.call('ZRANGE', p .. 'blocked', passed, passed + look - 1)
local first, healed = {}, 0

-- Asked once for each key: a long line would be looked up for each of its rows.
local function first_in_line(key)
  if first[key] == nil then first[key] = next_in_line(key, '-1') or false end
  return first[key]
end

local function waits_for_none(m, key)
  if all or not key then return true end
  local head = first_in_line(key)
  return not head or head == m
end

for _, m in ipairs(rows) do
  local r = redis.call('HMGET', row_of(id_of(m)), 'key', 'status')
  if not r[2] then
    forget(m)
  elseif healed < limit and pending(r[2]) and waits_for_none(m, r[1]) then
    unblock(m, now)
    healed = healed + 1
  else
    passed = passed + 1
  end
end
return {healed, passed, #rows == look and healed < limit and 1 or 0}
