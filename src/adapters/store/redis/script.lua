-- Every commit and every query of the store, in one script: one call is one atomic step.
--
-- KEYS[1] is the root of an environment; every key begins with it, so that its hash tag keeps them in one slot:
--   root               hash: format; time, the latest reported time; last, the number of the latest commit;
--                      generation, which identifies this store; run, the process and history that all running nodes
--                      have met; next and since, a new run that they are meeting; lost, since when a loss is known;
--                      above, which the next number exceeds; rebuilding, the process that rebuilds the store, and
--                      when it was heard; distrusted, if the store contradicted a journal; skew, what is added to
--                      the clock of the Redis, which leapt; epoch, how often people had it followed again;
--                      promoted, when gates first met the run in use, if it is not the first one;
--                      waiting, how many bytes the outbox has
--   root:r:RECORD      hash: v version, a at, w whole until, g gone at ('' is forever), c content (none: spent)
--   root:i:INDEX       members by their due time
--   root:s:WINDOW      hash: 'begin end' of a slot -> 'units until'
--   root:h:WINDOW      hash: holder -> 'begin end units'
--   root:o             hash: number -> 'at node entry', entries that not every journal has yet
--   root:q             their numbers
--   root:k             hash: NODE -> 'JOURNAL number', the number up to which the node's journal has every entry
--   root:f             hash: former generations, of stores in whose place this one was rebuilt or imported
--   root:c             hash: NODE -> the highest number of its own commits, as the node itself knows it
--   root:g             hash: 'NODE JOURNAL' -> 'number state', where a journal ended that another one of its node
--                      replaced; state is `retired` or `lost`
--   root:x             expiries by time: 'r' RECORD, 's' begin end WINDOW
--   root:l             hash: NODE -> the highest number that it committed
--   root:n             hash: NODE -> 'instance beat run told', the registered nodes
--   root:w             hash: NODE -> 'time', when it ended in order; 'time retired', if other journals have all that
--                      its own has
--   root:m             hash: NODE -> 'number state', while the store is lost: the highest number of its commits that
--                      another node was told of; state is `retired` if every such node was told that it retired
--   root:t             hash: number -> 'at node entry', while the store is lost: entries that one journal lends to
--                      another
--   root:u             hash: part -> 'instance nth node number NODE...' and, behind a line feed, bytes, while the store
--                      is being rebuilt: the part that is shown of the snapshot up to that number, to these nodes
--   root:v             hash: NODE -> 'instance nth', the parts that it has taken
-- No key has a Redis expiry: Redis measures it by another clock than commits use, and may evict such keys.
--
-- Times are in microseconds. Times, numbers and units are below 2^53, so a double holds them exactly; arguments and
-- replies carry them as text.

local op, root = ARGV[1], KEYS[1]
local MAX_EXACT = 9007199254740991
-- How many entries wait for nodes that do not run, and how many bytes.
local MAX_WAITING = 16384
local MAX_WAITING_BYTES = 64 * 1024 * 1024
-- How long the entries wait for a node that left in order, in microseconds.
local RETURNS_WITHIN = 3600 * 1000000

-- Every write calls this. On the first pass it is `try`, which only checks whether the user may call the command.
local alter

local function try(...)
  if not redis.acl_check_cmd(...) then
    error({ err = 'DENIED the user may not call ' .. (...) })
  end
end

local function text(number)
  return string.format('%.0f', number)
end

local meta =
  redis.call('HMGET', root, 'format', 'time', 'last', 'generation', 'run', 'lost', 'above', 'skew', 'epoch', 'waiting')
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
local skew, epoch = tonumber(meta[8] or 0), tonumber(meta[9] or 0)
clock = clock + skew
-- The time that the calling gate expects, and how far the clock may differ: a clock that leaps is not followed.
local expected, tolerance = tonumber(ARGV[8]), tonumber(ARGV[9])
local followed = clock
if expected then
  followed = math.min(math.max(clock, expected - tolerance), expected + tolerance)
end
local now = math.max(followed, mark, tonumber(ARGV[3]))
-- Whoever expects no time cannot tell whether the clock leapt.
local is_sure = expected or ARGV[2] ~= ''
-- The index of the last argument that all operations share.
local at = 9
-- The calling node, and what it knows of this store: `known` is empty if it knows no generation.
local asker, known, met, highest = ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])

-- A node that found a loss waits, knowing no generation, until the store is whole again.
local is_known, waits = known ~= '' and known ~= '-', known == '-'

local function take()
  at = at + 1
  return ARGV[at]
end

-- Stores and returns the time. Reported times never run back. A Redis that refuses writes still reports it.
local function tell()
  if now > mark and is_sure then
    redis.pcall('HSET', root, 'time', text(now))
  end
  return text(now)
end

local function number_of(node)
  return tonumber(redis.call('HGET', root .. ':l', node) or 0)
end

-- Raises the highest number of a node: only the node's own commits count, so those of others cannot hide a loss.
local function raise(node, number)
  if number > number_of(node) then
    alter('HSET', root .. ':l', node, text(number))
  end
end

local is_behind

-- Marks a loss at once, for all nodes: until money is closed nothing else is done.
local function forgot(seen)
  is_behind = (is_known and not generation) or highest > number_of(asker) or seen > tonumber(meta[3] or 0)
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

local IS_OF_ROLL = {
  beat = true,
  leave = true,
  distrust = true,
  lend = true,
  borrow = true,
  rebuild = true,
  repair = true,
  wipe = true,
  show_part = true,
  taken_parts = true,
  take_part = true,
  rebuilt = true,
}
if known ~= '' and not IS_OF_ROLL[op] then
  -- The heartbeat finds out whether this is another store.
  if waits or (is_known and generation and known ~= generation) or forgot(0) then
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

-- Returns a record without its expired parts.
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
    local units, matters = words(slots[i + 1])
    -- A slot may be swept late.
    if ends > from and begins < to and matters > now then
      sum = sum + units
    end
  end
  return sum
end

-- Returns the reach of a window, then the slot of a time and until when it counts: no slot outside a fixed span.
local function span(time)
  local kind, first, second = take(), tonumber(take()), tonumber(take())
  if kind == 'f' then
    if time < first or time >= second then
      return first, second
    end
    return first, second, first, second, second
  end
  local begins, reach = time - time % first, first * second
  local ends = math.min(begins + first, MAX_EXACT)
  return begins - reach, math.huge, begins, ends, math.min(ends + reach, MAX_EXACT)
end

local function commit()
  local limit, node, entry = tonumber(take()), take(), take()
  -- A clock that leapt makes every commit late, but for the one that says so.
  if limit and math.max(clock, now) > limit then
    return { 'late', text(now) }
  end
  local number = math.max(tonumber(meta[3] or 0), tonumber(meta[7] or 0)) + 1
  if number > MAX_EXACT then
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
      local turn = math.min(now + tonumber(whole), MAX_EXACT)
      whole_until, gone_at = text(turn), text(math.min(turn + tonumber(spent), MAX_EXACT))
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

  local function add_to_slot(window, begins, ends, units, matters)
    local slots, slot = root .. ':s:' .. window, text(begins) .. ' ' .. text(ends)
    local before, matters_before = words(redis.call('HGET', slots, slot) or ('0 ' .. text(matters)))
    matters = math.max(matters, matters_before)
    write(function()
      alter('HSET', slots, slot, text(math.min(before + units, MAX_EXACT)) .. ' ' .. text(matters))
      alter('ZADD', root .. ':x', text(matters), 's' .. slot .. ' ' .. window)
    end)
  end

  -- Takes units away from a slot, if it is still there.
  local function take_from_slot(window, begins, ends, units)
    local slots, slot = root .. ':s:' .. window, text(begins) .. ' ' .. text(ends)
    local before = redis.call('HGET', slots, slot)
    if not before then
      return
    end
    local left, matters = words(before)
    left = math.max(left - units, 0)
    write(function()
      if left > 0 then
        alter('HSET', slots, slot, text(left) .. ' ' .. text(matters))
      else
        alter('HDEL', slots, slot)
        alter('ZREM', root .. ':x', 's' .. slot .. ' ' .. window)
      end
    end)
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
    -- Writes the number that this commit takes in the end.
    above = function()
      number = math.max(number, tonumber(take()) + 1)
      if number > MAX_EXACT then
        error('numbers have come to an end')
      end
    end,
    keep_pace = function()
      if not expected then
        error('a process that expects no time cannot correct it')
      end
      if clock ~= followed then
        write(function()
          alter('HSET', root, 'skew', text(skew + expected - clock))
        end)
      end
    end,
    -- Time that was reported never runs back, so a clock that is behind stays corrected.
    follow_clock = function()
      write(function()
        alter('HSET', root, 'skew', text(math.max(skew, 0)), 'epoch', text(epoch + 1))
      end)
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
    since = function()
      local score = redis.call('ZSCORE', root .. ':i:' .. take(), take())
      local time = tonumber(take())
      if not score or tonumber(score) > time then
        stood('membership')
      end
    end,
    not_since = function()
      local score = redis.call('ZSCORE', root .. ':i:' .. take(), take())
      local time = tonumber(take())
      if score and tonumber(score) <= time then
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
        alter('ZADD', root .. ':i:' .. index, text(math.min(now + due, MAX_EXACT)), member)
      end)
    end,
    index_earliest = function()
      local name, member, ago = take(), take(), tonumber(take())
      local index, time = root .. ':i:' .. name, math.max(now - ago, 0)
      local before = redis.call('ZSCORE', index, member)
      if not before or tonumber(before) > time then
        write(function()
          alter('ZADD', index, text(time), member)
        end)
      end
    end,
    index_remove = function()
      local index, member = take(), take()
      write(function()
        alter('ZREM', root .. ':i:' .. index, member)
      end)
    end,
    reserve = function()
      local window, name, units, most = take(), take(), tonumber(take()), tonumber(take())
      local from, to, begins, ends, matters = span(now)
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
      add_to_slot(window, begins, ends, units, matters)
      write(function()
        alter('HSET', root .. ':h:' .. window, name, text(begins) .. ' ' .. text(ends) .. ' ' .. text(units))
      end)
    end,
    -- Counts units for good in the slot of an earlier time.
    book = function()
      local window, units, time = take(), tonumber(take()), tonumber(take())
      local _, _, begins, ends, matters = span(time)
      if begins and matters > now then
        add_to_slot(window, begins, ends, units, matters)
      end
    end,
    -- Takes units away from the slot of an earlier time.
    unbook = function()
      local window, units, time = take(), tonumber(take()), tonumber(take())
      local _, _, begins, ends, matters = span(time)
      if begins and matters > now then
        take_from_slot(window, begins, ends, units)
      end
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
      write(function()
        alter('HDEL', root .. ':h:' .. window, name)
      end)
      take_from_slot(window, begins, ends, units)
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
  local packed = text(now) .. ' ' .. node .. ' ' .. entry
  local waiting = text(tonumber(meta[10] or 0) + #packed)
  return { 'done', text(number), text(now) }, function()
    alter('HSET', root, 'format', '1', 'time', text(now), 'last', text(number), 'waiting', waiting)
    alter('HSET', root .. ':o', text(number), packed)
    alter('ZADD', root .. ':q', text(number), text(number))
    raise(node, number)
    for _, act in ipairs(writes) do
      act()
    end
  end
end

-- Splits 'at node entry'.
local function unpacked(packed)
  local first = string.find(packed, ' ', 1, true)
  local second = string.find(packed, ' ', first + 1, true)
  return string.sub(packed, 1, first - 1), string.sub(packed, first + 1, second - 1), string.sub(packed, second + 1)
end

-- Parses a node's registration; the text for people comes last.
local function member(packed)
  local instance, beat, its_run, acked, told = string.match(packed, '^(%S*) (%S+) (%S*) (%S*) (.*)$')
  return { instance = instance, beat = tonumber(beat), run = its_run, acked = acked, told = told }
end

local function roll()
  local all, packed = {}, redis.call('HGETALL', root .. ':n')
  for i = 1, #packed, 2 do
    all[packed[i]] = member(packed[i + 1])
  end
  return all
end

local function enroll(node, one)
  local packed = table.concat({ one.instance, text(one.beat), one.run, one.acked, one.told }, ' ')
  redis.call('HSET', root .. ':n', node, packed)
end

-- Whether every node that ran when `since` began has come since then, or was waited for long enough.
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

-- Returns when a node ended in order, and whether it retired.
local function left(node)
  local time, state = string.match(redis.call('HGET', root .. ':w', node) or '', '^(%d+) ?(%S*)$')
  return tonumber(time or 0), state == 'retired'
end

local function has_retired(node, one)
  local _, is_retired = left(node)
  return one.beat == 0 and is_retired
end

-- Stores how far the journal of a node has every entry; a journal that it replaces is remembered.
local function keep(node, journal, number, was_retired)
  local old, had = string.match(redis.call('HGET', root .. ':k', node) or '', '^(%S+) (%d+)$')
  if old and old ~= journal then
    alter('HSET', root .. ':g', node .. ' ' .. old, had .. (was_retired and ' retired' or ' lost'))
  end
  alter('HSET', root .. ':k', node, journal .. ' ' .. text(number))
end

local function tell_roll(verdict, all)
  local told = { verdict, tell(), text(clock), text(epoch), redis.call('HGET', root, 'promoted') or '' }
  told[#told + 1] = redis.call('HGET', root, 'generation') or ''
  told[#told + 1] = redis.call('HGET', root, 'run') or ''
  told[#told + 1] = redis.call('HGET', root, 'last') or '0'
  told[#told + 1] = redis.call('HGET', root, 'above') or '0'
  told[#told + 1] = redis.call('HGET', root, 'lost') or ''
  for node, one in pairs(all) do
    local has = string.match(redis.call('HGET', root .. ':k', node) or '0', '%d+$')
    local own = redis.call('HGET', root .. ':c', node) or '0'
    local retired = has_retired(node, one) and '1' or ''
    local words_of =
      { node, one.instance, text(one.beat), text(number_of(node)), has, own, one.run, one.acked, retired, one.told }
    for _, word in ipairs(words_of) do
      told[#told + 1] = word
    end
  end
  return told
end

-- Handles a heartbeat: the node is running, and meets the Redis that it is connected to.
local function beat()
  local instance, former, fresh, lapse, told = take(), take(), take(), tonumber(take()), take()
  -- The highest number, of any node, that it was told before or has in its journal.
  local seen = tonumber(take())
  local journal, has, its_generation, wanted, acked = take(), tonumber(take()), take(), take(), take()
  local all = roll()
  local mine = all[asker]
  local was_retired = mine and has_retired(asker, mine)
  local old_journal, had = string.match(redis.call('HGET', root .. ':k', asker) or '', '^(%S+) (%d+)$')
  -- A running process may have told more since it made this heartbeat.
  local is_first = not mine or mine.instance ~= instance
  if is_first and old_journal == journal and tonumber(had) > has then
    return tell_roll('cut', all)
  end
  if wanted ~= '' and generation and generation ~= wanted then
    return tell_roll('foreign', all)
  end
  local is_other = its_generation ~= '' and generation and its_generation ~= generation
  if lost and its_generation ~= '' then
    redis.call('HSET', root .. ':f', its_generation, '1')
  elseif is_other and not redis.call('HGET', root .. ':f', its_generation) then
    local last = tonumber(meta[3] or 0)
    -- A store without any commit in the place of one without any is as good.
    local are_empty = fresh ~= '' and math.max(has, highest, seen, last) == 0
    -- A store that people create is another installation's.
    if fresh == '' or (has <= last and not are_empty) then
      return tell_roll('foreign', all)
    elseif not are_empty then
      -- It knows more than this store, which may have been made anew in the place of its own.
      lost = text(now)
      redis.call('HSET', root, 'lost', lost)
    end
    redis.call('HSET', root .. ':f', its_generation, '1')
  end
  local is_anothers = mine and mine.instance ~= instance and mine.instance ~= former and mine.instance ~= ''
  if is_anothers and now - mine.beat < lapse then
    return tell_roll('taken', all)
  end
  -- A node that ran here before the loss must not vanish with the lost data.
  local before = tonumber(lost or now) - 1
  local others = {}
  while at < #ARGV do
    local node, state, number = take(), take(), tonumber(take())
    others[node] = { number = number, state = state }
    local one = all[node]
    local is_unknown = not one or (one.instance == '' and one.beat == 0)
    -- Of those that do not run, people may have declared one gone meanwhile: only a store that forgot lacks them.
    local is_forgotten = not one and (state == 'retired' or lost or not generation)
    if is_unknown and (state == 'live' or is_forgotten) then
      all[node] = { instance = '', beat = state == 'live' and before or 0, run = '', acked = '', told = '{}' }
      enroll(node, all[node])
      -- Entries wait for one that does not run and did not retire, as for one that has just ended.
      if state ~= 'live' then
        redis.call('HSET', root .. ':w', node, text(before) .. (state == 'retired' and ' retired' or ''))
      end
    end
  end
  -- An empty store of which no node knows anything is created here, or by hand: then the word is empty.
  if not generation and known == '' and highest == 0 and seen == 0 and not lost then
    if fresh == '' then
      return tell_roll('uncreated', all)
    end
    generation, run = fresh, met
    redis.call('HSET', root, 'format', '1', 'generation', fresh, 'run', met)
  end
  all[asker] = { instance = instance, beat = now, run = met, acked = acked, told = told }
  enroll(asker, all[asker])
  alter = redis.call
  keep(asker, journal, has, was_retired)
  redis.call('HSET', root .. ':c', asker, text(highest))
  if forgot(seen) or not generation then
    lost = lost or text(now)
    redis.call('HSET', root, 'lost', lost)
    -- The other nodes that this one was told of, with their commits: the rebuild asks who has them.
    for node, one in pairs(others) do
      local number, state = string.match(redis.call('HGET', root .. ':m', node) or '', '^(%S+) (%S+)$')
      number, state = math.max(tonumber(number or 0), one.number), state or 'retired'
      state = one.state == 'retired' and state or 'open'
      redis.call('HSET', root .. ':m', node, text(number) .. ' ' .. state)
    end
    -- A node has come once it acknowledges this loss: then it sends nothing more that it committed before.
    local function has_come(one)
      return one.acked == lost
    end
    -- A node that knows more than the store closes money; the others do so if no such node comes.
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
    redis.call('HSET', root, 'run', met, 'promoted', since)
    redis.call('HDEL', root, 'next', 'since')
  end
  return tell_roll('well', all)
end

-- Returns the writes of items, behind the given ones.
local function take_items(writes)
  local waiting = tonumber(meta[10] or 0)
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
    elseif kind == 'kept' then
      local node, journal, number = take(), take(), take()
      write('HSET', root .. ':k', node, journal .. ' ' .. number)
    elseif kind == 'committed' then
      local node, number = take(), take()
      write('HSET', root .. ':l', node, number)
    elseif kind == 'former' then
      write('HSET', root .. ':f', take(), '1')
    else
      local number, written, node, entry = take(), take(), take(), take()
      local packed = written .. ' ' .. node .. ' ' .. entry
      waiting = waiting + #packed
      write('HSET', root, 'waiting', text(waiting))
      write('HSET', root .. ':o', number, packed)
      write('ZADD', root .. ':q', number, number)
    end
  end
  return function()
    for _, command in ipairs(writes) do
      alter(unpack(command))
    end
  end
end

-- Returns how many bytes these entries of the outbox have.
local function bytes_of(numbers)
  local bytes = 0
  for _, packed in ipairs(redis.call('HMGET', root .. ':o', unpack(numbers))) do
    bytes = bytes + #(packed or '')
  end
  return bytes
end

-- Returns the number up to which entries leave because the outbox has too many bytes: those that this journal has.
local function passed_over(number)
  local excess, after = tonumber(meta[10] or 0) - MAX_WAITING_BYTES, 0
  while excess > 0 do
    local numbers = redis.call('ZRANGEBYSCORE', root .. ':q', '(' .. text(after), text(number), 'LIMIT', 0, 16)
    if #numbers == 0 then
      break
    end
    excess, after = excess - bytes_of(numbers), tonumber(numbers[#numbers])
  end
  return after
end

local function is_rebuilding(instance)
  return lost and string.match(redis.call('HGET', root, 'rebuilding') or '', '^%S+') == instance
end

local operations = {
  beat = beat,
  -- Returns the registered nodes; a process that is not a node may ask.
  roll = function()
    return tell_roll(lost and 'lost' or 'well', roll())
  end,
  -- Ends a node in order: no other node waits for it.
  leave = function()
    local instance, is_retired = take(), take() == '1'
    local one = roll()[asker]
    return {}, function()
      if one and one.instance == instance then
        one.beat = 0
        enroll(asker, one)
        alter('HSET', root .. ':w', asker, text(now) .. (is_retired and ' retired' or ''))
      end
    end
  end,
  -- Forgets a node whose journal will never return: nothing waits for it any more.
  dismiss = function()
    local node, journal = take(), take()
    local old, had = string.match(redis.call('HGET', root .. ':k', node) or '', '^(%S+) (%d+)$')
    if old ~= journal then
      return {}
    end
    return {}, function()
      alter('HSET', root .. ':g', node .. ' ' .. old, had .. ' lost')
      for _, hash in ipairs({ ':k', ':n', ':w', ':c' }) do
        alter('HDEL', root .. hash, node)
      end
    end
  end,
  -- Creates an empty store for an installation; returns the one that it belongs to.
  create = function()
    local id = take()
    if generation or id == '' then
      return { generation or '' }
    elseif meta[1] or meta[3] or lost then
      error('there is a store already')
    end
    return { id }, function()
      alter('HSET', root, 'format', '1', 'generation', id, 'run', met)
    end
  end,
  -- Writes a part of an export; the store must be empty before the first part.
  import = function()
    local is_first = take() == '1'
    -- An earlier query for the time does not count as a store.
    if (is_first and (meta[1] or lost)) or (not is_first and meta[1] ~= 'import') then
      error('there is a store already')
    end
    return {}, take_items({ { 'HSET', root, 'format', 'import' } })
  end,
  -- Completes the import: the commit that closes money makes it a usable store.
  imported = function()
    local fresh, time, last = take(), tonumber(take()), take()
    if meta[1] ~= 'import' then
      error('nothing was imported')
    end
    now, meta[3] = math.max(now, time), last
    local told, write = commit()
    return told,
      write and function()
        alter('HSET', root, 'generation', fresh, 'run', met)
        -- The gates of this store, which do not run, will go on with their journals: entries wait for them.
        local kept = redis.call('HGETALL', root .. ':k')
        for i = 1, #kept, 2 do
          alter('HSET', root .. ':n', kept[i], ' 0   {}')
          alter('HSET', root .. ':w', kept[i], text(now))
        end
        write()
      end
  end,
  -- A store that contradicts a journal, or lacks what one has, counts as lost until it is rebuilt.
  distrust = function()
    local contradicts = take() == '1'
    return {}, function()
      if contradicts then
        alter('HSET', root, 'distrusted', '1')
      end
      if not lost then
        alter('HSET', root, 'lost', text(now))
      end
    end
  end,
  -- A process begins to rebuild a lost store, unless another one is at it.
  rebuild = function()
    local instance, lapse = take(), tonumber(take())
    local by, heard = string.match(redis.call('HGET', root, 'rebuilding') or '', '^(%S+) (%S+)$')
    if not lost or (by and by ~= instance and now - tonumber(heard) < lapse) then
      return { 'no' }
    end
    local told = { 'go', redis.call('HGET', root, 'above') or '0', redis.call('HGET', root, 'distrusted') or '' }
    local others = redis.call('HGETALL', root .. ':m')
    for i = 1, #others, 2 do
      local number, state = string.match(others[i + 1], '^(%S+) (%S+)$')
      told[#told + 1], told[#told + 2], told[#told + 3] = others[i], number, state == 'retired' and '1' or ''
    end
    return told, function()
      alter('HSET', root, 'rebuilding', instance .. ' ' .. text(now))
    end
  end,
  -- Writes a part of what a journal holds.
  repair = function()
    local instance = take()
    if not is_rebuilding(instance) then
      return { 'no' }
    end
    return { 'go' }, take_items({ { 'HSET', root, 'rebuilding', instance .. ' ' .. text(now) } })
  end,
  -- Lends entries of one journal to the gate whose journal begins earlier, while the store is lost.
  lend = function()
    local since = take()
    if lost ~= since then
      return { 'no' }
    end
    local writes = {}
    while at < #ARGV do
      local number, written, node, entry = take(), take(), take(), take()
      writes[#writes + 1] = { number, written .. ' ' .. node .. ' ' .. entry }
    end
    return { 'go' }, function()
      for _, one in ipairs(writes) do
        alter('HSET', root .. ':t', one[1], one[2])
      end
    end
  end,
  -- Returns lent entries: the next ones behind a number.
  borrow = function()
    local since, number, most = take(), tonumber(take()), tonumber(take())
    local told = {}
    while lost == since and #told < 4 * most do
      number = number + 1
      local packed = redis.call('HGET', root .. ':t', text(number))
      if not packed then
        break
      end
      local written, node, entry = unpacked(packed)
      told[#told + 1], told[#told + 2], told[#told + 3], told[#told + 4] = text(number), written, node, entry
    end
    return told
  end,
  -- Removes keys of the content while a store is rebuilt.
  wipe = function()
    local instance = take()
    if not is_rebuilding(instance) then
      return { 'no' }
    end
    local names = {}
    while at < #ARGV do
      names[#names + 1] = take()
    end
    return { 'go' }, function()
      for _, name in ipairs(names) do
        alter('DEL', name)
        if name == root .. ':o' then
          alter('HSET', root, 'waiting', '0')
        end
      end
    end
  end,
  -- Shows a part of the snapshot of the store that is being rebuilt, in the place of the part before.
  show_part = function()
    local instance, nth, node, up_to, nodes, part = take(), take(), take(), take(), take(), take()
    if not is_rebuilding(instance) then
      return { 'no' }
    end
    return { 'go' }, function()
      local head = table.concat({ instance, nth, node, up_to, nodes }, ' ')
      alter('HSET', root, 'rebuilding', instance .. ' ' .. text(now))
      alter('HSET', root .. ':u', 'part', head .. '\n' .. part)
    end
  end,
  -- Returns how many parts each node has taken of the snapshot that is shown.
  taken_parts = function()
    local instance = take()
    if not is_rebuilding(instance) then
      return { 'no' }
    end
    local told, taken = { 'go' }, redis.call('HGETALL', root .. ':v')
    for i = 1, #taken, 2 do
      local by, count = string.match(taken[i + 1], '^(%S+) (%d+)$')
      if by == instance then
        told[#told + 1], told[#told + 2] = taken[i], count
      end
    end
    return told, function()
      alter('HSET', root, 'rebuilding', instance .. ' ' .. text(now))
    end
  end,
  -- Returns the part that is shown to this node, if it is the next one, and notes how many it has.
  take_part = function()
    local since, instance, count = take(), take(), tonumber(take())
    local packed = redis.call('HGET', root .. ':u', 'part')
    if lost ~= since or not packed then
      return {}
    end
    local ends = string.find(packed, '\n', 1, true)
    local by, nth, node, up_to, nodes = string.match(string.sub(packed, 1, ends - 1), '^(%S+) (%d+) (%S+) (%d+) (.*)$')
    if not string.find(' ' .. nodes .. ' ', ' ' .. asker .. ' ', 1, true) then
      return {}
    end
    local is_next = tonumber(nth) == (by == instance and count or 0) + 1
    return is_next and { by, nth, node, up_to, string.sub(packed, ends + 1) } or {},
      function()
        if by == instance then
          alter('HSET', root .. ':v', asker, instance .. ' ' .. text(count))
        end
      end
  end,
  -- Completes the rebuild, with a commit behind all numbers that any node knows.
  rebuilt = function()
    local instance, fresh, time, last, count = take(), take(), tonumber(take()), take(), tonumber(take())
    if not is_rebuilding(instance) then
      return { 'no' }
    end
    local numbers = {}
    for _ = 1, count do
      numbers[take()] = take()
    end
    now, meta[3], meta[7] = math.max(now, time), last, nil
    local told, write = commit()
    return told,
      write and function()
        alter('HDEL', root, 'lost', 'above', 'rebuilding', 'distrusted', 'next', 'since')
        alter('DEL', root .. ':m', root .. ':t', root .. ':u', root .. ':v')
        if run ~= met then
          alter('HSET', root, 'promoted', text(now))
        end
        alter('HSET', root, 'format', '1', 'generation', generation or fresh, 'run', met)
        for node, number in pairs(numbers) do
          alter('HSET', root .. ':l', node, number)
        end
        write()
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
    local from, to = span(now)
    return { tell(), text(used(window, from, to)) }
  end,
  -- Returns entries behind a number.
  outbox = function()
    local after, most = take(), take()
    local told = {}
    for _, number in ipairs(redis.call('ZRANGEBYSCORE', root .. ':q', '(' .. after, '+inf', 'LIMIT', 0, most)) do
      local packed = redis.call('HGET', root .. ':o', number)
      if packed then
        local written, node, entry = unpacked(packed)
        told[#told + 1], told[#told + 2], told[#told + 3], told[#told + 4] = number, written, node, entry
      end
    end
    return told
  end,
  -- A journal has every entry up to a number. Entries leave when every node has them that has not left in order, and as
  -- many running nodes as there must be copies; of other entries, the newest stay.
  kept = function()
    local node, journal, number, copies, lapse = take(), take(), tonumber(take()), tonumber(take()), tonumber(take())
    local all, up_to, reached = roll(), number, { number }
    for other, one in pairs(all) do
      if other ~= node then
        local has = tonumber(string.match(redis.call('HGET', root .. ':k', other) or '0', '%d+$'))
        if one.beat > 0 or now - left(other) < RETURNS_WITHIN then
          up_to = math.min(up_to, has)
        end
        if one.beat > 0 and now - one.beat < lapse then
          reached[#reached + 1] = has
        end
      end
    end
    table.sort(reached, function(one, other)
      return one > other
    end)
    up_to = math.min(up_to, reached[copies] or 0)
    local newest = redis.call('ZRANGE', root .. ':q', -MAX_WAITING, -MAX_WAITING)[1]
    up_to = math.min(number, math.max(up_to, tonumber(newest or 1) - 1, passed_over(number)))
    return {}, function()
      keep(node, journal, number)
      local waiting = tonumber(meta[10] or 0)
      while true do
        local numbers = redis.call('ZRANGEBYSCORE', root .. ':q', '-inf', text(up_to), 'LIMIT', 0, 1000)
        if #numbers == 0 then
          return
        end
        waiting = math.max(waiting - bytes_of(numbers), 0)
        alter('HSET', root, 'waiting', text(waiting))
        alter('HDEL', root .. ':o', unpack(numbers))
        alter('ZREM', root .. ':q', unpack(numbers))
        -- On the first pass nothing is removed.
        if alter == try then
          return
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
        if string.sub(one, 1, 1) == 's' then
          alter('ZREM', expiries, one)
          local first = string.find(name, ' ', 1, true)
          local second = string.find(name, ' ', first + 1, true)
          alter('HDEL', root .. ':s:' .. string.sub(name, second + 1), string.sub(name, 1, second - 1))
        else
          local key = root .. ':r:' .. name
          local gone_at = redis.call('HGET', key, 'g')
          if gone_at and gone_at ~= '' and now < tonumber(gone_at) then
            -- A full Redis refuses this one: then the record keeps its content and its expiry.
            alter('ZADD', expiries, gone_at, one)
            alter('HDEL', key, 'c')
          else
            alter('ZREM', expiries, one)
            if gone_at and gone_at ~= '' then
              alter('DEL', key)
            end
          end
        end
      end
    end
  end,
}

-- Errors of the Redis itself, which keep their code: missing permissions, and refused writes.
local OF_REDIS = { NOPERM = true, DENIED = true, OOM = true, READONLY = true, NOREPLICAS = true, MISCONF = true }

-- INVARIANT: every invalid argument, invalid stored value and missing permission is found before anything is written.
local is_well, answer, act = pcall(operations[op])
local fault = answer
if is_well and act then
  alter = try
  is_well, fault = pcall(act)
end
if not is_well then
  local why = type(fault) == 'table' and fault.err or tostring(fault)
  return redis.error_reply(OF_REDIS[string.match(why, '^%u+')] and why or 'SLUICE ' .. why)
end
if act then
  alter = redis.call
  act()
end
return answer
