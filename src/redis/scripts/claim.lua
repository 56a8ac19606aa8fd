-- Gives due rows to a token: the rule of spi::claim_filter, and the change that follows from it, in one step.
--
-- It looks at a part of the rows only, so that the server can serve others in between: the caller asks again and says
-- how many rows were left behind in each set. ARGV: token, limit, bytes, lease, max_crashes; flags: take_one, unowned
-- only, retries only, in order, keyed; the most rows of one key; skip_recent, floor ('' if there is none), the number
-- of rows to look at, those left before in `due` and in `leased` (in order: in `open`), the number of rows taken before;
-- the number of ids to leave, the ids; the number of pauses, a type and an aggregate type for each; the number of keys
-- of which rows were taken before, a key and the number of its rows for each.
local token, limit, most_bytes, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local max_crashes, take_one, unowned_only = tonumber(ARGV[5]), ARGV[6] == '1', ARGV[7] == '1'
local retries_only, in_order, keyed, run = ARGV[8] == '1', ARGV[9] == '1', ARGV[10] == '1', tonumber(ARGV[11])
local skip_recent, floor, budget = tonumber(ARGV[12]), ARGV[13], tonumber(ARGV[14])
local left_due, left_leased, taken = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])

local leave, pauses, taken_of = {}, {}, {}
local at = 19
for i = at, at + tonumber(ARGV[18]) - 1 do leave[ARGV[i]] = true end
at = at + tonumber(ARGV[18])
for i = at + 1, at + 2 * tonumber(ARGV[at]), 2 do
  pauses[ARGV[i]] = pauses[ARGV[i]] or {}
  pauses[ARGV[i]][ARGV[i + 1]] = true
end
at = at + 1 + 2 * tonumber(ARGV[at])
for i = at + 1, at + 2 * tonumber(ARGV[at]), 2 do taken_of[ARGV[i]] = tonumber(ARGV[i + 1]) end

local now = time_now()
local take, dead = {}, {}
local bytes, suspect_taken, stopped = 0, false, false
local more, suspects_waiting, lag, first_left, last_seen, young = false, false, -1, nil, nil, nil

local function paused(event_type, aggregate_type)
  local types = pauses[event_type]
  return types and (types[''] or types[aggregate_type])
end

local function too_young(r) return skip_recent > 0 and r.inserted > now - skip_recent end

local function note_young(r)
  local grown = r.inserted + skip_recent
  if not young or grown < young then young = grown end
end

local function take_row(r)
  local full = taken + #take >= limit or (taken + #take > 0 and bytes + r.size > most_bytes)
  if full then
    more = true
    return 'stop'
  end
  bytes = bytes + r.size
  return 'take'
end

local function by_due_instant(r)
  if retries_only and not r.tried then return 'leave' end
  if too_young(r) then
    note_young(r)
    return 'leave'
  end
  if r.owned and unowned_only then return 'leave' end
  if lag < 0 then lag = math.max(0, now - r.claimable) end
  local crashes = r.crashes + (r.owned and 1 or 0)
  -- In line, only a settlement can unblock the next row: the node settles it.
  if crashes >= max_crashes then return r.key and take_row(r) or 'dead' end
  local suspect = crashes == max_crashes - 1
  if suspect ~= take_one then
    suspects_waiting = suspects_waiting or suspect
    return 'leave'
  end
  return take_row(r)
end

local function by_seq(r)
  if r.claimable > now then return (r.tried or r.owned) and 'stop' or 'leave' end
  if too_young(r) then
    note_young(r)
    return 'stop'
  end
  if lag < 0 then lag = math.max(0, now - r.claimable) end
  local crashes = r.crashes + (r.owned and 1 or 0)
  if crashes >= max_crashes then return 'dead' end
  local suspect = crashes == max_crashes - 1
  if taken + #take > 0 and (suspect or suspect_taken) then
    more = true
    return 'stop'
  end
  suspect_taken = suspect
  return take_row(r)
end

-- What is read of a row, and answered of one that is taken: its names once, its values with the row. One read serves
-- both, and the names do not travel with each row: that was a fifth of a claim.
local wanted = {'event_type', 'aggregate_type', 'status', 'crashes', 'locked_by', 'inserted_at', 'size', 'last_error',
                'available_at', 'lease_until', 'blocked', 'seq', 'attempts', 'payload_kind', 'content_type',
                'created_at', 'aggregate_id', 'tenant_id', 'ordering_key', 'headers', 'progress'}
if keyed then wanted[#wanted + 1] = 'key' end

local function row_from(m, id, v, claimable)
  return {m = m, id = id, values = v, type = v[1], status = v[3], crashes = tonumber(v[4]) or 0, owned = v[5],
          inserted = tonumber(v[6]) or now, size = tonumber(v[7]) or 0, available = v[9],
          tried = v[3] == 'RETRY' or (v[8] and v[8] ~= ''), claimable = claimable}
end

-- What only a claim that keeps the order of keys needs. A row before another one is in the line of its key and has a
-- lower seq.
local became = {}  -- of rows in line that this part has looked at: what
local note = {due = {}, leased = {}}
-- Without the mark, no node would clear a note: rows that wait are left, and looked at again.
local marked = keyed and redis.call('HGET', p .. 'meta', 'keyed') == '1'
local any_blocked = keyed and redis.call('ZCARD', p .. 'blocked') > 0

local function neighbour(command, key, seq, last)
  return redis.call(command, line_of(key), '(' .. seq, last, 'LIMIT', 0, 1)[1]
end

-- Another program wrote it with a delay, so it belongs outside the order. No settlement has put it back: that would
-- have written its progress.
local function delayed_by_writer(b)
  local available = tonumber(b[3]) or now
  -- A row that was written or unblocked may be due later than now because a clock was set back or is ahead.
  local minute = 60000000
  return b[1] == 'NEW' and not b[2] and not b[5] and available > now + minute and
         available > (tonumber(b[4]) or 0) + minute
end

local function put_out_of_line(m, key, b)
  redis.call('ZREM', line_of(key), m)
  if not b[1] then return end  -- its hash was deleted by hand; what meets it in another set forgets it
  redis.call('HDEL', row_of(id_of(m)), 'blocked')
  if b[6] == '1' then
    redis.call('ZREM', p .. 'blocked', m)
    place(m, b[3], nil)
  end
end

-- Says `note` of a row that has to wait for another one of its key that this claim does not take: whatever else it is.
-- A suspect, say, that is not the first of its key must not make the node stand still.
local function waits(key, seq)
  while true do
    local m = neighbour('ZREVRANGEBYSCORE', key, seq, '-inf')
    if not m or became[m] == 'take' then break end
    if became[m] then return 'note' end
    local b = redis.call('HMGET', row_of(id_of(m)), 'status', 'locked_by', 'available_at', 'inserted_at', 'progress',
                         'blocked', 'crashes', 'last_error')
    -- An earlier part of this claim has taken it: its crashes may include this claim's.
    local alone = b[1] == 'RETRY' or (tonumber(b[7]) or 0) > 1 or (b[8] and b[8] ~= '')
    if b[2] == token and not alone then break end
    if b[1] and not delayed_by_writer(b) then return 'note' end
    put_out_of_line(m, key, b)
    if budget == 0 then
      more = true
      return 'leave'
    end
    budget = budget - 1
  end
  return (taken_of[key] or 0) >= run and 'note' or nil
end

-- Those behind a row that was tried before wait until it is over: each failure would claim and release them again, and
-- each crash would be counted as theirs too.
local function take_of_key(r)
  take[#take + 1] = r
  became[r.m] = (r.tried or r.crashes > 0) and 'alone' or 'take'
  taken_of[r.key] = (taken_of[r.key] or 0) + 1
end

-- Whether a row that is blocked goes with the row before it, which this claim takes.
local function goes_along(r, v)
  if not pending(v[3]) or v[11] ~= '1' or paused(v[1], v[2]) or leave[r.id] then return false end
  if r.claimable > now or too_young(r) then return false end
  if (r.owned and unowned_only) or (retries_only and not r.tried) then return false end
  return r.crashes + (r.owned and 1 or 0) < max_crashes - 1 and take_row(r) == 'take'
end

-- Takes the run of a row that was taken: the blocked rows behind it, without a gap. Of a row that was tried before only
-- itself: each failure would claim and release its whole run.
local function take_run(head)
  if not any_blocked or head.tried or head.crashes > 0 or head.owned or take_one then return end
  local room, seq = math.min(limit - taken - #take, run - taken_of[head.key]), head.values[12]
  while room > 0 and budget > 0 do
    local m = neighbour('ZRANGEBYSCORE', head.key, seq, '+inf')
    if not m then return end
    local id = id_of(m)
    local v = redis.call('HMGET', row_of(id), unpack(wanted))
    budget = budget - 1
    if v[3] then
      local r = row_from(m, id, v, math.max(tonumber(v[9]) or now, tonumber(v[10] or 0)))
      if not goes_along(r, v) then return end
      r.key, r.blocked, room, seq = head.key, true, room - 1, v[12]
      take_of_key(r)
    else
      redis.call('ZREM', line_of(head.key), m)
    end
  end
end

local function wait_for(m, claimable, wait, owned)
  last_seen = claimable
  if wait == 'note' then became[m] = wait end
  if wait == 'leave' or not marked then
    first_left = first_left or claimable
    return 'leave'
  end
  local rows = note[owned and 'leased' or 'due']
  rows[#rows + 1] = m
  return wait
end

-- What becomes of a row: take, dead, leave, note, stop; or gone, if it is not there or not for us.
local function consider(m, claimable)
  local id = id_of(m)
  local v = redis.call('HMGET', row_of(id), unpack(wanted))
  if not v[3] then
    forget(m)
    return 'gone'
  end
  if not pending(v[3]) or (in_order and v[11] == '1') then return 'leave' end
  local key = keyed and v[11] and v[22]
  if not in_order and leave[id] then return 'leave' end  -- it could not be changed, not even noted
  local wait = key and waits(key, v[12])
  if wait then return wait_for(m, claimable, wait, v[5]) end
  if paused(v[1], v[2]) then return 'leave' end
  local r = row_from(m, id, v, claimable)
  r.key = key
  local choice
  if in_order then
    r.claimable = math.max(tonumber(v[9]) or now, tonumber(v[10] or 0))
    choice = by_seq(r)
  else
    choice = by_due_instant(r)
    last_seen = r.claimable
    if (choice == 'leave' or choice == 'stop') and not first_left then first_left = r.claimable end
  end
  if choice == 'dead' then dead[#dead + 1] = r end
  if choice == 'take' and not key then take[#take + 1] = r end
  if choice == 'take' and key then
    take_of_key(r)
    take_run(r)
  end
  return choice
end

-- Walks a sorted set from a rank on, in pieces. With `up_to`, no further than that score.
local function walk(set, rank, up_to)
  local piece, next_in_piece = {}, 1
  local w = {left = 0}
  function w.peek()
    if next_in_piece > #piece then
      piece = redis.call('ZRANGE', p .. set, rank, rank + 63, 'WITHSCORES')
      rank = rank + 64
      next_in_piece = 1
    end
    local m, score = piece[next_in_piece], tonumber(piece[next_in_piece + 1])
    if not m or (up_to and score > up_to) then return nil end
    return m, score
  end
  function w.pass() next_in_piece = next_in_piece + 2 end
  -- It is not in the set any more: those behind it have moved up.
  function w.gone() rank = rank - 1 end
  return w
end

local function start_of(set, left)
  local before = floor ~= '' and redis.call('ZCOUNT', p .. set, '-inf', '(' .. floor) or 0
  return before + left
end

local looked_at_all, looked_up_to = true, nil
local due = in_order and walk('open', left_due) or walk('due', start_of('due', left_due), now)
local leased = not in_order and walk('leased', start_of('leased', left_leased), now)
while true do
  local m, score = due.peek()
  local from = due
  if leased then
    local other, other_score = leased.peek()
    if other and (not m or other_score < score or (other_score == score and other < m)) then
      m, score, from = other, other_score, leased
    end
  end
  if not m then break end
  if budget == 0 then
    looked_at_all = suspect_taken  -- nothing may follow it
    more = more or suspect_taken
    break
  end
  budget = budget - 1
  local choice = consider(m, score)
  if choice == 'stop' then
    stopped = true
    break
  end
  looked_up_to = score
  -- In order, a row that is taken stays in its place.
  if choice == 'leave' or (in_order and choice == 'take') then from.left = from.left + 1 end
  if choice == 'gone' then from.gone() end
  from.pass()
end

-- When the next row can be claimed: the first one that is not paused. Beyond a hundred paused rows the next one counts,
-- paused or not.
local function first_after_now(set)
  local rows = redis.call('ZRANGEBYSCORE', p .. set, '(' .. text(now), '+inf', 'WITHSCORES', 'LIMIT', 0, next(pauses) and 101 or 1)
  for i = 1, #rows, 2 do
    local v = next(pauses) and redis.call('HMGET', row_of(id_of(rows[i])), 'event_type', 'aggregate_type')
    if not v or not paused(v[1], v[2]) or i > 200 then return tonumber(rows[i + 1]) end
  end
  return nil
end

local next_due = young
if not more then
  for _, set in ipairs({'due', 'leased'}) do
    local first = first_after_now(set)
    if first and (not next_due or first < next_due) then next_due = first end
  end
end

local answer_dead, answer_rows = {}, {}
for i, r in ipairs(dead) do
  local crashes = r.crashes + (r.owned and 1 or 0)
  unplace(r.m, r.owned)
  bury(r.m, r.id, r.status, now)
  redis.call('HSET', row_of(r.id), 'crashes', text(crashes), 'last_error',
             'crash budget exhausted: ' .. text(crashes) .. ' processes ended while they held this event')
  answer_dead[i] = {r.id, r.type, crashes}
end

local until_ = text(now + lease)
for i, r in ipairs(take) do
  -- A change that is allowed while the memory is full comes first: before Redis 7.0 all others are then allowed too.
  redis.call('ZREM', p .. (r.blocked and 'blocked' or r.owned and 'leased' or 'due'), r.m)
  if r.blocked then
    r.values[11] = '0'
    redis.call('HSET', row_of(r.id), 'blocked', '0')
  end
  if r.owned then
    r.values[4] = text(r.crashes + 1)
    redis.call('HSET', row_of(r.id), 'locked_by', token, 'lease_until', until_, 'crashes', r.values[4])
  else
    redis.call('HSET', row_of(r.id), 'locked_by', token, 'lease_until', until_)
  end
  redis.call('ZADD', p .. 'leased', until_, r.m)
  answer_rows[i] = {r.id, redis.call('GET', payload_of(r.id)), r.values}
end

-- Notes that rows wait: later claims do not see them, until the row before them leaves the line.
local notes = #note.due + #note.leased
for set, rows in pairs(note) do
  if #rows > 0 then redis.call('ZREM', p .. set, unpack(rows)) end
  for _, m in ipairs(rows) do
    redis.call('HSET', row_of(id_of(m)), 'blocked', '1')
    redis.call('ZADD', p .. 'blocked', seq_of(m), m)
  end
end

local function optional(n) return n and text(n) or '' end
return {text(now), more and 1 or 0, suspects_waiting and 1 or 0, optional(next_due), optional(lag >= 0 and lag or nil),
        optional(first_left), optional(last_seen), (stopped or looked_at_all) and 1 or 0, due.left,
        leased and leased.left or 0, text(bytes), answer_dead, answer_rows, wanted,
        optional(looked_up_to), notes}
