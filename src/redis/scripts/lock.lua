-- The dispatch lock: a lease with a fence. ARGV: what to do, the incarnation, and
--   take: the lease. Answers the fence; 0 if another one holds it.
--   renew: fence, lease.   give_back: fence.   Both answer 1 if the lock was held.
--   expire: fence, the number of rows to look at, the last row that was looked at and its score ('' at first). Ends the
--     leases of other incarnations. Answers the number of rows, the last row looked at and its score, whether there are
--     more; -1 if the lock was lost.
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
if not ours or not live then return what == 'expire' and {-1} or 0 end
if what == 'renew' then
  redis.call('HSET', lock, 'lease_until', text(now + tonumber(ARGV[4])))
  return 1
end

local most, last, last_score, expired = tonumber(ARGV[4]), ARGV[5], ARGV[6], 0
local from = last ~= '' and rank_behind('leased', last, last_score) or redis.call('ZCOUNT', p .. 'leased', '-inf', text(now))
local rows = redis.call('ZRANGE', p .. 'leased', from, from + most - 1, 'WITHSCORES')
for i = 1, #rows, 2 do
  local m = rows[i]
  local id = id_of(m)
  local r = redis.call('HMGET', row_of(id), 'locked_by', 'available_at')
  if r[1] and string.sub(r[1], 1, #incarnation + 1) ~= incarnation .. '/' then
    redis.call('HSET', row_of(id), 'lease_until', text(now))
    redis.call('ZADD', p .. 'leased', math.max(now, tonumber(r[2])), m)
    expired = expired + 1
  end
  last, last_score = m, rows[i + 1]
end
return {expired, last, last_score, #rows == 2 * most and 1 or 0}
