-- The commit language, and all that is asked of the store, in one script: one call is one atomic step.
--
-- KEYS[1] is the root of an environment; every key begins with it, so that its hash tag keeps them together:
--   root               hash: format; time, the latest that was told; last, the number of the latest commit
--   root:r:RECORD      hash: v version, a at, w whole until, g gone at ('' is forever), c content (none: spent)
--   root:i:INDEX       members by when they are due
--   root:s:WINDOW      hash: 'begin end' of a slot -> 'units until'
--   root:h:WINDOW      hash: holder -> 'begin end units'
--   root:o             hash: number -> 'at node entry', what is not on disk yet
--   root:q:NODE        the numbers of a node's part of that
--   root:x             what turns by its age alone, by when: 'r' RECORD, 's' begin end WINDOW
-- No key has an expiry of its own: Redis goes by another time than commits do, and may evict what has one.
--
-- Times are microseconds, and like numbers and units below 2^53, which a double holds exactly; they are text on the way.

local op, root = ARGV[1], KEYS[1]
local MOST = 9007199254740991

-- Every write goes through here, and is tried first: is it allowed to the user?
local alter

local function try(...)
  if not redis.acl_check_cmd(...) then
    error({ err = 'DENIED the user may not call ' .. (...) })
  end
end

local function text(number)
  return string.format('%.0f', number)
end

local meta = redis.call('HMGET', root, 'format', 'time', 'last')
if meta[1] and meta[1] ~= '1' then
  return redis.error_reply('SLUICE the store is of format ' .. meta[1] .. '; a later version of Sluice wrote it')
end

local mark, clock = tonumber(meta[2] or 0), tonumber(ARGV[2])
if not clock then
  local time = redis.call('TIME')
  clock = time[1] * 1000000 + time[2]
end
local now = math.max(clock, mark, tonumber(ARGV[3]))
-- Behind what every operation has.
local at = 3

local function take()
  at = at + 1
  return ARGV[at]
end

-- What was told never runs back. A Redis that takes no writes still tells it.
local function tell()
  if now > mark then
    redis.pcall('HSET', root, 'time', text(now))
  end
  return text(now)
end

local function words(packed)
  local found = {}
  for word in string.gmatch(packed, '%S+') do
    found[#found + 1] = tonumber(word)
  end
  return unpack(found)
end

-- A record as its age has made it.
local function record(name)
  local found = redis.call('HMGET', root .. ':r:' .. name, 'v', 'a', 'w', 'g', 'c')
  if not found[1] or (found[4] ~= '' and now >= tonumber(found[4])) then
    return nil
  end
  local content = found[5]
  if found[3] ~= '' and now >= tonumber(found[3]) then
    content = false
  end
  return { version = found[1], at = found[2], content = content }
end

local function used(window, from, to)
  local slots, sum = redis.call('HGETALL', root .. ':s:' .. window), 0
  for i = 1, #slots, 2 do
    local begins, ends = words(slots[i])
    if ends > from and begins < to then
      sum = sum + (words(slots[i + 1]))
    end
  end
  return sum
end

-- How far a window reaches; then the slot of now, and until when it matters: nothing outside of a fixed span.
local function span()
  local kind, first, second = take(), tonumber(take()), tonumber(take())
  if kind == 'f' then
    if now < first or now >= second then
      return first, second
    end
    return first, second, first, second, second
  end
  local begins, reach = now - now % first, first * second
  local ends = math.min(begins + first, MOST)
  return begins - reach, math.huge, begins, ends, math.min(ends + reach, MOST)
end

local function commit()
  local limit, node, entry = tonumber(take()), take(), take()
  if limit and now > limit then
    return { 'late', text(now) }
  end
  local number = tonumber(meta[3] or 0) + 1
  if number > MOST then
    error('numbers have come to an end')
  end
  local obstacles, writes, step = { 'stood', '' }, {}, -1

  local function stood(what, ...)
    local told = { text(step), what, '', '', '', '' }
    for i, more in ipairs({ ... }) do
      told[2 + i] = more
    end
    for _, one in ipairs(told) do
      obstacles[#obstacles + 1] = one
    end
  end

  local function write(act)
    writes[#writes + 1] = act
  end

  local function found(old)
    if old then
      stood('record', old.version, old.at, old.content and 'whole' or 'spent', old.content or '')
    else
      stood('nothing')
    end
  end

  local function is_absent(name)
    local old = record(name)
    if old then
      found(old)
    end
    return not old
  end

  local function is_of(name, version)
    local old = record(name)
    local is = old and old.version == version and old.content
    if not is then
      found(old)
    end
    return is
  end

  local function put(name, value, whole, spent)
    local whole_until, gone_at = '', ''
    if whole ~= '' then
      local turn = math.min(now + tonumber(whole), MOST)
      whole_until, gone_at = text(turn), text(math.min(turn + tonumber(spent), MOST))
    end
    write(function()
      local key = root .. ':r:' .. name
      alter('DEL', key)
      alter('HSET', key, 'v', text(number), 'a', text(now), 'w', whole_until, 'g', gone_at, 'c', value)
      if whole_until == '' then
        alter('ZREM', root .. ':x', 'r' .. name)
      else
        alter('ZADD', root .. ':x', whole_until, 'r' .. name)
      end
    end)
  end

  local function holder(window, name)
    return redis.call('HGET', root .. ':h:' .. window, name)
  end

  local steps = {
    absent = function()
      is_absent(take())
    end,
    version = function()
      local name, version = take(), take()
      is_of(name, version)
    end,
    before = function()
      if now >= tonumber(take()) then
        stood('time')
      end
    end,
    after = function()
      if now < tonumber(take()) then
        stood('time')
      end
    end,
    -- What is written bears the number that is taken in the end.
    above = function()
      number = math.max(number, tonumber(take()) + 1)
      if number > MOST then
        error('numbers have come to an end')
      end
    end,
    member = function()
      if not redis.call('ZSCORE', root .. ':i:' .. take(), take()) then
        stood('membership')
      end
    end,
    not_member = function()
      if redis.call('ZSCORE', root .. ':i:' .. take(), take()) then
        stood('membership')
      end
    end,
    create = function()
      local name, value, whole, spent = take(), take(), take(), take()
      if is_absent(name) then
        put(name, value, whole, spent)
      end
    end,
    replace = function()
      local name, version, value, whole, spent = take(), take(), take(), take(), take()
      if is_of(name, version) then
        put(name, value, whole, spent)
      end
    end,
    delete = function()
      local name, version = take(), take()
      if is_of(name, version) then
        write(function()
          alter('DEL', root .. ':r:' .. name)
          alter('ZREM', root .. ':x', 'r' .. name)
        end)
      end
    end,
    index_add = function()
      local index, member, due = take(), take(), tonumber(take())
      write(function()
        alter('ZADD', root .. ':i:' .. index, text(math.min(now + due, MOST)), member)
      end)
    end,
    index_remove = function()
      local index, member = take(), take()
      write(function()
        alter('ZREM', root .. ':i:' .. index, member)
      end)
    end,
    reserve = function()
      local window, name, units, most = take(), take(), tonumber(take()), tonumber(take())
      local from, to, begins, ends, matters = span()
      if not begins then
        return stood('time')
      end
      if holder(window, name) then
        return stood('reserved')
      end
      local sum = used(window, from, to)
      if sum + units > most then
        return stood('used', text(sum))
      end
      local slots, slot = root .. ':s:' .. window, text(begins) .. ' ' .. text(ends)
      local before, matters_before = words(redis.call('HGET', slots, slot) or ('0 ' .. text(matters)))
      matters = math.max(matters, matters_before)
      write(function()
        alter('HSET', slots, slot, text(before + units) .. ' ' .. text(matters))
        alter('ZADD', root .. ':x', text(matters), 's' .. slot .. ' ' .. window)
        alter('HSET', root .. ':h:' .. window, name, slot .. ' ' .. text(units))
      end)
    end,
    settle = function()
      local window, name = take(), take()
      write(function()
        alter('HDEL', root .. ':h:' .. window, name)
      end)
    end,
    give_back = function()
      local window, name = take(), take()
      local held = holder(window, name)
      if not held then
        return
      end
      local begins, ends, units = words(held)
      local slots, slot = root .. ':s:' .. window, text(begins) .. ' ' .. text(ends)
      local before = redis.call('HGET', slots, slot)
      local left, matters
      if before then
        left, matters = words(before)
        left = math.max(left - units, 0)
      end
      write(function()
        alter('HDEL', root .. ':h:' .. window, name)
        if left and left > 0 then
          alter('HSET', slots, slot, text(left) .. ' ' .. text(matters))
        elseif left then
          alter('HDEL', slots, slot)
          alter('ZREM', root .. ':x', 's' .. slot .. ' ' .. window)
        end
      end)
    end,
  }

  while at < #ARGV do
    step = step + 1
    steps[take()]()
  end
  if #obstacles > 2 then
    obstacles[2] = tell()
    return obstacles
  end
  return { 'done', text(number), text(now) },
    function()
      alter('HSET', root, 'format', '1', 'time', text(now), 'last', text(number))
      alter('HSET', root .. ':o', text(number), text(now) .. ' ' .. node .. ' ' .. entry)
      alter('ZADD', root .. ':q:' .. node, text(number), text(number))
      for _, act in ipairs(writes) do
        act()
      end
    end
end

-- The parts of 'at node entry'.
local function unpacked(packed)
  local first = string.find(packed, ' ', 1, true)
  local second = string.find(packed, ' ', first + 1, true)
  return string.sub(packed, 1, first - 1), string.sub(packed, first + 1, second - 1), string.sub(packed, second + 1)
end

local operations = {
  commit = commit,
  time = function()
    return { tell() }
  end,
  read = function()
    local old = record(take())
    if not old then
      return { tell() }
    end
    return { tell(), old.version, old.at, old.content and 'whole' or 'spent', old.content or '' }
  end,
  last = function()
    return { tell(), meta[3] or '0' }
  end,
  used = function()
    local window = take()
    local from, to = span()
    return { tell(), text(used(window, from, to)) }
  end,
  outbox = function()
    local node, last = take(), tonumber(take()) - 1
    local told = {}
    for _, number in ipairs(redis.call('ZRANGE', root .. ':q:' .. node, 0, last)) do
      local packed = redis.call('HGET', root .. ':o', number)
      if packed then
        local written, _, entry = unpacked(packed)
        told[#told + 1], told[#told + 2], told[#told + 3] = number, written, entry
      end
    end
    return told
  end,
  drained = function()
    local numbers = {}
    while at < #ARGV do
      numbers[#numbers + 1] = take()
    end
    return {}, function()
      for _, number in ipairs(numbers) do
        local packed = redis.call('HGET', root .. ':o', number)
        if packed then
          local _, node = unpacked(packed)
          alter('ZREM', root .. ':q:' .. node, number)
          alter('HDEL', root .. ':o', number)
        end
      end
    end
  end,
  sweep = function()
    local expiries = root .. ':x'
    local turned = redis.call('ZRANGEBYSCORE', expiries, '-inf', text(now), 'LIMIT', 0, take())
    return { tell(), text(#turned) }, function()
      for _, one in ipairs(turned) do
        local name = string.sub(one, 2)
        alter('ZREM', expiries, one)
        if string.sub(one, 1, 1) == 's' then
          local first = string.find(name, ' ', 1, true)
          local second = string.find(name, ' ', first + 1, true)
          alter('HDEL', root .. ':s:' .. string.sub(name, second + 1), string.sub(name, 1, second - 1))
        else
          local key = root .. ':r:' .. name
          local gone_at = redis.call('HGET', key, 'g')
          if gone_at and gone_at ~= '' and now >= tonumber(gone_at) then
            alter('DEL', key)
          elseif gone_at and gone_at ~= '' then
            alter('HDEL', key, 'c')
            alter('ZADD', expiries, gone_at, 'r' .. name)
          end
        end
      end
    end
  end,
}

-- INVARIANT: whatever is wrong with what is asked or stored, and whatever the user may not do, is found before anything
-- is written.
local is_well, answer, act = pcall(operations[op])
local fault = answer
if is_well and act then
  alter = try
  is_well, fault = pcall(act)
end
if not is_well then
  local why = type(fault) == 'table' and fault.err or tostring(fault)
  local is_of_user = string.find(why, '^NOPERM') or string.find(why, '^DENIED')
  return redis.error_reply(is_of_user and why or 'SLUICE ' .. why)
end
if act then
  alter = redis.call
  act()
end
return answer
