-- Reads for operators. ARGV: what to do, and
--   counts: nothing. Answers the numbers of pending, RETRY, DONE and DEAD rows.
--   types: a set, the rank to begin at, the number of rows. Answers type, aggregate type and status of each row.
--   figures: nothing. Answers what the sorted sets tell of the outbox.
--   delayed, waiting, grown: see there. They look at a part of the rows, from a rank on.
--   places: ids. Answers for each the seq and the id of the row before it; '' if that cannot be told.
--   parked: the rank among the dead rows in line to begin at, the number of rows. Answers for each dead row that is the first in
--     line of its key: key, id, when it died, and how many pending rows are behind it.
local now = time_now()
local verbs = {}

local function retrying() return redis.call('SCARD', p .. 'retrying') end
local function first_score(set, command)
  return redis.call(command, p .. set, 0, 0, 'WITHSCORES')[2] or ''
end

function verbs.counts()
  return {redis.call('ZCARD', p .. 'open'), retrying(), redis.call('ZCARD', p .. 'done'), redis.call('ZCARD', p .. 'dead')}
end

function verbs.types(set, rank, count)
  local answer = {}
  for _, m in ipairs(redis.call('ZRANGE', p .. set, rank, rank + count - 1)) do
    local r = redis.call('HMGET', row_of(id_of(m)), 'event_type', 'aggregate_type', 'status')
    for i = 1, 3 do answer[#answer + 1] = r[i] or '' end
  end
  return answer
end

-- The score of the first row that is due, of rows without and with an owner.
local function due_since()
  local first = nil
  for _, set in ipairs({'due', 'leased'}) do
    local score = tonumber(first_score(set, 'ZRANGE'))
    if score and score <= now and (not first or score < first) then first = score end
  end
  return first and text(first) or ''
end

function verbs.figures()
  local t = text(now)
  local minute_ago = '(' .. text(now - 60000000)
  local function count(set, from, to) return redis.call('ZCOUNT', p .. set, from, to) end
  return {t, redis.call('ZCARD', p .. 'due') + redis.call('ZCARD', p .. 'leased'), retrying(),
          count('leased', '(' .. t, '+inf'), count('due', '-inf', t) + count('leased', '-inf', t),
          redis.call('ZCARD', p .. 'dead'), due_since(), first_score('dead_at', 'ZREVRANGE'),
          first_score('done_at', 'ZREVRANGE'), count('done_at', minute_ago, '+inf'),
          count('dead_at', minute_ago, '+inf'), redis.call('ZCARD', p .. 'blocked')}
end

-- Rows without an owner that are not due yet. Answers how many are NEW, and how many were looked at.
function verbs.delayed(passed, count)
  local fresh = 0
  local rows = redis.call('ZRANGEBYSCORE', p .. 'due', '(' .. text(now), '+inf', 'LIMIT', passed, count)
  for _, m in ipairs(rows) do
    if redis.call('HGET', row_of(id_of(m)), 'status') == 'NEW' then fresh = fresh + 1 end
  end
  return {fresh, #rows}
end

-- Since when the oldest pending row waits that is not delayed. Rows come by seq, so the first one that was due at once
-- ends the search: all behind it were inserted later. Answers an instant, or '', and whether the search has ended.
function verbs.waiting(rank, count)
  local since = nil
  local rows = redis.call('ZRANGE', p .. 'open', rank, rank + count - 1)
  for _, m in ipairs(rows) do
    local r = redis.call('HMGET', row_of(id_of(m)), 'status', 'available_at', 'inserted_at', 'blocked')
    local available, inserted = tonumber(r[2]) or now, tonumber(r[3]) or now
    local tried = r[1] == 'RETRY'
    if r[1] and (tried or r[4] == '1' or available <= now) then
      local from = (tried or r[4] == '1') and inserted or math.max(inserted, available)
      since = math.min(since or from, from)
      if from == inserted then return {text(since), 1} end
    end
  end
  return {since and text(since) or '', #rows < tonumber(count) and 1 or 0}
end

-- By how much the number of pending rows grew in the last minute: rows of the set `open` that came in it, less ended
-- rows that are older. Answers the number, and how many rows were looked at.
function verbs.grown(set, passed, count)
  local minute_ago = now - 60000000
  local n, rows = 0, nil
  if set == 'open' then
    rows = redis.call('ZREVRANGE', p .. 'open', passed, passed + count - 1)
  else
    rows = redis.call('ZREVRANGEBYSCORE', p .. set, '+inf', '(' .. text(minute_ago), 'LIMIT', passed, count)
  end
  for i, m in ipairs(rows) do
    local young = (tonumber(redis.call('HGET', row_of(id_of(m)), 'inserted_at') or nil) or now) > minute_ago
    if set == 'open' and not young then return {n, i - 1} end
    if set == 'open' then n = n + 1 end
    if set ~= 'open' and not young then n = n - 1 end
  end
  return {n, #rows}
end

-- The id of the row before another one in line, or ''. Rows whose keys were deleted by hand are passed over; nil:
-- nothing but those was found.
local function before(key, seq)
  for i = 0, 99 do
    local m = redis.call('ZREVRANGEBYSCORE', line_of(key), '(' .. seq, '-inf', 'LIMIT', i, 1)[1]
    if not m then return '' end
    if redis.call('HGET', row_of(id_of(m)), 'status') then return id_of(m) end
  end
  return nil
end

function verbs.places(...)
  local answer = {}
  for i, id in ipairs({...}) do
    local r = redis.call('HMGET', row_of(id), 'status', 'seq', 'blocked', 'key')
    local in_line = r[1] and r[1] ~= 'DONE' and r[3] and r[4]
    local m = in_line and before(r[4], r[2]) or not in_line and ''
    answer[i] = r[1] and m and {r[2], m} or ''
  end
  return answer
end

function verbs.parked(rank, count)
  local answer = {}
  local rows = redis.call('ZRANGE', p .. 'dead_in_line', rank, rank + count - 1)
  for _, m in ipairs(rows) do
    local id = id_of(m)
    local r = redis.call('HMGET', row_of(id), 'blocked', 'key', 'done_at')
    if r[1] and r[2] and redis.call('ZRANK', line_of(r[2]), m) == 0 then
      -- The first hundred are looked at; of the rest, all count.
      local waiting = math.max(0, redis.call('ZCARD', line_of(r[2])) - 101)
      for _, other in ipairs(redis.call('ZRANGE', line_of(r[2]), 1, 100)) do
        if redis.call('ZSCORE', p .. 'open', other) then waiting = waiting + 1 end
      end
      answer[#answer + 1] = {r[2], id, r[3] or '', waiting}
    end
  end
  return {#rows, answer}
end

return verbs[ARGV[1]](unpack(ARGV, 2))
