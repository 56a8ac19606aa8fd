-- What the outbox says to every node. ARGV: what to do, and
--   open: '1' to create the outbox if it is not there, the version of the schema, a new identity. Answers version,
--     oldest library, identity, and whether it was created.
--   settings: nothing. Answers pauses, oldest library, keyed.   keyed: '1' or '0'.
--   pauses: the text as it was read ('' if there was none), the new one. Answers 0 if somebody else changed it.
--   begin_audit: who, verb, filter, reason, matched. Answers the number of the entry. The last 10,000 are kept.
--   end_audit: its number, the number of rows. Answers 0 if there is none or it has ended.
--   audit: how many. Answers the newest entries first, as names and values.
--   time: nothing. Answers the instant.
local meta = p .. 'meta'
local function audit_of(n) return p .. 'audit:' .. n end
local verbs = {}

function verbs.open(create, version, identity)
  local fresh = create == '1' and redis.call('HEXISTS', meta, 'version') == 0
  if fresh then
    redis.call('HSET', meta, 'version', version, 'oldest_library', version, 'identity', identity, 'created_at',
               text(time_now()))
  end
  local m = redis.call('HMGET', meta, 'version', 'oldest_library', 'identity')
  return {m[1] or '', m[2] or '', m[3] or '', fresh and 1 or 0}
end

function verbs.settings() return redis.call('HMGET', meta, 'pauses', 'oldest_library', 'keyed') end

function verbs.keyed(value)
  redis.call('HSET', meta, 'keyed', value)
  return 1
end

function verbs.pauses(old, new)
  if (redis.call('HGET', meta, 'pauses') or '') ~= old then return 0 end
  redis.call('HSET', meta, 'pauses', new)
  return 1
end

function verbs.begin_audit(who, verb, filter, reason, matched)
  local n = redis.call('HINCRBY', p .. 'figures', 'audit', 1)
  redis.call('HSET', audit_of(n), 'id', n, 'at', text(time_now()), 'who', who, 'verb', verb, 'filter', filter, 'reason',
             reason, 'matched', matched)
  redis.call('DEL', audit_of(n - 10000))
  return n
end

function verbs.end_audit(n, changed)
  local key = audit_of(n)
  if redis.call('EXISTS', key) == 0 or redis.call('HEXISTS', key, 'ended_at') == 1 then return 0 end
  redis.call('HSET', key, 'changed', changed, 'ended_at', text(time_now()))
  return 1
end

function verbs.audit(count)
  local rows = {}
  local last = tonumber(redis.call('HGET', p .. 'figures', 'audit') or 0)
  for n = last, math.max(1, last - tonumber(count) + 1), -1 do
    local entry = redis.call('HGETALL', audit_of(n))
    if #entry > 0 then rows[#rows + 1] = entry end
  end
  return rows
end

function verbs.time() return text(time_now()) end

return verbs[ARGV[1]](unpack(ARGV, 2))
