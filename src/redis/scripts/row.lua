-- What the scripts share: the keys of an outbox, its rows, and the sorted sets that find them.
--
-- KEYS[1] is the beginning of every key, "{outbox}:". The part in braces decides the slot of a cluster, so that all
-- keys of one outbox are on one server, also those that a script makes from it:
--
--   event:<id>    a hash: the row, its fields named like the columns of the SQL stores
--   payload:<id>  a string: the payload
--   open          pending rows by seq          done, dead        ended rows by seq
--   due           rows without an owner, by available_at         leased  rows with one, by the end of its lease
--   blocked       rows that wait for another row of their key    line:<key>  rows of a key by seq, until they leave it
--   done_at, dead_at   ended rows by their end                   nodes, node:<incarnation>   the registry of nodes
--   dead_in_line  dead rows by seq that park their keys
--   retrying      a set: pending rows that are RETRY             figures     counters        lock, audit:<number>
--   meta          what the outbox says to every node
--
-- A pending row is in `open` and in one of `due`, `leased` and `blocked`. A member of these sets is its seq, with
-- zeros before it to sixteen digits, and its id: rows with the same instant are in the order of their seq.
-- Instants are microseconds since 1970. Lua's numbers are exact until the year 2255; a later `available_at` is kept as
-- the text that it came as, and only its place in `due` is rounded.
local p = KEYS[1]

local function text(n) return string.format('%.0f', n) end

local function time_now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function row_of(id) return p .. 'event:' .. id end
local function payload_of(id) return p .. 'payload:' .. id end
local function line_of(key) return p .. 'line:' .. key end
local function member(seq, id) return string.format('%016d', seq) .. id end
local function id_of(m) return string.sub(m, 17) end
local function seq_of(m) return tonumber(string.sub(m, 1, 16)) end

local function pending(status) return status == 'NEW' or status == 'RETRY' end

-- Keeps the set of RETRY rows in step when a row goes from one status to another.
local function note_retry(m, from, to)
  if from == to then return end
  if from == 'RETRY' then redis.call('SREM', p .. 'retrying', m) end
  if to == 'RETRY' then redis.call('SADD', p .. 'retrying', m) end
end

-- Puts a pending row without an owner where claims find it; a blocked one where they do not.
local function place(m, available, blocked)
  redis.call('ZADD', p .. (blocked == '1' and 'blocked' or 'due'), blocked == '1' and seq_of(m) or available, m)
end

local function unplace(m, owned, blocked)
  redis.call('ZREM', p .. (blocked == '1' and 'blocked' or owned and 'leased' or 'due'), m)
end

-- A row in line has a key, and its field `blocked`.
local function leave_line(m, key, blocked)
  if blocked and key and key ~= '' then redis.call('ZREM', line_of(key), m) end
end

-- A dead row in line parks its key, until it is replayed or leaves the line.
local function park(m, key, blocked)
  if blocked and key and key ~= '' then redis.call('ZADD', p .. 'dead_in_line', seq_of(m), m) end
end

local function unpark(m) redis.call('ZREM', p .. 'dead_in_line', m) end

-- A row that is in a sorted set and not there: somebody deleted its key.
local function forget(m)
  for _, set in ipairs({'open', 'due', 'leased', 'blocked', 'done', 'dead', 'done_at', 'dead_at', 'dead_in_line'}) do
    redis.call('ZREM', p .. set, m)
  end
  redis.call('SREM', p .. 'retrying', m)
  redis.call('UNLINK', payload_of(id_of(m)))
end

-- The first row in line behind `seq` that is there, and what `fields` say of it.
local function next_in_line(key, seq, ...)
  while true do
    local m = redis.call('ZRANGEBYSCORE', line_of(key), '(' .. seq, '+inf', 'LIMIT', 0, 1)[1]
    if not m then return nil end
    local r = redis.call('HMGET', row_of(id_of(m)), 'status', ...)
    if r[1] then return m, r end
    redis.call('ZREM', line_of(key), m)
    forget(m)
  end
end

-- Clears the note. A row whose owner is gone, or lost it to a note, stays with that owner until its lease is over.
local function unblock(m, now)
  local row = row_of(id_of(m))
  local r = redis.call('HMGET', row, 'available_at', 'locked_by', 'lease_until')
  local available = math.max(tonumber(r[1]), now)
  redis.call('ZREM', p .. 'blocked', m)
  redis.call('HSET', row, 'blocked', '0', 'available_at', available > now and r[1] or text(now))
  if r[2] then
    redis.call('ZADD', p .. 'leased', math.max(available, tonumber(r[3] or 0)), m)
  else
    redis.call('ZADD', p .. 'due', available, m)
  end
end

-- The first row in line behind `seq`, if it is blocked. Returns the number of rows that were unblocked.
local function unblock_next(key, seq, now)
  local m, r = next_in_line(key, seq, 'blocked')
  if not m or not pending(r[1]) or r[2] ~= '1' then return 0 end
  unblock(m, now)
  return 1
end

-- Moves a pending row that is in none of due, leased and blocked any more to DEAD.
local function bury(m, id, status, now)
  note_retry(m, status, 'DEAD')
  redis.call('HSET', row_of(id), 'status', 'DEAD', 'done_at', text(now))
  redis.call('HDEL', row_of(id), 'locked_by', 'lease_until')
  redis.call('ZREM', p .. 'open', m)
  redis.call('ZADD', p .. 'dead', seq_of(m), m)
  redis.call('ZADD', p .. 'dead_at', now, m)
  local r = redis.call('HMGET', row_of(id), 'key', 'blocked')
  park(m, r[1], r[2])
end

-- Removes a row and every trace of it, whatever its status.
local function erase(m)
  local id = id_of(m)
  local r = redis.call('HMGET', row_of(id), 'status', 'locked_by', 'blocked', 'key')
  if not r[1] then return forget(m) end
  if pending(r[1]) then
    note_retry(m, r[1], nil)
    unplace(m, r[2], r[3])
    redis.call('ZREM', p .. 'open', m)
  else
    local set = r[1] == 'DONE' and 'done' or 'dead'
    redis.call('ZREM', p .. set, m)
    redis.call('ZREM', p .. set .. '_at', m)
    unpark(m)
  end
  leave_line(m, r[4], r[3])
  redis.call('UNLINK', row_of(id), payload_of(id))
end

-- The rank in a sorted set to go on at, behind a member that was looked at before. If that is gone, at the first with
-- its score: rows that were looked at are looked at again, and none is left out.
local function rank_behind(set, m, score)
  local rank = redis.call('ZRANK', p .. set, m)
  return rank and rank + 1 or redis.call('ZCOUNT', p .. set, '-inf', '(' .. score)
end
