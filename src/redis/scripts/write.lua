-- Writes events to an outbox from a script of yours, together with what else the script does.
--
-- Put this text before your own, declare "{outbox}:" (the name of your outbox in braces) among the keys of the script,
-- and call
--
--   outbox.write('{outbox}:', {id = '…', type = 'order.placed', payload = '{"n":1}', aggregate_type = 'order',
--                              aggregate_id = '42'})
--
-- It returns the event's number, or raises an error before it changes anything. Write events before you change other
-- keys: Redis does not undo what a script did before an error. Fields: id and type (required), payload (required: JSON
-- text, or bytes if content_type is set), content_type, aggregate_type, aggregate_id, tenant, ordering_key, headers
-- (a table of texts), delay_ms. The event has no owner: a node finds it when it next looks, or as soon as it hears of
-- the write by publish/subscribe.
local outbox = (function()
  local W = {}

  local function text(n) return string.format('%.0f', n) end

  local function characters(s) return select(2, string.gsub(s, '[^\128-\191]', '')) end

  -- The same as spi::key_of().
  local function key_of(e)
    if e.ordering_key and e.ordering_key ~= '' then return '=' .. e.ordering_key end
    if not e.aggregate_id or e.aggregate_id == '' then return '' end
    return characters(e.aggregate_type) .. ':' .. e.aggregate_type .. e.aggregate_id
  end

  -- The id of the last row in a line, or ''. Rows whose keys were deleted by hand are passed over; false: nothing but
  -- those was found.
  local function last_in_line(p, key)
    for i = 0, 99 do
      local m = redis.call('ZREVRANGE', p .. 'line:' .. key, i, i)[1]
      if not m then return '' end
      local id = string.sub(m, 17)
      if redis.call('EXISTS', p .. 'event:' .. id) == 1 then return id end
    end
    return false
  end

  -- Writes one row. `fields` are names and values that are never changed again; an empty token means no owner. Returns
  -- the id of the row before it in its key, if `ask`; false if that cannot be told.
  function W.insert(p, now, seq, id, token, lease, at, after, key, payload, fields, ask)
    local m = string.format('%016d', seq) .. id
    local delayed = after > 0 or at ~= ''
    local available = at ~= '' and at or text(now + after)
    local n = #fields
    local function set(name, value)
      fields[n + 1], fields[n + 2] = name, value
      n = n + 2
    end
    set('seq', text(seq))
    set('status', 'NEW')
    set('attempts', '0')
    set('crashes', '0')
    set('available_at', available)
    set('inserted_at', text(now))
    local before = ''
    if not delayed then
      set('blocked', '0')
      if key ~= '' then
        set('key', key)
        if ask then before = last_in_line(p, key) end
        redis.call('ZADD', p .. 'line:' .. key, seq, m)
      end
    elseif key ~= '' then
      set('key', key)
    end
    if token ~= '' then
      set('locked_by', token)
      set('lease_until', text(now + lease))
      redis.call('ZADD', p .. 'leased', math.max(tonumber(available), now + lease), m)
    else
      redis.call('ZADD', p .. 'due', available, m)
    end
    redis.call('HSET', p .. 'event:' .. id, unpack(fields))
    redis.call('SET', p .. 'payload:' .. id, payload)
    redis.call('ZADD', p .. 'open', seq, m)
    return before
  end

  local function refuse(why) error('OUTBOX_INVALID ' .. why, 0) end

  -- Every character of more than one byte becomes a space; what is left of the bytes above 127 is none.
  local function is_utf8(s)
    local tail = '[\128-\191]'
    for _, c in ipairs({'\240[\144-\191]' .. tail .. tail, '[\241-\243]' .. tail .. tail .. tail,
                        '\244[\128-\143]' .. tail .. tail, '\224[\160-\191]' .. tail,
                        '[\225-\236\238\239]' .. tail .. tail, '\237[\128-\159]' .. tail, '[\194-\223]' .. tail}) do
      s = string.gsub(s, c, ' ')
    end
    return not string.find(s, '[\128-\255]')
  end

  -- Redis' own parser takes NaN, Infinity and hexadecimal numbers, which are no JSON.
  local function is_json(s)
    if not is_utf8(s) or not pcall(cjson.decode, s) then return false end
    local bare = string.gsub(string.gsub(s, '\\.', ''), '"[^"]*"', '')
    for _, word in ipairs({'true', 'false', 'null'}) do bare = string.gsub(bare, word, '') end
    return not string.find(bare, '[^%d%+%-%.eE%[%]{},:%s]')
  end

  local function check_name(e, field, most, required)
    local value = e[field]
    if value == nil and not required then return end
    if type(value) ~= 'string' then refuse(field .. ' must be a text') end
    if value == '' and required then refuse(field .. ' must not be empty') end
    if string.find(value, '%z') then refuse(field .. ' has a NUL in it') end
    if not is_utf8(value) then refuse(field .. ' is not UTF-8') end
    if characters(value) > most then refuse(field .. ' has more than ' .. most .. ' characters') end
  end

  local function check(e)
    check_name(e, 'id', 36, true)
    check_name(e, 'type', 128, true)
    check_name(e, 'aggregate_type', 64)
    check_name(e, 'aggregate_id', 128)
    check_name(e, 'tenant', 64)
    check_name(e, 'ordering_key', 128)
    check_name(e, 'content_type', 128)
    if type(e.payload) ~= 'string' then refuse('payload must be a text') end
    if #e.payload > 268435456 then refuse('payload has more than 268435456 bytes') end
    if not e.content_type and not is_json(e.payload) then refuse('payload is not JSON') end
    if e.delay_ms and (type(e.delay_ms) ~= 'number' or e.delay_ms < 1 or e.delay_ms > 315360000000) then
      refuse('delay_ms must be a number from 1 to 315360000000')
    end
    for name, value in pairs(e.headers or {}) do
      if type(name) ~= 'string' or type(value) ~= 'string' or name == '' or string.find(name .. value, '[%z\r\n]') or
        not is_utf8(name) or not is_utf8(value) then
        refuse('headers must be texts in UTF-8 without NUL, CR and LF')
      end
    end
  end

  function W.write(p, e)
    check(e)
    if redis.call('EXISTS', p .. 'event:' .. e.id) == 1 then error('OUTBOX_DUPLICATE ' .. e.id, 0) end
    if not redis.call('HGET', p .. 'meta', 'version') then refuse(p .. ' is not the beginning of an outbox') end
    if not e.aggregate_type or e.aggregate_type == '' then e.aggregate_type = '__GLOBAL__' end
    local t = redis.call('TIME')
    local now = t[1] * 1000000 + t[2]
    local headers = e.headers and next(e.headers) and cjson.encode(e.headers) or ''
    local size = #e.id + #e.type + #e.payload + #headers + #e.aggregate_type + #(e.aggregate_id or '') + #(e.tenant or '') +
      #(e.ordering_key or '') + #(e.content_type or 'application/json')
    local fields = {'event_type', e.type, 'aggregate_type', e.aggregate_type, 'created_at', text(now), 'size', text(size),
                    'payload_kind', e.content_type and 'bytes' or 'json',
                    'content_type', e.content_type or 'application/json'}
    local optional = {aggregate_id = e.aggregate_id, tenant_id = e.tenant, ordering_key = e.ordering_key, headers = headers}
    for name, value in pairs(optional) do
      if value ~= '' then
        fields[#fields + 1] = name
        fields[#fields + 1] = value
      end
    end
    local seq = redis.call('HINCRBY', p .. 'figures', 'seq', 1)
    W.insert(p, now, seq, e.id, '', 0, '', (e.delay_ms or 0) * 1000, key_of(e), e.payload, fields, false)
    redis.pcall('PUBLISH', p .. 'wake', '')  -- a user that may not publish has written all the same
    return seq
  end

  return W
end)()
