-- Deletes ended rows by their end, or all rows by their age. ARGV: what to do, and
--   ended: retention, the set (done or dead), the number of rows to delete, those to look at, those to pass over first.
--     On an outbox marked keyed, dead rows that are in line stay. Answers the number of rows, those passed over in all,
--     whether there are more.
--   age: the age, the number of rows to delete. Deletes nothing while a node that dispatches is live.
local now = time_now()
local before = now - tonumber(ARGV[2])

if ARGV[1] == 'ended' then
  local set, limit, most, passed = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
  local keyed = set == 'dead' and redis.call('HGET', p .. 'meta', 'keyed') == '1'
  local count = math.min(most, limit)
  local rows = redis.call('ZRANGEBYSCORE', p .. set .. '_at', '-inf', text(before), 'LIMIT', passed, count)
  local deleted = 0
  for _, m in ipairs(rows) do
    local r = keyed and redis.call('HMGET', row_of(id_of(m)), 'blocked', 'key')
    if r and r[1] and r[2] then
      passed = passed + 1
    else
      erase(m)
      deleted = deleted + 1
    end
  end
  return {deleted, passed, #rows == count and 1 or 0}
end

for _, incarnation in ipairs(redis.call('ZRANGEBYSCORE', p .. 'nodes', '(' .. text(now), '+inf')) do
  if redis.call('HGET', p .. 'node:' .. incarnation, 'mode') ~= 'writer_only' then return 0 end
end
local limit, deleted = tonumber(ARGV[3]), 0
for _, set in ipairs({'open', 'done', 'dead'}) do
  for _, m in ipairs(redis.call('ZRANGE', p .. set, 0, limit - deleted - 1)) do
    local inserted = redis.call('HGET', row_of(id_of(m)), 'inserted_at')
    if inserted and tonumber(inserted) > before then break end
    erase(m)
    deleted = deleted + 1
  end
  if deleted >= limit then break end
end
return deleted
