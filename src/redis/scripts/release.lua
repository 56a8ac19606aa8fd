-- Releases rows by their tokens, whose lease still runs. ARGV: the number of rows to look at, those to pass over first,
-- the tokens. Answers the number of rows released, those passed over in all, and whether there are more.
local now = text(time_now())
local most, passed = tonumber(ARGV[1]), tonumber(ARGV[2])
local tokens = {}
for i = 3, #ARGV do tokens[ARGV[i]] = true end
local rows = redis.call('ZRANGEBYSCORE', p .. 'leased', '(' .. now, '+inf', 'LIMIT', passed, most)
local released = 0
for _, m in ipairs(rows) do
  local id = id_of(m)
  local r = redis.call('HMGET', row_of(id), 'locked_by', 'available_at')
  if r[1] and tokens[r[1]] then
    redis.call('HDEL', row_of(id), 'locked_by', 'lease_until')
    redis.call('ZREM', p .. 'leased', m)
    redis.call('ZADD', p .. 'due', r[2], m)
    released = released + 1
  else
    passed = passed + 1
  end
end
return {released, passed, #rows == most and 1 or 0}
