-- Clears notes that rows wait for another row of their key. ARGV: which ones, and
--   heads: of rows that are the first in line of their key, or have none.
--   all: of every row.
-- The number of rows to clear them of, and to look at; the last row that was looked at before and its score, or ''.
-- Answers the number of rows, the last row that was looked at and its score; '' if there are no more.
local now = time_now()
local all, limit, look, last, score = ARGV[1] == 'all', tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local from = last ~= '' and rank_behind('blocked', last, score) or 0
local rows = redis.call('ZRANGE', p .. 'blocked', from, from + look - 1, 'WITHSCORES')
local first, healed, more = {}, 0, #rows == 2 * look

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

for i = 1, #rows, 2 do
  local m = rows[i]
  local r = redis.call('HMGET', row_of(id_of(m)), 'key', 'status')
  if not r[2] then
    forget(m)
  elseif pending(r[2]) and waits_for_none(m, r[1]) then
    unblock(m, now)
    healed = healed + 1
  end
  last, score = m, rows[i + 1]
  if healed == limit then
    more = true
    break
  end
end
return {healed, more and last or '', more and score or ''}
