-- Releases rows by their tokens, whose lease still runs. ARGV: the number of rows to look at; the last row that was looked
-- at and its score, '' at first; the tokens. Answers the number of rows released, the last row looked at and its score,
-- and whether there are more.
local now = text(time_now())
local most, last, last_score = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local tokens = {}
for i = 4, #ARGV do tokens[ARGV[i]] = true end
local from = last ~= '' and rank_behind('leased', last, last_score) or redis.call('ZCOUNT', p .. 'leased', '-inf', now)
local rows = redis.call('ZRANGE', p .. 'leased', from, from + most - 1, 'WITHSCORES')
local released = 0
for i = 1, #rows, 2 do
  local m = rows[i]
  local id = id_of(m)
  local r = redis.call('HMGET', row_of(id), 'locked_by', 'available_at')
  if r[1] and tokens[r[1]] then
    redis.call('HDEL', row_of(id), 'locked_by', 'lease_until')
    redis.call('ZREM', p .. 'leased', m)
    redis.call('ZADD', p .. 'due', r[2], m)
    released = released + 1
  end
  last, last_score = m, rows[i + 1]
end
return {released, last, last_score, #rows == 2 * most and 1 or 0}
