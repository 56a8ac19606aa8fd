-- The registry of nodes. ARGV: what to do, and
--   beat: the incarnation, its lease, names and values of its row. Forgets nodes whose lease ended a day ago.
--   retire: the incarnation.   list: nothing. Answers the rows of the live nodes, as names and values.
local now = time_now()
local function node_of(incarnation) return p .. 'node:' .. incarnation end

if ARGV[1] == 'beat' then
  local node = node_of(ARGV[2])
  local started = redis.call('HGET', node, 'started_at') or text(now)
  redis.call('DEL', node)
  redis.call('HSET', node, 'incarnation', ARGV[2], 'lease', ARGV[3], 'started_at', started, unpack(ARGV, 4))
  redis.call('ZADD', p .. 'nodes', now + tonumber(ARGV[3]), ARGV[2])
  local day_ago = text(now - 86400 * 1000000)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', p .. 'nodes', '-inf', day_ago, 'LIMIT', 0, 100)) do
    redis.call('ZREM', p .. 'nodes', old)
    redis.call('DEL', node_of(old))
  end
  return 1
end
if ARGV[1] == 'retire' then
  redis.call('ZREM', p .. 'nodes', ARGV[2])
  return redis.call('DEL', node_of(ARGV[2]))
end
local rows = {}
for _, incarnation in ipairs(redis.call('ZRANGEBYSCORE', p .. 'nodes', '(' .. text(now), '+inf')) do
  rows[#rows + 1] = redis.call('HGETALL', node_of(incarnation))
end
return rows
