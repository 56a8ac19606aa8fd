-- Gives due rows to a token: the rule of spi::claim_filter, and the change that follows from it, in one step.
--
-- It looks at a part of the rows only, so that the server can serve others in between: the caller asks again and says
-- how many rows were left behind in each set. ARGV: token, limit, bytes, lease, max_crashes; flags: take_one, unowned
-- only, retries only, in order; skip_recent, floor ('' if there is none), the number of rows to look at, those left
-- before in `due` and in `leased` (in order: in `open`), the number of rows taken before; the number of ids to leave,
-- the ids; the number of pauses, a type and an aggregate type for each.
local token, limit, most_bytes, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local max_crashes, take_one, unowned_only = tonumber(ARGV[5]), ARGV[6] == '1', ARGV[7] == '1'
local retries_only, in_order = ARGV[8] == '1', ARGV[9] == '1'
local skip_recent, floor, budget = tonumber(ARGV[10]), ARGV[11], tonumber(ARGV[12])
local left_due, left_leased, taken = tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15])

local leave, pauses = {}, {}
local at = 17
for i = at, at + tonumber(ARGV[16]) - 1 do leave[ARGV[i]] = true end
at = at + tonumber(ARGV[16])
for i = at + 1, at + 2 * tonumber(ARGV[at]), 2 do
  pauses[ARGV[i]] = pauses[ARGV[i]] or {}
  pauses[ARGV[i]][ARGV[i + 1]] = true
end

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
  if crashes >= max_crashes then return 'dead' end
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

-- What becomes of a row: take, dead, leave, stop; or gone, if it is not there or not for us.
local function consider(m, claimable)
  local id = id_of(m)
  local v = redis.call('HMGET', row_of(id), unpack(wanted))
  if not v[3] then
    forget(m)
    return 'gone'
  end
  if not pending(v[3]) or (in_order and v[11] == '1') then return 'leave' end
  if paused(v[1], v[2]) or (not in_order and leave[id]) then return 'leave' end
  local r = {m = m, id = id, values = v, type = v[1], status = v[3], crashes = tonumber(v[4]) or 0, owned = v[5],
             inserted = tonumber(v[6]) or now, size = tonumber(v[7]) or 0, available = v[9],
             tried = v[3] == 'RETRY' or (v[8] and v[8] ~= ''), claimable = claimable}
  local choice
  if in_order then
    r.claimable = math.max(tonumber(v[9]) or now, tonumber(v[10] or 0))
    choice = by_seq(r)
  else
    choice = by_due_instant(r)
    last_seen = r.claimable
    if (choice == 'leave' or choice == 'stop') and not first_left then first_left = r.claimable end
  end
  if choice == 'take' then take[#take + 1] = r end
  if choice == 'dead' then dead[#dead + 1] = r end
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
  redis.call('ZREM', p .. (r.owned and 'leased' or 'due'), r.m)
  if r.owned then
    r.values[4] = text(r.crashes + 1)
    redis.call('HSET', row_of(r.id), 'locked_by', token, 'lease_until', until_, 'crashes', r.values[4])
  else
    redis.call('HSET', row_of(r.id), 'locked_by', token, 'lease_until', until_)
  end
  redis.call('ZADD', p .. 'leased', until_, r.m)
  answer_rows[i] = {r.id, redis.call('GET', payload_of(r.id)), r.values}
end

local function optional(n) return n and text(n) or '' end
return {text(now), more and 1 or 0, suspects_waiting and 1 or 0, optional(next_due), optional(lag >= 0 and lag or nil),
        optional(first_left), optional(last_seen), (stopped or looked_at_all) and 1 or 0, due.left,
        leased and leased.left or 0, text(bytes), answer_dead, answer_rows, wanted,
        optional(looked_up_to)}
