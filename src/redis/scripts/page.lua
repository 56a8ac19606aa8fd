-- Reads rows that match a filter, a page at a time. ARGV: what to answer of each row (whole, head: without the payload,
-- id; parked: the id of those that park a key); order (oldest or newest first); the seq to begin behind ('' to begin at the end); the number of rows to look at
-- and to answer; the filter: statuses, newest ('' if it is not set), event type, aggregate type, aggregate id, tenant,
-- key, older than, younger than, died by; the number of ids, the ids (then only these are looked at, all of them).
-- Answers the seq to go on behind ('' if there is no more), and the rows.
local what, oldest_first, behind = ARGV[1], ARGV[2] == 'oldest', ARGV[3]
local look, limit = tonumber(ARGV[4]), tonumber(ARGV[5])
local statuses, newest = ARGV[6], ARGV[7]
local texts = {ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]}
local older_than, younger_than, died_by = ARGV[13], ARGV[14], ARGV[15]
local now = time_now()

local sets = {}
local function wants(status) return statuses == '' or string.find(statuses, status, 1, true) end
if wants('NEW') or wants('RETRY') then sets[#sets + 1] = 'open' end
if wants('DONE') then sets[#sets + 1] = 'done' end
if wants('DEAD') then sets[#sets + 1] = 'dead' end
if what == 'parked' then sets = {'dead_in_line'} end

local function matches(id)
  local r = redis.call('HMGET', row_of(id), 'status', 'event_type', 'aggregate_type', 'aggregate_id', 'tenant_id', 'key',
                       'inserted_at', 'done_at')
  local status = r[1]
  if not status or not wants(status) then return false end
  for i = 1, 5 do
    if texts[i] ~= '' and texts[i] ~= r[i + 1] then return false end
  end
  local inserted = tonumber(r[7]) or now
  if older_than ~= '' and inserted > now - tonumber(older_than) then return false end
  if younger_than ~= '' and inserted <= now - tonumber(younger_than) then return false end
  if died_by ~= '' then
    local ended = not pending(status) and (tonumber(r[8]) or inserted)
    if not ended or ended > tonumber(died_by) then return false end
  end
  return true
end

local found = {}
local function add(id)
  if what == 'id' or what == 'parked' then
    found[#found + 1] = id
  else
    found[#found + 1] = {id, what == 'whole' and redis.call('GET', payload_of(id)) or '', redis.call('HGETALL', row_of(id))}
  end
end

local function before(a, b)
  if oldest_first then return a < b end
  return b < a
end

local by_seq = {}
if tonumber(ARGV[16]) > 0 then
  for i = 17, 16 + tonumber(ARGV[16]) do
    local seq = redis.call('HGET', row_of(ARGV[i]), 'seq')
    if seq then by_seq[#by_seq + 1] = member(tonumber(seq), ARGV[i]) end
  end
  table.sort(by_seq, before)
  for i = 1, #by_seq do
    if by_seq[i] ~= by_seq[i - 1] and #found < limit and matches(id_of(by_seq[i])) then add(id_of(by_seq[i])) end
  end
  return {'', found}
end

-- The last seq that rows may have to be among the newest.
local lowest = 0
if newest ~= '' then
  for _, set in ipairs({'open', 'done', 'dead'}) do
    local last = redis.call('ZREVRANGE', p .. set, 0, 0)[1]
    if last then lowest = math.max(lowest, seq_of(last) - tonumber(newest)) end
  end
end

local more = false
for _, set in ipairs(sets) do
  local rows
  if oldest_first then
    local from = behind ~= '' and math.max(tonumber(behind), lowest) or lowest
    rows = redis.call('ZRANGEBYSCORE', p .. set, '(' .. text(from), '+inf', 'LIMIT', 0, look)
  else
    rows = redis.call('ZREVRANGEBYSCORE', p .. set, behind ~= '' and '(' .. behind or '+inf', '(' .. text(lowest), 'LIMIT', 0, look)
  end
  more = more or #rows == look
  for _, m in ipairs(rows) do by_seq[#by_seq + 1] = m end
end
table.sort(by_seq, before)

local last, looked = '', 0
while looked < math.min(look, #by_seq) and #found < limit do
  looked = looked + 1
  local id = id_of(by_seq[looked])
  last = text(seq_of(by_seq[looked]))
  if matches(id) then add(id) end
end
return {(more or looked < #by_seq) and last or '', found}
