-- Extends leases. ARGV: the lease, then an id and a token for each row. Answers a digit for each, 1 if it still carried
-- the token.
local now = time_now()
local ends = now + tonumber(ARGV[1])
local kept = {}
for i = 2, #ARGV, 2 do
  local id = ARGV[i]
  local r = redis.call('HMGET', row_of(id), 'locked_by', 'status', 'seq', 'blocked', 'available_at')
  local owned = r[1] and r[1] == ARGV[i + 1] and pending(r[2])
  if owned then
    local m = member(tonumber(r[3]), id)
    unplace(m, true, r[4])  -- first: before Redis 7.0 only that is allowed while the memory is full
    redis.call('HSET', row_of(id), 'lease_until', text(ends))
    if r[4] == '1' then redis.call('HSET', row_of(id), 'blocked', '0') end
    redis.call('ZADD', p .. 'leased', math.max(ends, tonumber(r[5])), m)
  end
  kept[#kept + 1] = owned and '1' or '0'
end
return table.concat(kept)
