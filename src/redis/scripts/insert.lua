-- Inserts rows, all or none. ARGV: whether to tell the row before each ('1'), the number of rows; for each its id,
-- token, lease, available_at (empty: now), delay, key, payload, the number of further words, and these: names and values.
-- Answers the first seq, then, if they were asked for, the ids of the rows before: nil where that cannot be told.
local p = KEYS[1]
local ask, count = ARGV[1] == '1', tonumber(ARGV[2])

local at = 3
local seen = {}
for _ = 1, count do
  local id = ARGV[at]
  if seen[id] or redis.call('EXISTS', p .. 'event:' .. id) == 1 then return {err = 'OUTBOX_DUPLICATE ' .. id} end
  seen[id] = true
  at = at + 8 + tonumber(ARGV[at + 7])
end

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local seq = redis.call('HINCRBY', p .. 'figures', 'seq', count) - count
local answer = {seq + 1}
at = 3
for i = 1, count do
  local words = tonumber(ARGV[at + 7])
  local fields = {unpack(ARGV, at + 8, at + 7 + words)}
  local before = outbox.insert(p, now, seq + i, ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3],
                               tonumber(ARGV[at + 4]), ARGV[at + 5], ARGV[at + 6], fields, ask)
  if ask then answer[i + 1] = before end
  at = at + 8 + words
end
return answer
