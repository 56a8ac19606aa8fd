-- What operators do with rows that they name. ARGV: what to do (cancel, replay, discard, purge), the reason of a cancel,
-- the ids. Answers the number of rows that were changed: those that are not, or no longer, as the verb needs them stay.
local now = time_now()
local keyed = redis.call('HGET', p .. 'meta', 'keyed') == '1'
local verbs = {}

function verbs.cancel(m, id, r)
  if not pending(r.status) then return false end
  unplace(m, r.owner, r.blocked)
  bury(m, id, r.status, now)
  redis.call('HSET', row_of(id), 'last_error', ARGV[2])
  if r.blocked == '1' then redis.call('HSET', row_of(id), 'blocked', '0') end
  return true
end

function verbs.replay(m, id, r)
  if r.status ~= 'DEAD' then return false end
  redis.call('HSET', row_of(id), 'status', 'NEW', 'attempts', '0', 'crashes', '0', 'available_at', text(now))
  redis.call('HDEL', row_of(id), 'done_at', 'last_error')
  redis.call('ZREM', p .. 'dead', m)
  redis.call('ZREM', p .. 'dead_at', m)
  unpark(m)
  redis.call('ZADD', p .. 'open', seq_of(m), m)
  if r.blocked == '1' then redis.call('HSET', row_of(id), 'blocked', '0') end  -- what it waited for may have ended
  place(m, now, nil)
  return true
end

function verbs.discard(m, id, r)
  if r.status ~= 'DEAD' or not r.blocked or not r.key then return false end
  redis.call('HDEL', row_of(id), 'blocked')
  unpark(m)
  leave_line(m, r.key, r.blocked)
  unblock_next(r.key, text(seq_of(m)), now)
  return true
end

function verbs.purge(m, id, r)
  if r.status ~= 'DONE' and r.status ~= 'DEAD' then return false end
  if keyed and r.status == 'DEAD' and r.blocked and r.key then return false end
  erase(m)
  return true
end

local changed = 0
for i = 3, #ARGV do
  local v = redis.call('HMGET', row_of(ARGV[i]), 'status', 'seq', 'locked_by', 'blocked', 'key')
  if v[1] and v[2] then
    local r = {status = v[1], owner = v[3], blocked = v[4], key = v[5]}
    if verbs[ARGV[1]](member(tonumber(v[2]), ARGV[i]), ARGV[i], r) then changed = changed + 1 end
  end
end
return changed
