-- The dispatch lock: a lease with a fence. ARGV: what to do, the incarnation, and
--   take: the lease. Answers the fence; 0 if another one holds it.
--   renew: fence, lease.   give_back: fence.   Both answer 1 if the lock was held.
--   expire: fence, the number of rows to look at, those to pass over first. Ends the leases of other incarnations.
--     Answers the number of rows, those passed over in all, whether there are more; -1 if the lock was lost.
local now = time_now()
local lock = p .. 'lock'
local held = redis.call('HMGET', lock, 'holder', 'fence', 'lease_until')
local live = held[3] and tonumber(held[3]) > now
local what, incarnation, fence = ARGV[1], ARGV[2], ARGV[3]

if what == 'take' then
  if live then return 0 end
  local new = redis.call('HINCRBY', p .. 'figures', 'fence', 1)
  redis.call('HSET', lock, 'holder', incarnation, 'fence', new, 'lease_until', text(now + tonumber(ARGV[3])))
  return new
end

local ours = held[1] == incarnation and held[2] == fence
if what == 'give_back' then
  if ours then redis.call('DEL', lock) end
  return ours and 1 or 0
end
if not ours or not live then return what == 'expire' and {-1, 0, 0} or 0 end
if what == 'renew' then
  redis.call('HSET', lock, 'lease_until', text(now + tonumber(ARGV[4])))
  return 1
end

local most, passed, expired = tonumber(ARGV[4]), tonumber(ARGV[5]), 0
local rows = redis.call('ZRANGEBYSCORE', p .. 'leased', '(' .. text(now), '+inf', 'LIMIT', passed, most)
for _, m in ipairs(rows) do
  local id = id_of(m)
  local r = redis.call('HMGET', row_of(id), 'locked_by', 'available_at')
  if r[1] and string.sub(r[1], 1, #incarnation + 1) ~= incarnation .. '/' then
    redis.call('HSET', row_of(id), 'lease_until', text(now))
    redis.call('ZADD', p .. 'leased', math.max(now, tonumber(r[2])), m)
    expired = expired + 1
    if tonumber(r[2]) > now then passed = passed + 1 end
  else
    passed = passed + 1
  end
end
return {expired, passed, #rows == most and 1 or 0}
