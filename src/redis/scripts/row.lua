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
--   meta          what the outbox says to every node             figures     counters        lock, audit:<number>
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

-- How the number of RETRY rows changes when a row goes from one status to another.
local function retry_change(from, to) return (to == 'RETRY' and 1 or 0) - (from == 'RETRY' and 1 or 0) end

local function add_retrying(n)
  if n ~= 0 then redis.call('HINCRBY', p .. 'figures', 'retrying', n) end
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

local function unblock(m, id, available, now)
  local at = math.max(tonumber(available), now)
  redis.call('HSET', row_of(id), 'blocked', '0', 'available_at', at > now and available or text(now))
  redis.call('ZREM', p .. 'blocked', m)
  redis.call('ZADD', p .. 'due', at, m)
end

-- The first row in line behind `seq`, if it is blocked. Returns the number of rows that were unblocked.
local function unblock_next(key, seq, now)
  local m = redis.call('ZRANGEBYSCORE', line_of(key), '(' .. seq, '+inf', 'LIMIT', 0, 1)[1]
  if not m then return 0 end
  local r = redis.call('HMGET', row_of(id_of(m)), 'status', 'blocked', 'available_at')
  if not pending(r[1]) or r[2] ~= '1' then return 0 end
  unblock(m, id_of(m), r[3], now)
  return 1
end

-- Moves a pending row that is in none of due, leased and blocked any more to DEAD.
local function bury(m, id, status, now)
  add_retrying(retry_change(status, 'DEAD'))
  redis.call('HSET', row_of(id), 'status', 'DEAD', 'done_at', text(now))
  redis.call('HDEL', row_of(id), 'locked_by', 'lease_until')
  redis.call('ZREM', p .. 'open', m)
  redis.call('ZADD', p .. 'dead', seq_of(m), m)
  redis.call('ZADD', p .. 'dead_at', now, m)
end

-- Removes a row and every trace of it, whatever its status.
local function erase(m)
  local id = id_of(m)
  local r = redis.call('HMGET', row_of(id), 'status', 'locked_by', 'blocked', 'key')
  if pending(r[1]) then
    add_retrying(retry_change(r[1], nil))
    unplace(m, r[2], r[3])
    redis.call('ZREM', p .. 'open', m)
  elseif r[1] then
    local set = r[1] == 'DONE' and 'done' or 'dead'
    redis.call('ZREM', p .. set, m)
    redis.call('ZREM', p .. set .. '_at', m)
  end
  leave_line(m, r[4], r[3])
  redis.call('UNLINK', row_of(id), payload_of(id))
end

-- A row that is in a sorted set and not there: somebody deleted its key.
local function forget(m)
  for _, set in ipairs({'open', 'due', 'leased', 'blocked', 'done', 'dead', 'done_at', 'dead_at'}) do
    redis.call('ZREM', p .. set, m)
  end
end
