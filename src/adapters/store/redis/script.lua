-- The commit language, and all that is asked of the store, in one script: one call is one atomic step.
--
-- KEYS[1] is the root of an environment; every key begins with it, so that its hash tag keeps them together:
--   root               hash: format; time, the latest that was told; last, the number of the latest commit;
--                      generation, by which the store is known again; run, the process and history that all live nodes
--                      have met; next and since, another one that they are meeting; lost, since when it is known that
--                      something is forgotten; above, what the next number is above
--   root:r:RECORD      hash: v version, a at, w whole until, g gone at ('' is forever), c content (none: spent)
--   root:i:INDEX       members by when they are due
--   root:s:WINDOW      hash: 'begin end' of a slot -> 'units until'
--   root:h:WINDOW      hash: holder -> 'begin end units'
--   root:o             hash: number -> 'at node entry', what is not on disk yet
--   root:q:NODE        the numbers of a node's part of that
--   root:x             what turns by its age alone, by when: 'r' RECORD, 's' begin end WINDOW
--   root:l             hash: NODE -> the highest number that it committed or took over
--   root:n             hash: NODE -> 'instance beat run told', who is on the roll
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

local meta = redis.call('HMGET', root, 'format', 'time', 'last', 'generation', 'run', 'lost', 'above')
local generation, run, lost = meta[4], meta[5], meta[6]
if meta[1] == 'import' and op ~= 'import' and op ~= 'imported' then
  return redis.error_reply('SLUICE an import into this store did not end: empty it and import again')
elseif meta[1] and meta[1] ~= '1' and meta[1] ~= 'import' then
  return redis.error_reply('SLUICE the store is of format ' .. meta[1] .. '; a later version of Sluice wrote it')
end

local mark, clock = tonumber(meta[2] or 0), tonumber(ARGV[2])
if not clock then
  local time = redis.call('TIME')
  clock = time[1] * 1000000 + time[2]
end
local now = math.max(clock, mark, tonumber(ARGV[3]))
-- Behind what every operation has.
local at = 7
-- Who asks, and what it knows of this store: nothing where it knows no generation.
local asker, known, met, highest = ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])

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

local function number_of(node)
  return tonumber(redis.call('HGET', root .. ':l', node) or 0)
end

-- The highest number that a node has: what it knows, and nobody else's commits can hide that it is gone.
local function raise(node, number)
  if number > number_of(node) then
    alter('HSET', root .. ':l', node, text(number))
  end
end

local is_behind

-- It is said at once, for all nodes: until money is closed nothing else is done.
local function forgot(seen)
  is_behind = (known ~= '' and known ~= generation) or highest > number_of(asker) or seen > tonumber(meta[3] or 0)
  if is_behind and not lost then
    lost = text(now)
    redis.pcall('HSET', root, 'lost', lost)
  end
  local latest = math.max(highest, seen)
  if is_behind and latest > tonumber(meta[7] or 0) then
    redis.pcall('HSET', root, 'above', text(latest))
  end
  return lost
end

local is_of_roll = op == 'beat' or op == 'closed' or op == 'leave'
if known ~= '' and not is_of_roll then
  if forgot(0) then
    return redis.error_reply('OTHER the store has forgotten what a node knows of it')
  elseif run ~= met then
    return redis.error_reply('OTHER not every node has met this Redis since it was started or promoted')
  end
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
  local number = math.max(tonumber(meta[3] or 0), tonumber(meta[7] or 0)) + 1
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
      raise(node, number)
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

-- What a store tells of a node, told at its end.
local function member(packed)
  local instance, beat, its_run, told = string.match(packed, '^(%S*) (%S+) (%S*) (.*)$')
  return { instance = instance, beat = tonumber(beat), run = its_run, told = told }
end

local function roll()
  local all, packed = {}, redis.call('HGETALL', root .. ':n')
  for i = 1, #packed, 2 do
    all[packed[i]] = member(packed[i + 1])
  end
  return all
end

local function enroll(node, one)
  local packed = table.concat({ one.instance, text(one.beat), one.run, one.told }, ' ')
  redis.call('HSET', root .. ':n', node, packed)
end

-- Whether all that lived when `since` began have come since then, or been waited for long enough.
local function is_gathered(all, since, lapse, has_come)
  local latest = 0
  for _, one in pairs(all) do
    if not has_come(one) then
      latest = math.max(latest, one.beat)
    end
  end
  for _, one in pairs(all) do
    if not has_come(one) and one.beat > 0 and one.beat >= latest - lapse and now - since < lapse then
      return false
    end
  end
  return true
end

local function tell_roll(verdict, all)
  local told = { verdict, tell(), redis.call('HGET', root, 'generation') or '', redis.call('HGET', root, 'run') or '' }
  told[#told + 1] = redis.call('HGET', root, 'last') or '0'
  for node, one in pairs(all) do
    for _, word in ipairs({ node, one.instance, text(one.beat), text(number_of(node)), one.run, one.told }) do
      told[#told + 1] = word
    end
  end
  return told
end

-- A node is there, and meets the Redis that it is connected to.
local function beat()
  local instance, former, fresh, lapse, told = take(), take(), take(), tonumber(take()), take()
  -- The highest number of whatever node that it was told before.
  local seen = tonumber(take())
  local all = roll()
  local mine = all[asker]
  local is_anothers = mine and mine.instance ~= instance and mine.instance ~= former and mine.instance ~= ''
  if is_anothers and now - mine.beat < lapse then
    return tell_roll('taken', all)
  end
  -- Who lived here before does not vanish with what is forgotten.
  local before = tonumber(lost or now) - 1
  while at < #ARGV do
    local node = take()
    if not all[node] then
      all[node] = { instance = '', beat = before, run = '', told = '{}' }
      enroll(node, all[node])
    end
  end
  -- In a store that is empty and of which nobody knows anything, it begins.
  if not generation and known == '' and highest == 0 and seen == 0 and not lost then
    generation, run = fresh, met
    redis.call('HSET', root, 'format', '1', 'generation', fresh, 'run', met)
  end
  all[asker] = { instance = instance, beat = now, run = met, told = told }
  enroll(asker, all[asker])
  if forgot(seen) or not generation then
    lost = lost or text(now)
    redis.call('HSET', root, 'lost', lost)
    local function has_come(one)
      return one.beat >= tonumber(lost)
    end
    -- Who is behind closes; others do if that does not come about.
    local closes = is_behind and is_gathered(all, tonumber(lost), lapse, has_come)
    return tell_roll((closes or now - lost >= lapse) and 'lost' or 'gathering', all)
  end
  if run ~= met then
    local next_run, since = unpack(redis.call('HMGET', root, 'next', 'since'))
    if next_run ~= met then
      since = text(now)
      redis.call('HSET', root, 'next', met, 'since', since)
    end
    local function has_come(one)
      return one.run == met
    end
    if not is_gathered(all, tonumber(since), lapse, has_come) then
      return tell_roll('meeting', all)
    end
    redis.call('HSET', root, 'run', met)
    redis.call('HDEL', root, 'next', 'since')
  end
  return tell_roll('well', all)
end

local operations = {
  beat = beat,
  -- What is known of the store, asked by who is no part of it.
  roll = function()
    return tell_roll(lost and 'lost' or 'well', roll())
  end,
  -- A node ends in order, and is waited for by nobody.
  leave = function()
    local instance = take()
    local one = roll()[asker]
    return {}, function()
      if one and one.instance == instance then
        one.beat = 0
        enroll(asker, one)
      end
    end
  end,
  -- A part of an export, into what was empty before the first of it.
  import = function()
    local is_first = take() == '1'
    -- That it was asked for its time makes no store of it.
    if (is_first and (meta[1] or lost)) or (not is_first and meta[1] ~= 'import') then
      error('there is a store already')
    end
    local writes = { { 'HSET', root, 'format', 'import' } }
    local function write(...)
      writes[#writes + 1] = { ... }
    end
    while at < #ARGV do
      local kind = take()
      if kind == 'record' then
        local name, version, written, whole, gone, state, content = take(), take(), take(), take(), take(), take(), take()
        local key = root .. ':r:' .. name
        write('HSET', key, 'v', version, 'a', written, 'w', whole, 'g', gone)
        if state == 'whole' then
          write('HSET', key, 'c', content)
        end
        local turns = state == 'whole' and whole or gone
        if turns ~= '' then
          write('ZADD', root .. ':x', turns, 'r' .. name)
        end
      elseif kind == 'member' then
        local index, due, name = take(), take(), take()
        write('ZADD', root .. ':i:' .. index, due, name)
      elseif kind == 'slot' then
        local window, slot, units, matters = take(), take(), take(), take()
        write('HSET', root .. ':s:' .. window, slot, units .. ' ' .. matters)
        write('ZADD', root .. ':x', matters, 's' .. slot .. ' ' .. window)
      elseif kind == 'holder' then
        local window, name, slot, units = take(), take(), take(), take()
        write('HSET', root .. ':h:' .. window, name, slot .. ' ' .. units)
      else
        local number, written, node, entry = take(), take(), take(), take()
        write('HSET', root .. ':o', number, written .. ' ' .. node .. ' ' .. entry)
        write('ZADD', root .. ':q:' .. node, number, number)
      end
    end
    return {}, function()
      for _, words in ipairs(writes) do
        alter(unpack(words))
      end
    end
  end,
  -- All of it is in: with the commit that closes it for money it is a store.
  imported = function()
    local fresh, time, last = take(), tonumber(take()), take()
    if meta[1] ~= 'import' then
      error('nothing was imported')
    end
    now, meta[3] = math.max(now, time), last
    local told, write = commit()
    return told, write and function()
      alter('HSET', root, 'generation', fresh, 'run', met)
      write()
    end
  end,
  -- Money is closed for what was forgotten: all else goes on.
  closed = function()
    local fresh = take()
    return { generation or fresh }, function()
      alter('HDEL', root, 'lost')
      alter('HSET', root, 'format', '1', 'generation', generation or fresh)
      if not run then
        alter('HSET', root, 'run', met)
      end
    end
  end,
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
  -- What lies in the outboxes of nodes that are gone; who asks has it from now on, besides.
  take_over = function()
    local taker, lapse, left = take(), tonumber(take()), tonumber(take())
    local told, all, taken = {}, roll(), 0
    local known_by = redis.call('HGETALL', root .. ':l')
    for i = 1, #known_by, 2 do
      local node = known_by[i]
      if node ~= taker and left > 0 and not (all[node] and now - all[node].beat < lapse) then
        for _, number in ipairs(redis.call('ZRANGE', root .. ':q:' .. node, 0, left - 1)) do
          local packed = redis.call('HGET', root .. ':o', number)
          if packed then
            local written, _, entry = unpacked(packed)
            told[#told + 1], told[#told + 2], told[#told + 3], told[#told + 4] = number, written, node, entry
            taken, left = math.max(taken, tonumber(number)), left - 1
          end
        end
      end
    end
    return told, function()
      raise(taker, taken)
    end
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
    local most = take()
    local turned = redis.call('ZRANGEBYSCORE', expiries, '-inf', text(now), 'LIMIT', 0, most)
    local ended = redis.call('ZRANGEBYSCORE', root .. ':i:ended', '-inf', '(' .. text(now), 'LIMIT', 0, most - #turned)
    return { tell(), text(#turned + #ended) }, function()
      for _, one in ipairs(ended) do
        alter('ZREM', root .. ':i:ended', one)
      end
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
