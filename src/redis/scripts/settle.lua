-- Ends attempts. ARGV: whether rows of delivered events stay ('1'), then for each item its id, token, outcome (done,
-- retry, defer, dead, release), attempts to add, delay, error, progress, key and seq. Answers a digit for each item, 1
-- if it was applied, and the number of rows that can be claimed now because a row before them left its key.
local keep = ARGV[1] == '1'
local now = time_now()
local applied, left = {}, {}

local function leave(id, m, key)
  redis.call('ZREM', p .. 'open', m)
  leave_line(m, key, '0')
  redis.call('UNLINK', row_of(id), payload_of(id))
end

local function settle(id, token, outcome, counted, delay, error, progress, key)
  local row = row_of(id)
  local r = redis.call('HMGET', row, 'locked_by', 'status', 'seq', 'key', 'blocked', 'attempts', 'available_at')
  local status, blocked = r[2], r[5]
  if not r[1] or r[1] ~= token or not pending(status) then return false end
  local m = member(tonumber(r[3]), id)
  unplace(m, true, blocked)
  if outcome == 'release' then
    redis.call('HDEL', row, 'locked_by', 'lease_until')
    place(m, r[7], blocked)
    return true
  end
  note_retry(m, status, outcome == 'retry' and 'RETRY' or nil)
  if outcome == 'done' and not keep then
    leave(id, m, blocked and r[4])
    return true
  end
  redis.call('HSET', row, 'crashes', '0', 'attempts', text((tonumber(r[6]) or 0) + counted), 'progress', progress)
  redis.call('HDEL', row, 'locked_by', 'lease_until')
  if outcome == 'done' or outcome == 'dead' then
    local set = p .. outcome
    redis.call('HSET', row, 'status', outcome == 'done' and 'DONE' or 'DEAD', 'done_at', text(now), 'last_error', error)
    redis.call('ZREM', p .. 'open', m)
    redis.call('ZADD', set, r[3], m)
    redis.call('ZADD', set .. '_at', now, m)
    if outcome == 'done' or key ~= '' then leave_line(m, r[4], blocked) end
    if outcome == 'dead' and key ~= '' then redis.call('HDEL', row, 'blocked') end
    if outcome == 'dead' and key == '' then park(m, r[4], blocked) end
  else
    local available = text(now + delay)
    redis.call('HSET', row, 'status', outcome == 'retry' and 'RETRY' or 'NEW', 'available_at', available)
    if outcome == 'retry' or error ~= '' then redis.call('HSET', row, 'last_error', error) end
    place(m, available, blocked)
  end
  return true
end

for i = 2, #ARGV, 9 do
  local done = settle(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), ARGV[i + 5],
                      ARGV[i + 6], ARGV[i + 7])
  applied[#applied + 1] = done and '1' or '0'
  local key, seq = ARGV[i + 7], tonumber(ARGV[i + 8])
  if done and key ~= '' and (not left[key] or seq < left[key]) then left[key] = seq end
end
local unblocked = 0
for key, seq in pairs(left) do unblocked = unblocked + unblock_next(key, text(seq), now) end
return {table.concat(applied), unblocked}
