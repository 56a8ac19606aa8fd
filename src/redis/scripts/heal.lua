-- Unblocks rows that are blocked although they are the first in line of their key, or have none. ARGV: the number of rows
-- to heal, those to look at, those to pass over first. Answers the number of rows, those passed over in all, whether
-- there are more.
local now = time_now()
local limit, look, passed = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local rows = redis.call('ZRANGE', p .. 'blocked', passed, passed + look - 1)
local healed = 0
for _, m in ipairs(rows) do
  local id = id_of(m)
  local r = redis.call('HMGET', row_of(id), 'key', 'status')
  if not r[2] then
    forget(m)
  elseif healed < limit and (not r[1] or next_in_line(r[1], '-1') == m) then
    unblock(m, now)
    healed = healed + 1
  else
    passed = passed + 1
  end
end
return {healed, passed, #rows == look and healed < limit and 1 or 0}
