-- Every commit and every query of the store, in one script: one call is one atomic step.
--
-- KEYS[1] is the root of an environment; every key begins with it, so that its hash tag keeps them in one slot:
--   root:a             string: the head, as seven doubles, of which zero is none: format; time, the latest reported
--                      time; last, the number of the latest commit; put, how many bytes were ever put into the
--                      outbox; skew, what is added to the clock of the Redis, which leapt; above, which the next number
--                      exceeds; lost, since when a loss is known. Then generation, which identifies this store, and
--                      run, the process and history that all running nodes have met, each behind its length; then
--                      the highest number that each node committed, as a line feed, the node, a space and the number
--   root               hash: format, for earlier versions, which look for it here alone; next and since, a new run that
--                      the nodes are meeting; rebuilding, which process rebuilds the store, and when it was heard;
--                      distrusted, if the store contradicted a journal; epoch, how often people had the clock followed
--                      again (a gate believes it, and the skew, where its journal has the same); promoted, when gates
--                      first met the run in use, if it is not the first one; taken, how many bytes left the outbox;
--                      left, the highest number that left it since the store was created or rebuilt; behind, the last
--                      number before the rebuild, if it was rebuilt
--   root:r:RECORD      string: version, at, whole until and gone at, each as a double, of which less than nothing is
--                      forever; then 'w' and the content, or 's' if it is spent
--   root:i:INDEX       members by their due time
--   root:s:WINDOW      string: its slots, each as four doubles: begin, end, units, until; behind more than two of them
--                      stands a sum, as five doubles: from, to, until, units, place; see `sum_of`
--   root:h:HOLDER      string: what it holds, each as the length of the name of the window, in four bytes, begin, end
--                      and units as doubles, and the name
--   root:q             the outbox: entries that not every journal has yet, by number: 'before at node entry'; before is
--                      how many bytes were put before it; see `wire_entry` for the form of an entry
--   root:k             hash: NODE -> 'JOURNAL number', the number up to which the node's journal has every entry
--   root:d:NODE        hash: number -> 'at node', of entries that left the outbox before the node said that its journal
--                      has them; 'last' is the highest of these numbers
--   root:f             hash: former generations, of stores in whose place this one was rebuilt or imported
--   root:c             hash: NODE -> the highest number of its own commits, as the node itself knows it
--   root:g             hash: 'NODE JOURNAL' -> 'number state', where a journal ended that another one of its node
--                      replaced; state is `retired` or `lost`
--   root:x             expiries by time: 'r' RECORD, 's' begin end WINDOW
--   root:l             the windows that have slots, by name
--   root:n             hash: NODE -> 'instance beat run told', the registered nodes
--   root:w             hash: NODE -> 'time', when it ended in order; 'time retired', if other journals have all that
--                      its own has
--   root:m             hash: NODE -> 'number state', while the store is lost: the highest number of its commits that
--                      another node was told of; state is `retired` if every such node was told that it retired
--   root:t             hash: number -> 'number at node entry', while the store is lost: entries that one journal lends
--                      to another, each by the number of the one before it; 'none' where it cannot
--   root:u             hash: part -> 'lost instance nth node number NODE...' and, behind a line feed, bytes: the part
--                      that is shown of the snapshot up to that number, to these nodes; while the store is rebuilt,
--                      or, with '-' for the time of the loss, to gates whose journals begin in the middle
--   root:v             hash: NODE -> 'instance nth', the parts that it has taken
-- No key has a Redis expiry: Redis measures it by another clock than commits use, and may evict such keys.
--
-- Times are in microseconds. Times, numbers and units are below 2^53, so a double holds them exactly. The arguments of
-- commits carry them as numbers, other arguments and replies as text.

-- Most calls are commits. For them nothing is made that they do not use, and big texts are made once. A function costs
-- what it is, and each local outside of it that it uses costs as much again in each call: so functions of commits take
-- what they need as arguments, and those of other operations stand behind the commit.

local op, root = ARGV[1], KEYS[1]
-- The layout of these keys, and of the records in them: it changes with the form of any record. No other is read.
local FORMAT = 8
-- In the place of the layout while an import goes on.
local IMPORT = -1
-- The bytes before the texts of the head, and those of a head that has none.
local NUMBERS, NO_TEXTS = 56, 60
local MAX_EXACT = 9007199254740991
-- Until when that is kept which has no end.
local FOREVER = -1
-- How many entries wait for nodes that do not run, and how many bytes.
local MAX_WAITING = 16384
local MAX_WAITING_BYTES = 64 * 1024 * 1024
-- How many entries behind the end of a journal are known after they left the outbox: it may have more than its node
-- said.
local MAX_MARKED = 16384
-- How long nobody else shows a snapshot of a whole store, in microseconds.
local SHOWS_WITHIN = 5 * 1000000
-- How long the entries wait for a node that left in order, in microseconds.
local RETURNS_WITHIN = 3600 * 1000000
-- How far the stored time may be ahead of what a gate expects, in microseconds: somebody else wrote what is further.
-- The gates have the same bound.
local AHEAD = 60 * 1000000

-- Checks whether the user may call a command.
local function try(...)
  if not redis.acl_check_cmd(...) then
    error({ err = 'DENIED the user may not call ' .. (...) })
  end
end

-- Returns what is answered in place of an operation that failed. Errors of the Redis itself keep their code: missing
-- permissions, and refused writes.
local function refusal(fault)
  local why = type(fault) == 'table' and fault.err or tostring(fault)
  local code = string.match(why, '^%u+')
  if code == 'SPOILT' then
    -- Each rebuild writes all content anew: whoever has it mended says which one came before what it found.
    local rebuilt = redis.pcall('HGET', KEYS[1], 'behind')
    rebuilt = type(rebuilt) == 'string' and string.match(rebuilt, '^%d+$') or '0'
    return redis.error_reply('DAMAGED ' .. rebuilt .. string.sub(why, 7))
  end
  local is_of_redis = code == 'NOPERM'
    or code == 'DENIED'
    or code == 'DAMAGED'
    or code == 'OOM'
    or code == 'READONLY'
    or code == 'NOREPLICAS'
    or code == 'MISCONF'
  return redis.error_reply(is_of_redis and why or 'SLUICE ' .. why)
end

-- What all operations share; infinite times are none. The time that the caller was told last, and the highest number of
-- its own commits; the time that it expects, and how far the clock may differ from that; the calling node, the
-- generation that it knows, empty if it knows none, and the run of this Redis. Few calls have more: the clock in tests,
-- and what the caller adds to the clock until it has compared the clock of its machine. Before all that stands a mark.
-- A digest of the answer and of the mark ends the answer: on a connection that lost an answer the caller would take the
-- next one for it, and what was changed on the way would be believed.
local NONE = math.huge
local call_mark, told_before, highest, expected, tolerance, asker, known, met, more =
  struct.unpack('<c8ddddHc0Hc0Hc0', ARGV[2])
local clock, shift = NONE, NONE
if more <= #ARGV[2] then
  clock, shift = struct.unpack('<dd', ARGV[2], more)
end
-- The index of the last argument that was taken: that of the last one that all operations share.
local at = 2
-- Reads what the store has under the keys of a commit, and the head. The plan begins with the time by which the commit
-- must be here, the node, which is empty for the caller, how many keys and other texts the steps name, and these names.
-- The first key is that of the head. Returns the values, the keys, their names
-- without the root and behind them the other texts, where the steps begin in the plan, that time, and the node.
local function planned(its_root, plan)
  local limit, node, count, of_texts, following = struct.unpack('<dBc0HH', plan)
  local all = '<' .. string.rep('I3c0', count + of_texts)
  local names = { its_root .. ':a', struct.unpack(all, plan, following) }
  count = count + 1
  local keys = { unpack(names, 1, count) }
  for place = 2, count do
    keys[place] = its_root .. names[place]
  end
  return redis.call('MGET', unpack(keys)), keys, names, names[count + of_texts + 1], limit, node
end

local is_read, found_here, its_keys, its_names, steps_begin, its_limit, committer
if op == 'commit' then
  is_read, found_here, its_keys, its_names, steps_begin, its_limit, committer = pcall(planned, root, ARGV[3])
  if not is_read then
    return refusal(found_here)
  end
else
  found_here = redis.call('MGET', root .. ':a')
end

local NO_HEAD = string.rep('\0', NO_TEXTS)
local packed_head = found_here[1] or NO_HEAD
if #packed_head < NO_TEXTS then
  packed_head = packed_head .. string.sub(NO_HEAD, #packed_head + 1)
end
local layout = struct.unpack('<d', packed_head)
-- Earlier layouts had it in the hash. This one has it there as well, so that they do not take the store for a lost one;
-- that says nothing of a head that is gone.
local layout_before = layout == 0 and redis.pcall('HGET', root, 'format')
if type(layout_before) == 'string' and tonumber(layout_before) ~= FORMAT then
  layout = tonumber(layout_before) or 1
end
if layout == IMPORT and op ~= 'import' and op ~= 'imported' then
  return redis.error_reply('SLUICE an import into this store did not end: empty it and import again')
elseif layout ~= FORMAT and layout > 0 and layout <= MAX_EXACT and layout % 1 == 0 then
  local whose = layout < FORMAT and '; an earlier' or '; a later'
  whose = string.format('%d', layout) .. whose .. ' version of Sluice wrote it: use that version. If none ran here'
  local remedy = ', somebody changed the store: remove `' .. root .. ':a`, and the gates rebuild it from their journals'
  return redis.error_reply('SLUICE the store is of format ' .. whose .. remedy)
end
local is_head, _, mark, last_number, bytes_put, skew, above, lost_since, generation, run, lines =
  pcall(struct.unpack, '<dddddddHc0Hc0', packed_head)
local damage
if not is_head then
  damage = 'its head is cut'
elseif layout ~= FORMAT and layout ~= 0 and layout ~= IMPORT then
  damage = 'the format in its head is no number that gates write'
elseif
  -- One that is no number, or has no end, has no rest either.
  (mark % 1 + last_number % 1 + bytes_put % 1 + skew % 1 + above % 1 + lost_since % 1 ~= 0)
  or math.min(mark, last_number, bytes_put, above, lost_since) < 0
  or math.max(mark, last_number, bytes_put, math.abs(skew), above, lost_since) > MAX_EXACT
then
  damage = 'its head has numbers that no gate writes'
end
if damage and op ~= 'distrust' then
  return redis.error_reply('DAMAGED - ' .. damage)
end
local told_generation = generation
if damage then
  -- Nothing of it is believed; it is written anew.
  packed_head, layout, mark, last_number, bytes_put, skew, above, lost_since = NO_HEAD, 0, 0, 0, 0, 0, 0, 0
  generation, run, lines = '', '', NO_TEXTS + 1
end
if generation == '' then
  generation = nil
end
local lost = lost_since ~= 0 and string.format('%d', lost_since) or nil

-- Whoever expects no time cannot tell whether the clock leapt.
local is_sure = expected ~= NONE or clock ~= NONE
if clock == NONE then
  local time = redis.call('TIME')
  clock = time[1] * 1000000 + time[2]
end
-- Until a starting gate has compared the clock of its machine, it goes on from the last known time: it shifts the
-- clock.
local is_starting = shift ~= NONE
local unshifted = clock + skew
clock = unshifted + (is_starting and shift or 0)
-- A clock that leaps ahead is not followed, nor is a stored time that no gate can have told. Of a clock that is behind
-- nobody knows yet whether it was set back, or the caller's own leapt ahead: the time stands still until the gates have
-- found out, and have corrected the clock that was set back.
local followed, believed = clock, mark
if expected ~= NONE then
  followed = math.min(clock, expected + tolerance)
  -- A gate that has just started goes by the time that others tell, who go by the clock.
  local latest = math.max(expected, is_starting and unshifted or 0) + tolerance + AHEAD
  believed = mark <= latest and mark or 0
end
local now = math.max(followed, believed, told_before)

-- A node that found a loss waits, knowing no generation, until the store is whole again.
local is_known, waits = known ~= '' and known ~= '-', known == '-'

-- What the store knows of the commits of the calling node, and whether the store lacks what that node knows.
local function committed_by(head, node)
  local _, before = string.find(head, '\n' .. node .. ' ', 57, true)
  return before and tonumber(string.match(head, '^%d+', before + 1)) or 0
end

local committed = committed_by(packed_head, asker)
local is_behind = (is_known and not generation) or highest > committed

-- Marks a loss at once, for all nodes: until money is closed nothing else is done. Returns since when it is known.
local function mark_lost(its_root, lost_before, time, number, above_before)
  local since = lost_before
  if not since then
    since = string.format('%d', time)
    redis.pcall('SETRANGE', its_root .. ':a', 48, struct.pack('<d', time))
  end
  if number > above_before then
    redis.pcall('SETRANGE', its_root .. ':a', 40, struct.pack('<d', number))
  end
  return since
end

-- Operations of the membership, which a store answers in any state.
local is_of_roll = op ~= 'commit'
  and ({
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
    times = true,
  })[op]
if known ~= '' and not is_of_roll then
  -- The heartbeat finds out whether this is another store.
  if waits and not lost then
    return redis.error_reply('OTHER the gate waits until it has met this Redis')
  elseif waits or (is_known and generation and known ~= generation) then
    return redis.error_reply('OTHER the store has forgotten what a node knows of it')
  elseif is_behind or lost then
    if is_behind then
      mark_lost(root, lost, now, highest, above)
    end
    return redis.error_reply('OTHER the store has forgotten what a node knows of it')
  elseif run ~= met then
    return redis.error_reply('OTHER not every node has met this Redis since it was started or promoted')
  end
end

-- Reads the head of a record: its version, or nothing if it is gone; whether its content is here yet; until when it is
-- kept, and when it was written. Its content begins at `CONTENT`.
local CONTENT = 34
local function head_of(packed, now_here)
  local version, written, whole, gone, state
  if #packed >= 33 then
    version, written, whole, gone, state = struct.unpack('<ddddc1', packed)
  end
  if state ~= 'w' and state ~= 's' then
    error({ err = 'SPOILT it has a record that no gate writes' })
  elseif gone >= 0 and now_here >= gone then
    return nil, false, gone, written
  end
  return version, state == 'w' and (whole < 0 or now_here < whole), gone, written
end

-- Returns how many bytes the slots of a window have: a sum may stand behind them.
local function slots_in(window)
  local length = #window
  if length % 32 == 0 then
    return length
  elseif length % 32 ~= 8 or length < 40 then
    error({ err = 'SPOILT it has a window that no gate writes' })
  end
  return length - 40
end

-- A slot in a window is four doubles, which hold all numbers here exactly and are read without making texts of them.
-- Returns what a window counts between two times; then where the slot of other times begins in it, the units of that
-- slot and until when it matters, if there is one; then until when that sum is right, if nothing is counted meanwhile.
-- A kept sum is right for its span as long as each slot in it matters. It has the place of the slot that was counted
-- last.
local function sum_of(window, from, to, now_here, slot_begins, slot_ends)
  local read, sum, length, first = struct.unpack, 0, slots_in(window), 1
  local place, slot_units, slot_matters
  local is_right_until = math.huge
  if length < #window then
    local known_from, known_to, known_until, known_sum, known_place = read('<ddddd', window, length + 1)
    -- One that no gate writes is none: the slots are read. So is one whose place is that of no slot.
    local is_sum = known_sum >= 0 and known_sum < math.huge and known_place >= 1 and known_place % 32 == 1
    if is_sum and known_place < length and known_from == from and known_to == to and now_here < known_until then
      local begins, ends, units, matters = read('<dddd', window, known_place)
      if begins == slot_begins and ends == slot_ends then
        return known_sum, known_place, units, matters, known_until
      end
    end
  end
  while first <= length do
    local last, numbers = 4
    if first + 255 <= length then
      -- Eight slots that are read at once take half the time.
      last, numbers = 32, { read('<dddddddddddddddddddddddddddddddd', window, first) }
    else
      numbers = { read('<dddd', window, first) }
    end
    for i = 1, last, 4 do
      local begins, matters = numbers[i], numbers[i + 3]
      if begins < to and numbers[i + 1] > from then
        -- A slot may be swept late. Where the time is set right, it may matter again: such a sum is not kept.
        if matters > now_here then
          sum = sum + numbers[i + 2]
        end
        is_right_until = math.min(is_right_until, matters > now_here and matters or 0)
      end
      if begins == slot_begins and numbers[i + 1] == slot_ends then
        place, slot_units, slot_matters = first + (i - 1) * 8, numbers[i + 2], matters
      end
    end
    first = first + last * 8
  end
  -- It counts against no limit where it is no number.
  if not (sum >= 0 and sum < math.huge) then
    error({ err = 'SPOILT it has a window that no gate writes' })
  end
  return sum, place, slot_units, slot_matters, is_right_until
end

-- Returns a window with a slot in the place of the one that begins at `first`, or without the slot if it has no units;
-- and with a sum, if there is one.
local function with_slot(window, first, begins, ends, units, matters, sum)
  local slot = units and struct.pack('<dddd', begins, ends, units, matters) or ''
  local length = slots_in(window)
  if not first then
    return string.sub(window, 1, length) .. slot .. (sum or '')
  end
  return string.sub(window, 1, first - 1) .. slot .. string.sub(window, first + 32, length) .. (sum or '')
end

local function expiry_of_slot(name, begins, ends)
  return string.format('s%d %d ', begins, ends) .. name
end

-- Returns where in a holder its part of a window begins and ends, and the slot and the units of it.
local function held_in(holder, name)
  local first = 1
  while first <= #holder do
    local length, begins, ends, units, starts = 0, 0, 0, 0, first
    if first + 27 <= #holder then
      length, begins, ends, units, starts = struct.unpack('<I4ddd', holder, first)
    end
    local last = starts + length - 1
    -- What has no name, or a part of one.
    if length == 0 or last > #holder then
      error({ err = 'SPOILT it has a holder that no gate writes' })
    end
    if string.sub(holder, starts, last) == name then
      return first, last, begins, ends, units
    end
    first = last + 1
  end
end

local function held_part(name, begins, ends, units)
  return struct.pack('<I4ddd', #name, begins, ends, units) .. name
end

-- Returns the reach of a window, then the slot of a time and until when it counts: no slot outside a fixed span.
local function span(time, kind, first, second)
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

-- Adds to the arguments of a command.
local function with(command, one, other)
  local nth = #command + 1
  command[nth], command[nth + 1] = one, other
  return command
end

-- Returns an obstacle behind those before it. The first two words of all of them are for the caller.
local function stood(obstacles, step, what, version, at_then, state, content)
  obstacles = obstacles or { 'stood', '' }
  local nth = #obstacles
  obstacles[nth + 1], obstacles[nth + 2], obstacles[nth + 3] = string.format('%d', step), what, version or ''
  obstacles[nth + 4], obstacles[nth + 5], obstacles[nth + 6] = at_then or '', state or '', content or ''
  return obstacles
end

-- Returns an obstacle: what is there in place of what was wanted.
local function found(obstacles, step, packed, version, is_whole, written)
  if not version then
    return stood(obstacles, step, 'nothing')
  end
  local shown, at_then = string.format('%d', version), string.format('%d', written)
  if not is_whole then
    return stood(obstacles, step, 'record', shown, at_then, 'spent')
  end
  return stood(obstacles, step, 'record', shown, at_then, 'whole', string.sub(packed, CONTENT))
end

-- Makes a commit, whose arguments begin behind `behind`: its plan, its entry, and the values of its steps. Each key of
-- the steps is named once, and all were read at once (see `planned`): steps tell its place. So it is with other texts;
-- one with which a key ends is told as the place of that key, and where in it the text begins, which is 0 for other
-- texts. `script_args` writes the plan. Returns the answer, and the commands that write it, where there are any.
local function commit(
  its_root,
  behind,
  its_head,
  put,
  number,
  now_here,
  its_clock,
  caller,
  is_expected,
  values,
  keys,
  names,
  following,
  limit,
  node
)
  local call, read, sub, format, pack = redis.call, struct.unpack, string.sub, string.format, struct.pack
  local plan, entry, next_value, count = ARGV[behind + 1], ARGV[behind + 2], behind + 2, #keys
  local written = format('%d', now_here)
  -- A clock that leapt makes every commit late, but for the one that says so.
  if its_clock > limit or now_here > limit then
    return { 'late', written }
  end
  if node == '' then
    node = caller
  end

  local obstacles
  -- What is written: of each record, in the order of their steps, its place, until when it is whole, when it is gone,
  -- and its value; the places of other keys that change; and commands. A table that has its size does not grow.
  local created, last_created = { nil, nil, nil, nil }, 0
  local changed, last_changed = { nil, nil, nil, nil }, 0
  local turns, settled, gone, opened, emptied, due, earliest, removed, skew_then, epoch_then

  local step, length = -1, #plan
  while following <= length do
    step = step + 1
    local what, starts = sub(plan, following, following), following + 1
    -- The place of a window of which a slot gets units, or loses some; that slot, and where it stands if it does.
    local adds, takes, begins, ends, units, matters, slot, units_before, matters_before, from, to, sum, sum_until
    if what == 'a' then
      -- One step for each of these places: nothing is there.
      local first, last
      first, last, following = read('<HH', plan, starts)
      for place = first, last do
        if values[place] then
          local here, is_whole, _, at_then = head_of(values[place], now_here)
          if here then
            obstacles = found(obstacles, step + place - first, values[place], here, is_whole, at_then)
          end
        end
      end
      step = step + last - first
    elseif what == 'v' then
      local place, version
      place, version, following = read('<Hi8', plan, starts)
      local here, is_whole, at_then, _
      if values[place] then
        here, is_whole, _, at_then = head_of(values[place], now_here)
      end
      if here ~= version or not is_whole then
        obstacles = found(obstacles, step, values[place], here, is_whole, at_then)
      end
    elseif what == 'c' or what == 'r' then
      -- A new record, or another version of one. Forever is less than nothing.
      local place, version, whole, spent
      if what == 'r' then
        place, version, whole, spent, following = read('<Hi8i8i8', plan, starts)
      else
        place, whole, spent, following = read('<Hi8i8', plan, starts)
      end
      next_value = next_value + 1
      local here, is_whole, gone_then, at_then
      if values[place] then
        here, is_whole, gone_then, at_then = head_of(values[place], now_here)
      end
      if here == version and (is_whole or not version) then
        local turn, gone_at = FOREVER, FOREVER
        if whole >= 0 then
          turn = math.min(now_here + whole, MAX_EXACT)
          gone_at = math.min(turn + spent, MAX_EXACT)
          turns = with(turns or { 'ZADD', its_root .. ':x' }, format('%d', turn), 'r' .. sub(names[place], 4))
        elseif gone_then and gone_then >= 0 then
          settled = with(settled or { 'ZREM', its_root .. ':x' }, 'r' .. sub(names[place], 4))
        end
        created[last_created + 1], created[last_created + 2], created[last_created + 3] = place, turn, gone_at
        last_created = last_created + 4
        created[last_created] = ARGV[next_value]
      else
        obstacles = found(obstacles, step, values[place], here, is_whole, at_then)
      end
    elseif what == 'd' then
      local place, version
      place, version, following = read('<Hi8', plan, starts)
      local here, is_whole, gone_then, at_then
      if values[place] then
        here, is_whole, gone_then, at_then = head_of(values[place], now_here)
      end
      if here == version and is_whole then
        gone = with(gone or { 'DEL' }, keys[place])
        if gone_then >= 0 then
          settled = with(settled or { 'ZREM', its_root .. ':x' }, 'r' .. sub(names[place], 4))
        end
      else
        obstacles = found(obstacles, step, values[place], here, is_whole, at_then)
      end
    elseif what == '+' then
      local index, nth, cut, time
      index, nth, cut, time, following = read('<Bc0HBi8', plan, starts)
      due = due or {}
      local command, name = due[index], cut > 0 and sub(names[nth], cut) or names[count + nth]
      local by = time == 0 and written or format('%d', math.min(now_here + time, MAX_EXACT))
      due[index] = command and with(command, by, name) or { 'ZADD', its_root .. ':i:' .. index, by, name }
    elseif what == 'e' then
      local index, nth, cut, time
      index, nth, cut, time, following = read('<Bc0HBi8', plan, starts)
      earliest = earliest or {}
      local command, name = earliest[index], cut > 0 and sub(names[nth], cut) or names[count + nth]
      local by = time == 0 and written or format('%d', math.max(now_here - time, 0))
      earliest[index] = command and with(command, by, name) or { 'ZADD', its_root .. ':i:' .. index, 'LT', by, name }
    elseif what == '-' then
      local index, nth, cut
      index, nth, cut, following = read('<Bc0HB', plan, starts)
      removed = removed or {}
      local command, name = removed[index], cut > 0 and sub(names[nth], cut) or names[count + nth]
      removed[index] = command and with(command, name) or { 'ZREM', its_root .. ':i:' .. index, name }
    elseif what == '<' or what == '>' then
      -- Before a time; not before a time.
      local time
      time, following = read('<i8', plan, starts)
      if (now_here < time) ~= (what == '<') then
        obstacles = stood(obstacles, step, 'time')
      end
    elseif what == 'u' then
      local place, of_holder, most, kind, one, other
      place, of_holder, units, most, kind, one, other, following = read('<HHi8i8c1i8i8', plan, starts)
      from, to, begins, ends, matters = span(now_here, kind, one, other)
      local name, holder = sub(names[place], 4), values[of_holder] or ''
      sum, slot, units_before, matters_before, sum_until = sum_of(values[place] or '', from, to, now_here, begins, ends)
      if not begins then
        obstacles = stood(obstacles, step, 'time')
      elseif holder ~= '' and held_in(holder, name) then
        obstacles = stood(obstacles, step, 'reserved')
      elseif sum + units > most then
        obstacles = stood(obstacles, step, 'used', format('%d', sum))
      else
        adds = place
        last_changed = last_changed + 1
        changed[last_changed], values[of_holder] = of_holder, holder .. held_part(name, begins, ends, units)
      end
    elseif what == 'b' or what == 't' then
      -- Counts units for good in the slot of an earlier time, or takes them away from it.
      local place, time, kind, one, other
      place, units, time, kind, one, other, following = read('<Hi8i8c1i8i8', plan, starts)
      from, to, begins, ends, matters = span(time, kind, one, other)
      if begins and matters > now_here and what == 'b' then
        adds = place
        sum, slot, units_before, matters_before, sum_until =
          sum_of(values[place] or '', from, to, now_here, begins, ends)
      elseif begins and matters > now_here then
        takes = place
      end
    elseif what == 's' then
      -- What a holder has of a window counts for good.
      local nth, of_holder
      nth, of_holder, following = read('<HH', plan, starts)
      local holder = values[of_holder] or ''
      local first, last = held_in(holder, names[count + nth])
      if first then
        last_changed = last_changed + 1
        changed[last_changed], values[of_holder] = of_holder, sub(holder, 1, first - 1) .. sub(holder, last + 1)
      end
    elseif what == 'g' then
      local place, of_holder, first, last
      place, of_holder, following = read('<HH', plan, starts)
      local holder = values[of_holder] or ''
      first, last, begins, ends, units = held_in(holder, sub(names[place], 4))
      if first then
        last_changed = last_changed + 1
        changed[last_changed], values[of_holder] = of_holder, sub(holder, 1, first - 1) .. sub(holder, last + 1)
        takes = place
      end
    elseif what == 'm' or what == 'n' then
      -- A member of an index, or none.
      local index, nth, cut
      index, nth, cut, following = read('<Bc0HB', plan, starts)
      local member_here = cut > 0 and sub(names[nth], cut) or names[count + nth]
      local score = call('ZSCORE', its_root .. ':i:' .. index, member_here)
      if (score and 'm' or 'n') ~= what then
        obstacles = stood(obstacles, step, 'membership')
      end
    elseif what == 'M' or what == 'N' then
      -- A member of an index that was due by a time, or none.
      local index, nth, cut, time
      index, nth, cut, time, following = read('<Bc0HBi8', plan, starts)
      local member_here = cut > 0 and sub(names[nth], cut) or names[count + nth]
      local score = call('ZSCORE', its_root .. ':i:' .. index, member_here)
      if (score and tonumber(score) <= time and 'M' or 'N') ~= what then
        obstacles = stood(obstacles, step, 'membership')
      end
    elseif what == '^' then
      -- The number that this commit takes in the end is above another one.
      local other
      other, following = read('<i8', plan, starts)
      number = math.max(number, other + 1)
    elseif what == 'k' then
      -- The clock may have leapt: the time that the caller expects goes on.
      following = starts
      if not is_expected then
        error('a process that expects no time cannot correct it')
      end
    elseif what == 'C' then
      skew_then, following = read('<i8', plan, starts)
    elseif what == 'f' then
      following = starts
      epoch_then = (epoch_then or tonumber(call('HGET', its_root, 'epoch') or 0)) + 1
    else
      error('a step that this script does not know')
    end
    if adds then
      local window, name = values[adds] or '', sub(names[adds], 4)
      if not slot or matters > matters_before then
        turns = with(turns or { 'ZADD', its_root .. ':x' }, format('%d', matters), expiry_of_slot(name, begins, ends))
      end
      if window == '' then
        opened = with(opened or { 'ZADD', its_root .. ':l' }, 0, name)
      end
      -- A slot that did not matter any more is not in the sum.
      local counted = matters_before and matters_before > now_here and units_before or 0
      units, matters = math.min((units_before or 0) + units, MAX_EXACT), math.max(matters, matters_before or 0)
      local last, kept_sum = slots_in(window), nil
      if last > 64 then
        kept_sum = pack('<ddddd', from, to, math.min(sum_until, matters), sum - counted + units, slot or length + 1)
      end
      last_changed = last_changed + 1
      changed[last_changed], values[adds] = adds, with_slot(window, slot, begins, ends, units, matters, kept_sum)
    elseif takes then
      -- From the slot, if it is still there.
      local window, name = values[takes] or '', sub(names[takes], 4)
      local _, first, before, until_then = sum_of(window, 0, 0, now_here, begins, ends)
      if first then
        local left = before > units and before - units or nil
        last_changed = last_changed + 1
        changed[last_changed], values[takes] = takes, with_slot(window, first, begins, ends, left, until_then)
        if not left then
          settled = with(settled or { 'ZREM', its_root .. ':x' }, expiry_of_slot(name, begins, ends))
        end
        if values[takes] == '' then
          emptied = with(emptied or { 'ZREM', its_root .. ':l' }, name)
        end
      end
    end
  end
  if number > MAX_EXACT then
    error('numbers have come to an end')
  end
  if obstacles then
    return obstacles
  end

  local shown, queue = format('%d', number), its_root .. ':q'
  -- The values of the entry are those of the steps, where it says so.
  local its_values = ''
  if sub(entry, 1, 1) == 'v' then
    its_values = created[4] or ''
    if last_created > 4 then
      local all = {}
      for i = 4, last_created, 4 do
        all[#all + 1] = created[i]
      end
      its_values = table.concat(all)
    end
  end
  local put_then = put + #written + #node + #entry + #its_values + 2
  local head_then = skew_then and pack('<ddddd', FORMAT, now_here, number, put_then, skew_then)
    or pack('<dddd', FORMAT, now_here, number, put_then)
  local rest = #head_then + 1
  -- Only the node's own commits count, so those of others cannot hide a loss.
  local its_line = '\n' .. node .. ' '
  local _, before = string.find(its_head, its_line, 57, true)
  local number_before = before and string.match(its_head, '^%d*', before + 1)
  if not before then
    head_then = head_then .. sub(its_head, rest) .. its_line .. shown
  elseif number > (tonumber(number_before) or 0) then
    head_then = head_then .. sub(its_head, rest, before) .. shown .. sub(its_head, before + 1 + #number_before)
  else
    head_then = head_then .. sub(its_head, rest)
  end
  local sets = { 'MSET', keys[1], head_then, nil, nil, nil, nil, nil, nil }
  local last_set = 3
  for i = 1, last_created, 4 do
    local key = keys[created[i]]
    local record_head = pack('<ddddc1', number, now_here, created[i + 1], created[i + 2], 'w')
    sets[last_set + 1], sets[last_set + 2] = key, record_head .. created[i + 3]
    last_set = last_set + 2
  end
  for i = 1, last_changed do
    local key, value = keys[changed[i]], values[changed[i]]
    -- What changed twice is written once.
    values[changed[i]] = nil
    if value == '' then
      gone = with(gone or { 'DEL' }, key)
    elseif value then
      sets[last_set + 1], sets[last_set + 2] = key, value
      last_set = last_set + 2
    end
  end
  local queued = format('%d', put) .. ' ' .. written .. ' ' .. node .. ' ' .. entry .. its_values
  local writes, last = { sets, { 'ZADD', queue, shown, queued }, nil, nil, nil, nil, nil, nil }, 2
  if epoch_then then
    last = 3
    writes[3] = { 'HSET', its_root, 'epoch', format('%d', epoch_then) }
  end
  if gone then
    last = last + 1
    writes[last] = gone
  end
  if settled then
    last = last + 1
    writes[last] = settled
  end
  if turns then
    last = last + 1
    writes[last] = turns
  end
  if opened then
    last = last + 1
    writes[last] = opened
  end
  if emptied then
    last = last + 1
    writes[last] = emptied
  end
  for i = 1, 3 do
    local by_index = i == 1 and due or i == 2 and earliest or i == 3 and removed
    if by_index then
      for _, command in pairs(by_index) do
        last = last + 1
        writes[last] = command
      end
    end
  end
  for i = 1, last do
    try(unpack(writes[i]))
  end
  return { 'done', shown, written }, writes
end

-- Stores and returns the time. Reported times never run back. A Redis that refuses writes still reports it.
local function reported(its_root, time, stored, is_sure_of_it)
  local shown = string.format('%d', time)
  if time > stored and is_sure_of_it then
    redis.pcall('SETRANGE', its_root .. ':a', 8, struct.pack('<d', time))
  end
  return shown
end

if op == 'commit' then
  local is_well, answer, writes = pcall(
    commit,
    root,
    at,
    packed_head,
    bytes_put,
    -- Of a store that is not lost, the second is what somebody else wrote.
    (lost and math.max(last_number, above) or last_number) + 1,
    now,
    clock,
    asker,
    expected ~= NONE,
    found_here,
    its_keys,
    its_names,
    steps_begin,
    its_limit,
    committer
  )
  if not is_well then
    return refusal(answer)
  end
  if writes then
    for i = 1, #writes do
      redis.call(unpack(writes[i]))
    end
  elseif answer[1] == 'stood' then
    answer[2] = reported(root, now, mark, is_sure)
  end
  answer[#answer + 1] = redis.sha1hex(table.concat(answer) .. call_mark)
  return answer
end

local function text(number)
  return string.format('%d', number)
end

-- Every write of the other operations calls this. On the first pass it is `try`, which only checks whether the user may
-- call the command.
local alter

-- Returns the answer of an operation, and does what it writes.
-- INVARIANT: every invalid argument, invalid stored value and missing permission is found before anything is written.
local function finish(is_well, answer, act)
  local fault = answer
  if is_well and act then
    alter = try
    is_well, fault = pcall(act)
  end
  if not is_well then
    return refusal(fault)
  end
  if act then
    alter = redis.call
    act()
  end
  answer[#answer + 1] = redis.sha1hex(table.concat(answer) .. call_mark)
  return answer
end

-- Makes a commit within another operation, behind this number; returns its answer, and what writes it.
local function also_commit(before)
  local is_sure_time = expected ~= NONE
  local answer, writes =
    commit(root, at, packed_head, bytes_put, before + 1, now, clock, asker, is_sure_time, planned(root, ARGV[at + 1]))
  if answer[1] == 'stood' then
    answer[2] = reported(root, now, mark, is_sure)
  end
  return answer,
    writes and function()
      for _, command in ipairs(writes) do
        alter(unpack(command))
      end
    end
end

local function tell()
  return reported(root, now, mark, is_sure)
end

local function number_of(node)
  return committed_by(packed_head, node)
end

-- Marks a loss, if the store lacks what a node knows; returns since when one is known.
local function forgot(seen)
  is_behind = is_behind or seen > last_number
  if is_behind then
    local known_number = math.max(highest, seen)
    lost = mark_lost(root, lost, now, known_number, above)
    above = math.max(above, known_number)
  end
  return lost
end

local function take()
  at = at + 1
  return ARGV[at]
end

-- Writes a mark where the caller waits until what it reads is durable: the wait counts from the last write of its
-- connection. A store that is not the one that the gate knows was refused before.
local function mark_read()
  local seconds = take()
  if seconds then
    redis.call('SET', root .. ':y', '1', 'EX', seconds)
  end
end

-- Splits 'number at node entry'.
local function unpacked(packed)
  local number, written, node, starts = string.match(packed, '^(%d+) (%d+) (%S+) ()')
  if not starts then
    error({ err = 'SPOILT it has an entry that no gate writes' })
  end
  return number, written, node, string.sub(packed, starts)
end

-- Gates ask these often: nothing is made for them that only the operations behind them use.
local operation
if op == 'time' then
  operation = function()
    return { tell() }
  end
elseif op == 'read' then
  operation = function()
    local packed = redis.call('MGET', root .. ':r:' .. take())[1]
    local version, is_whole, written, _
    if packed then
      version, is_whole, _, written = head_of(packed, now)
    end
    if not version then
      return { tell() }
    end
    local state, content = is_whole and 'whole' or 'spent', is_whole and string.sub(packed, CONTENT) or ''
    return { tell(), text(version), text(written), state, content }
  end
elseif op == 'last' then
  operation = function()
    mark_read()
    return { tell(), text(last_number) }
  end
elseif op == 'used' then
  -- Returns what each of the windows counts that are named behind their span.
  operation = function()
    local from, to = span(now, take(), tonumber(take()), tonumber(take()))
    local told = { tell() }
    while at < #ARGV do
      local window = redis.call('MGET', root .. ':s:' .. take())[1] or ''
      told[#told + 1] = text((sum_of(window, from, to, now)))
    end
    return told
  end
elseif op == 'outbox' then
  -- Returns entries behind a number.
  operation = function()
    local after, most = take(), take()
    mark_read()
    local told, q = {}, root .. ':q'
    local packed = redis.call('ZRANGEBYSCORE', q, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
    for i = 1, #packed, 2 do
      local _, written, node, entry = unpacked(packed[i])
      told[#told + 1], told[#told + 2], told[#told + 3], told[#told + 4] = packed[i + 1], written, node, entry
    end
    return told
  end
end
if operation then
  return finish(pcall(operation))
end

-- Writes a number of the head, which stands behind so many bytes: format 0, time 8, put 24, above 40, lost 48.
local function put_number(write, behind, number)
  write('SETRANGE', root .. ':a', behind, struct.pack('<d', number))
end

-- Writes the layout also where earlier versions look for it: they say that a later one wrote the store.
local function put_layout(write, number)
  put_number(write, 0, number)
  write('HSET', root, 'format', text(FORMAT))
end

-- Returns the head as it is now, and where the lines of the nodes begin in it.
local function head_now()
  local head = redis.call('GET', root .. ':a') or ''
  head = head .. string.rep('\0', NO_TEXTS - #head)
  local _, _, begin = struct.unpack('<Hc0Hc0', head, NUMBERS + 1)
  return head, begin
end

-- Writes which store this is, and which run its nodes have met.
local function put_origin(write, id, its_run)
  local head, begin = head_now()
  local texts = struct.pack('<Hc0Hc0', #id, id, #its_run, its_run)
  write('SET', root .. ':a', string.sub(head, 1, NUMBERS) .. texts .. string.sub(head, begin))
end

-- Returns a head with the highest number of a node.
local function with_committed(head, node, number)
  local line = '\n' .. node .. ' '
  local first, last = string.find(head, line, NUMBERS + 1, true)
  if first then
    head = string.sub(head, 1, first - 1) .. string.gsub(string.sub(head, last + 1), '^%d+', '')
  end
  return head .. line .. text(number)
end

local function packed_record(version, written, whole, gone, state, content)
  return struct.pack('<dddd', version, written, whole, gone) .. state .. content
end

-- Returns where a slot begins in a window; nothing if there is none.
local function slot_in(window, begins, ends)
  local _, first = sum_of(window, 0, 0, now, begins, ends)
  return first
end

-- Parses a node's registration; the text for people comes last.
local function member(packed)
  local instance, beat, its_run, acked, told = string.match(packed, '^(%S*) (%S+) (%S*) (%S*) (.*)$')
  return { instance = instance, beat = tonumber(beat), run = its_run, acked = acked, told = told }
end

-- The latest time that the store can tell of its own past, in microseconds: only somebody else wrote one that is an
-- hour ahead of all clocks at hand. That of the caller alone proves nothing, as its machine may have stood still; nor
-- does the stored one, which the same hand may have written.
local latest_past = math.max(now, clock, unshifted) + 3600 * 1000000

-- Returns what gates never write so: each a key, and a field of it where the others are right. What is left of it would
-- end every heartbeat with an error that nobody mends.
local function damages()
  local wrong = {}
  local function add(name, field)
    wrong[#wrong + 1] = { root .. name, field }
  end
  -- Returns what a command reads, if the key has the type for it.
  local function read(command, name, ...)
    local told = redis.pcall(command, root .. name, ...)
    if type(told) ~= 'table' or not told.err then
      return told
    elseif string.find(told.err, 'WRONGTYPE', 1, true) then
      add(name)
    end
  end
  local function is_right(value, form, latest)
    local number = tonumber(string.match(value, form))
    return number and number <= latest
  end
  local function look(name, form, of_fields, latest)
    local all = read('HGETALL', name) or {}
    for i = 1, #all, 2 do
      if not string.find(all[i], of_fields) or not is_right(all[i + 1], form, latest or MAX_EXACT) then
        add(name, all[i])
      end
    end
    return all
  end
  local function is_line(number)
    return tonumber(number) <= MAX_EXACT and '' or nil
  end
  if read('GET', ':a') and string.gsub(string.sub(packed_head, lines), '\n%S+ (%d+)', is_line) ~= '' then
    add(':a')
  elseif lost_since > latest_past then
    add(':a')
  end
  local names = { 'taken', 'left', 'behind', 'epoch', 'since', 'promoted', 'rebuilding', 'shows' }
  local forms = { rebuilding = '^%S+ (%d+)$', shows = '^%S+ (%d+)$' }
  -- What is a time is not yet to come.
  local times = { since = true, promoted = true, rebuilding = true, shows = true }
  local values = read('HMGET', '', unpack(names)) or {}
  for i, name in ipairs(names) do
    local latest = times[name] and math.min(latest_past, MAX_EXACT) or MAX_EXACT
    if values[i] and not is_right(values[i], forms[name] or '^(%d+)$', latest) then
      add('', name)
    end
  end
  local of_node = '^%w[%w._-]*$'
  local enrolled = look(':n', '^%S* (%d+) %S* %S* ', of_node, latest_past)
  look(':k', '^%S+ (%d+)$', of_node)
  look(':c', '^(%d+)$', of_node)
  look(':w', '^(%d+) ?%S*$', of_node)
  look(':m', '^(%d+) %S+$', of_node)
  look(':g', '^(%d+) %S+$', '^%S+ %S+$')
  for _, name in ipairs({ ':f', ':t', ':v' }) do
    read('HGET', name, '')
  end
  local part = read('HGET', ':u', 'part')
  if part and not string.find(part, '\n', 1, true) then
    add(':u', 'part')
  end
  for i = 1, #enrolled, 2 do
    local name = ':d:' .. enrolled[i]
    local last = read('HGET', name, 'last')
    if last and not is_right(last, '^(%d+)$', MAX_EXACT) then
      add(name)
    end
  end
  for _, name in ipairs({ ':q', ':x', ':l' }) do
    read('ZSCORE', name, '')
  end
  local records_by = { 'sending', 'unknown', 'frozen', 'paid', 'known', 'held', 'approved', 'message', 'ended', 'gone' }
  for _, name in ipairs(with(records_by, 'foreign', 'session')) do
    read('ZSCORE', ':i:' .. name, '')
  end
  return wrong
end

-- Ends an operation with what is damaged, if anything is.
local function expect_whole()
  local key, field = unpack(damages()[1] or {})
  if key == root .. ':a' and type(found_here[1]) == 'string' then
    error({ err = 'DAMAGED - its head has lines, or a loss, that no gate writes' })
  elseif key and field then
    error({ err = 'DAMAGED - its key `' .. key .. '` has a field that no gate writes' })
  elseif key then
    error({ err = 'DAMAGED - its key `' .. key .. '` has not the type that gates give it' })
  end
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
  local marks = root .. ':d:' .. node
  local marked = redis.call('HGET', marks, 'last')
  if marked and number >= tonumber(marked) then
    alter('DEL', marks)
  end
end

-- Returns the number up to which the asker ever said to this store that this journal has every entry.
local function said_of(journal)
  local here, number = string.match(redis.call('HGET', root .. ':k', asker) or '', '^(%S+) (%d+)$')
  if here ~= journal then
    number = string.match(redis.call('HGET', root .. ':g', asker .. ' ' .. journal) or '', '^%d+')
  end
  return tonumber(number or 0)
end

-- Returns 'differs' if this store has another entry than a journal at a number, and 'uncompared' if its own has left
-- the outbox, and the node did not say to this store that its journal has it. A lost store is rebuilt first. A number
-- that a rebuild left out has no entry: then the closing behind it tells whose journal is awaited.
local function other_history(entry, number, said)
  if entry == '' or entry == '-' or lost or not generation then
    return nil
  end
  local here = redis.call('ZRANGEBYSCORE', root .. ':q', text(number), text(number), 'LIMIT', 0, 1)[1]
  local its_mark = redis.call('HGET', root .. ':d:' .. asker, text(number))
  if here then
    its_mark = string.match(here, '^%d+ (%d+ %S+) ')
  end
  if its_mark then
    return its_mark ~= entry and 'differs' or nil
  end
  local behind, left_up_to = unpack(redis.call('HMGET', root, 'behind', 'left'))
  -- What was before the rebuild, the rebuild compared: it asked who has it.
  local was_here = number > tonumber(behind or 0) and number <= tonumber(left_up_to or 0)
  return said < number and was_here and 'uncompared' or nil
end

local function tell_roll(verdict, all)
  local epoch, promoted
  -- Of a store that is none for the asker, that may be what nobody can read.
  if verdict ~= 'cut' and verdict ~= 'foreign' then
    epoch, promoted = unpack(redis.call('HMGET', root, 'epoch', 'promoted'))
  end
  local told = { verdict, tell(), text(clock), text(skew), epoch or '0', text(mark), promoted or '' }
  for _, one in ipairs({ generation or '', run or '', text(last_number), text(above), lost or '' }) do
    told[#told + 1] = one
  end
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

-- Whether a process that begins has less in its journal than it said before.
local function has_less(instance, journal, has)
  local mine, kept = redis.pcall('HGET', root .. ':n', asker), redis.pcall('HGET', root .. ':k', asker)
  local was = type(mine) == 'string' and string.match(mine, '^(%S*) %d+ ')
  -- A running process may have told more since it made this heartbeat. What nobody can read tells nothing.
  if was == instance or (mine and not was) then
    return false
  end
  local old_journal, had = string.match(type(kept) == 'string' and kept or '', '^(%S+) (%d+)$')
  return old_journal == journal and tonumber(had) > has
end

-- Handles a heartbeat: the node is running, and meets the Redis that it is connected to.
local function beat()
  local instance, former, fresh, lapse, told = take(), take(), take(), tonumber(take()), take()
  -- The highest number, of any node, that it was told before or has in its journal.
  local seen = tonumber(take())
  local journal, has, its_generation, wanted, acked = take(), tonumber(take()), take(), take(), take()
  -- The time and the node of the entry at that number, where the gate asks whether this store has the same; '-' where
  -- it does not ask.
  local newest = take()
  -- A store without any commit in the place of one without any is as good.
  local are_empty = fresh ~= '' and math.max(has, highest, seen, last_number) == 0
  local is_other = not lost and its_generation ~= '' and generation and its_generation ~= generation
  is_other = is_other and not redis.pcall('HGET', root .. ':f', its_generation)
  -- A store that somebody changed is mended by its own gates, and not by one with an old journal.
  local verdict
  if has_less(instance, journal, has) then
    verdict = 'cut'
  elseif wanted ~= '' and generation and generation ~= wanted then
    verdict = 'foreign'
  elseif is_other and (fresh == '' or (has <= last_number and not are_empty)) then
    -- A store that people create is another installation's.
    verdict = 'foreign'
  end
  if verdict then
    return tell_roll(verdict, #damages() == 0 and roll() or {})
  end
  expect_whole()
  local all = roll()
  local mine = all[asker]
  local was_retired = mine and has_retired(asker, mine)
  if lost and its_generation ~= '' then
    redis.call('HSET', root .. ':f', its_generation, '1')
  elseif is_other then
    if not are_empty then
      -- It knows more than this store, which may have been made anew in the place of its own.
      lost = text(now)
      put_number(redis.call, 48, now)
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
    put_layout(redis.call, FORMAT)
    put_origin(redis.call, fresh, met)
  elseif generation and redis.call('HGET', root, 'format') ~= text(FORMAT) then
    put_layout(redis.call, FORMAT)
  end
  all[asker] = { instance = instance, beat = now, run = met, acked = acked, told = told }
  enroll(asker, all[asker])
  alter = redis.call
  local other = other_history(newest, has, said_of(journal))
  -- Before it has compared, what it says of its journal is not about this store.
  if not other and not (newest == '-' and waits) then
    keep(asker, journal, has, was_retired)
  end
  redis.call('HSET', root .. ':c', asker, text(highest))
  -- A loss that is known since a time to come would be waited for until then.
  if lost and not is_starting and tonumber(lost) > math.max(now, unshifted) + AHEAD then
    lost = nil
  end
  if forgot(seen) or not generation or lost_since ~= 0 then
    lost = lost or text(now)
    put_number(redis.call, 48, tonumber(lost))
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
  if other then
    return tell_roll(other, all)
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
    run = met
    put_origin(redis.call, generation, run)
    redis.call('HSET', root, 'promoted', since)
    redis.call('HDEL', root, 'next', 'since')
  end
  return tell_roll('well', all)
end

-- Returns the writes of items, behind what `write_first` writes.
local function take_items(write_first)
  local writes = {}
  local function write(...)
    writes[#writes + 1] = { ... }
  end
  while at < #ARGV do
    local kind = take()
    if kind == 'record' then
      local name, version, written, whole, gone, state, content = take(), take(), take(), take(), take(), take(), take()
      local is_whole = state == 'whole'
      local until_whole, until_gone = tonumber(whole) or FOREVER, tonumber(gone) or FOREVER
      local packed =
        packed_record(tonumber(version), tonumber(written), until_whole, until_gone, is_whole and 'w' or 's', content)
      write('SET', root .. ':r:' .. name, packed)
      local turn = is_whole and whole or gone
      if turn ~= '' then
        write('ZADD', root .. ':x', turn, 'r' .. name)
      end
    elseif kind == 'member' then
      local index, due, name = take(), take(), take()
      write('ZADD', root .. ':i:' .. index, due, name)
    elseif kind == 'slot' then
      local name, slot, units, matters = take(), take(), tonumber(take()), take()
      local begins, ends = string.match(slot, '^(%S+) (%S+)$')
      write('ZADD', root .. ':x', matters, 's' .. slot .. ' ' .. name)
      write('ZADD', root .. ':l', 0, name)
      write('slot', root .. ':s:' .. name, tonumber(begins), tonumber(ends), units, tonumber(matters))
    elseif kind == 'holder' then
      local window, name, slot, units = take(), take(), take(), take()
      local begins, ends = string.match(slot, '^(%S+) (%S+)$')
      write('holder', root .. ':h:' .. name, window, begins, ends, units)
    elseif kind == 'kept' then
      local node, journal, number = take(), take(), take()
      write('HSET', root .. ':k', node, journal .. ' ' .. number)
    elseif kind == 'committed' then
      local node, number = take(), take()
      write('committed', node, tonumber(number))
    elseif kind == 'former' then
      write('HSET', root .. ':f', take(), '1')
    else
      local number, written, node, entry = take(), take(), take(), take()
      local packed = table.concat({ written, node, entry }, ' ')
      write('ZADD', root .. ':q', number, text(bytes_put) .. ' ' .. packed)
      bytes_put = bytes_put + #packed
    end
  end
  return function()
    write_first()
    put_number(alter, 24, bytes_put)
    for _, command in ipairs(writes) do
      local what, key, first, second, third, fourth = unpack(command)
      local before = (what == 'slot' or what == 'holder') and redis.call('GET', key) or ''
      if what == 'slot' then
        alter('SET', key, with_slot(before, slot_in(before, first, second), first, second, third, fourth))
      elseif what == 'committed' then
        alter('SET', root .. ':a', with_committed((head_now()), key, first))
      elseif what == 'holder' then
        -- The same item may come twice.
        if not held_in(before, first) then
          alter('SET', key, before .. held_part(first, tonumber(second), tonumber(third), tonumber(fourth)))
        end
      else
        alter(unpack(command))
      end
    end
  end
end

-- Returns how many bytes were put into the outbox before an entry of it.
local function bytes_before(packed)
  return tonumber((unpacked(packed)))
end

-- Returns the number up to which entries leave because the outbox has too many bytes: those that this journal has.
local function passed_over(number, bytes_taken)
  local after = 0
  while bytes_put - bytes_taken > MAX_WAITING_BYTES do
    local some =
      redis.call('ZRANGEBYSCORE', root .. ':q', '(' .. text(after), text(number), 'WITHSCORES', 'LIMIT', 0, 16)
    if #some == 0 then
      break
    end
    for i = 1, #some, 2 do
      if bytes_put - bytes_before(some[i]) <= MAX_WAITING_BYTES then
        return after
      end
      after = tonumber(some[i + 1])
    end
  end
  return after
end

-- Notes what tells entries from others, where they leave before a node said that its journal has them.
local function mark_leaving(node, has, up_to)
  local last = math.min(up_to, has + MAX_MARKED)
  if last <= has then
    return
  end
  local leaving = redis.call('ZRANGEBYSCORE', root .. ':q', '(' .. text(has), text(last), 'WITHSCORES')
  for i = 1, #leaving, 2 do
    local _, written, by = unpacked(leaving[i])
    local number = leaving[i + 1]
    alter('HSET', root .. ':d:' .. node, 'last', number, number, written .. ' ' .. by)
  end
end

local function is_rebuilding(instance)
  return lost and string.match(redis.call('HGET', root, 'rebuilding') or '', '^%S+') == instance
end

-- Whether a process may show a snapshot: of a lost store the one that rebuilds it, of a whole one any, one at a time.
local function may_show(instance)
  if lost then
    return is_rebuilding(instance)
  end
  local by, at_last = string.match(redis.call('HGET', root, 'shows') or '', '^(%S+) (%S+)$')
  return not by or by == instance or now - tonumber(at_last) >= SHOWS_WITHIN
end

-- A process that shows a snapshot goes on with it.
local function shows(instance)
  alter('HSET', root, lost and 'rebuilding' or 'shows', instance .. ' ' .. text(now))
end

if op == 'beat' then
  operation = beat
elseif op == 'roll' then
  -- Returns the registered nodes; a process that is not a node may ask.
  operation = function()
    expect_whole()
    return tell_roll(lost and 'lost' or 'well', roll())
  end
elseif op == 'leave' then
  -- Ends a node in order: no other node waits for it.
  operation = function()
    local instance, is_retired = take(), take() == '1'
    local one = roll()[asker]
    return {}, function()
      if one and one.instance == instance then
        one.beat = 0
        enroll(asker, one)
        alter('HSET', root .. ':w', asker, text(now) .. (is_retired and ' retired' or ''))
      end
    end
  end
elseif op == 'dismiss' then
  -- Forgets a node whose journal will never return: nothing waits for it any more.
  operation = function()
    local node, journal = take(), take()
    local old, had = string.match(redis.call('HGET', root .. ':k', node) or '', '^(%S+) (%d+)$')
    if old ~= journal then
      return {}
    end
    return {}, function()
      alter('HSET', root .. ':g', node .. ' ' .. old, had .. ' lost')
      -- It may come back after all, and is compared then.
      mark_leaving(node, tonumber(had), last_number)
      for _, hash in ipairs({ ':k', ':n', ':w', ':c' }) do
        alter('HDEL', root .. hash, node)
      end
    end
  end
elseif op == 'create' then
  -- Creates an empty store for an installation; returns the one that it belongs to.
  operation = function()
    local id = take()
    if generation or id == '' then
      return { generation or '' }
    elseif layout ~= 0 or last_number > 0 or lost then
      error('there is a store already')
    end
    return { id }, function()
      put_layout(alter, FORMAT)
      put_origin(alter, id, met)
    end
  end
elseif op == 'import' then
  -- Writes a part of an export; the store must be empty before the first part.
  operation = function()
    local is_first = take() == '1'
    -- An earlier query for the time does not count as a store.
    if (is_first and (layout ~= 0 or lost)) or (not is_first and layout ~= IMPORT) then
      error('there is a store already')
    end
    return {}, take_items(function()
      put_layout(alter, IMPORT)
    end)
  end
elseif op == 'imported' then
  -- Completes the import: the commit that closes money makes it a usable store.
  operation = function()
    local fresh, time, last = take(), tonumber(take()), tonumber(take())
    if layout ~= IMPORT then
      error('nothing was imported')
    end
    now = math.max(now, time)
    local told, write = also_commit(lost and math.max(last, above) or last)
    return told,
      write and function()
        write()
        put_origin(alter, fresh, met)
        -- The gates of this store, which do not run, will go on with their journals: entries wait for them.
        local kept = redis.call('HGETALL', root .. ':k')
        for i = 1, #kept, 2 do
          alter('HSET', root .. ':n', kept[i], ' 0   {}')
          alter('HSET', root .. ':w', kept[i], text(now))
        end
      end
  end
elseif op == 'distrust' then
  -- A store that contradicts a journal, or lacks what one has, counts as lost until it is rebuilt. What no gate writes
  -- so is removed.
  operation = function()
    -- Of damage also which rebuild came before what was found; '-' if it is seen here whether it is still there.
    local what, its_generation, behind_then = take(), take(), take()
    local wrong, behind = damages(), redis.pcall('HGET', root, 'behind')
    if damage then
      wrong[#wrong + 1] = { root .. ':a' }
    end
    behind = type(behind) == 'string' and string.match(behind, '^%d+$') or '0'
    local is_its = its_generation == ''
      or (told_generation or '') == ''
      or told_generation == its_generation
      or redis.pcall('HGET', root .. ':f', its_generation) == '1'
    -- Another gate may have had it mended, and people opened money since.
    if not is_its or (what == 'damaged' and #wrong == 0 and behind_then ~= behind) then
      return { 'no' }
    end
    return { 'go' }, function()
      for _, one in ipairs(wrong) do
        local key, field = unpack(one)
        if key == root .. ':a' then
          alter('SET', key, struct.pack('<d', FORMAT) .. string.sub(packed_head, 9, lines - 1))
        elseif field then
          alter('HDEL', key, field)
        else
          alter('DEL', key)
        end
      end
      if what ~= 'lacks' then
        alter('HSET', root, 'distrusted', '1')
      end
      if what == 'damaged' then
        -- No rebuild replaces it.
        alter('DEL', root .. ':t')
      end
      if not lost or lost_since > latest_past then
        put_number(alter, 48, now)
      end
    end
  end
elseif op == 'rebuild' then
  -- A process begins to rebuild a lost store, unless another one is at it.
  operation = function()
    local instance, lapse = take(), tonumber(take())
    local by, heard = string.match(redis.call('HGET', root, 'rebuilding') or '', '^(%S+) (%S+)$')
    if not lost or (by and by ~= instance and now - tonumber(heard) < lapse) then
      return { 'no' }
    end
    local told = { 'go', text(above), redis.call('HGET', root, 'distrusted') or '' }
    local others = redis.call('HGETALL', root .. ':m')
    for i = 1, #others, 2 do
      local number, state = string.match(others[i + 1], '^(%S+) (%S+)$')
      told[#told + 1], told[#told + 2], told[#told + 3] = others[i], number, state == 'retired' and '1' or ''
    end
    return told, function()
      alter('HSET', root, 'rebuilding', instance .. ' ' .. text(now))
    end
  end
elseif op == 'repair' then
  -- Writes a part of what a journal holds.
  operation = function()
    local instance = take()
    if not is_rebuilding(instance) then
      return { 'no' }
    end
    return { 'go' },
      take_items(function()
        alter('HSET', root, 'rebuilding', instance .. ' ' .. text(now))
      end)
  end
elseif op == 'lend' then
  -- Lends entries of one journal to the gate whose journal begins earlier, while the store is lost.
  operation = function()
    local since, is_first = take(), take() == '1'
    if lost ~= since then
      return { 'no' }
    end
    local writes = {}
    while at < #ARGV do
      local behind, number, written, node, entry = take(), take(), take(), take(), take()
      writes[#writes + 1] = { behind, table.concat({ number, written, node, entry }, ' ') }
    end
    return { 'go' }, function()
      if is_first then
        alter('DEL', root .. ':t')
      end
      for _, one in ipairs(writes) do
        alter('HSET', root .. ':t', one[1], one[2])
      end
      if is_first and #writes == 0 then
        alter('HSET', root .. ':t', 'none', '')
      end
    end
  end
elseif op == 'borrow' then
  -- Returns lent entries: the next ones behind a number, if there are any to come.
  operation = function()
    local since, number, most = take(), take(), tonumber(take())
    if lost ~= since or redis.call('HGET', root .. ':t', 'none') then
      return { lost == since and 'none' or 'go' }
    end
    local told = { 'go' }
    while #told < 4 * most do
      local packed = redis.call('HGET', root .. ':t', number)
      if not packed then
        break
      end
      local written, node, entry
      number, written, node, entry = unpacked(packed)
      told[#told + 1], told[#told + 2], told[#told + 3], told[#told + 4] = number, written, node, entry
    end
    return told
  end
elseif op == 'wipe' then
  -- Removes keys of the content while a store is rebuilt.
  operation = function()
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
        -- One that holds millions would stop the Redis for as long as it is freed.
        alter('UNLINK', name)
        if name == root .. ':q' then
          alter('HSET', root, 'taken', text(bytes_put))
        end
      end
    end
  end
elseif op == 'show_part' then
  -- Shows a part of a snapshot, in the place of the part before.
  operation = function()
    local instance, nth, node, up_to, nodes, part = take(), take(), take(), take(), take(), take()
    if not may_show(instance) then
      return { 'no' }
    end
    return { 'go' }, function()
      local head = table.concat({ lost or '-', instance, nth, node, up_to, nodes }, ' ')
      shows(instance)
      if nth == '1' then
        alter('DEL', root .. ':v')
      end
      alter('HSET', root .. ':u', 'part', head .. '\n' .. part)
    end
  end
elseif op == 'taken_parts' then
  -- Returns how many parts each node has taken of the snapshot that is shown.
  operation = function()
    local instance = take()
    if not may_show(instance) then
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
      shows(instance)
    end
  end
elseif op == 'take_part' then
  -- Returns the part that is shown to this node, if it is the next one, and notes how many it has.
  operation = function()
    local since, instance, count = take(), take(), tonumber(take())
    local packed = redis.call('HGET', root .. ':u', 'part')
    if (lost or '-') ~= since or not packed then
      return {}
    end
    local ends = string.find(packed, '\n', 1, true)
    local head = '^(%S+) (%S+) (%d+) (%S+) (%d+) (.*)$'
    local shown_at, by, nth, node, up_to, nodes = string.match(string.sub(packed, 1, ends - 1), head)
    if shown_at ~= since or not string.find(' ' .. nodes .. ' ', ' ' .. asker .. ' ', 1, true) then
      return {}
    end
    local is_next = tonumber(nth) == (by == instance and count or 0) + 1
    return is_next and { by, nth, node, up_to, string.sub(packed, ends + 1) } or {},
      function()
        if by == instance then
          alter('HSET', root .. ':v', asker, instance .. ' ' .. text(count))
        end
      end
  end
elseif op == 'rebuilt' then
  -- Completes the rebuild, with a commit behind all numbers that any node knows.
  operation = function()
    local instance, fresh, time, last, count = take(), take(), tonumber(take()), tonumber(take()), tonumber(take())
    if not is_rebuilding(instance) then
      return { 'no' }
    end
    for _ = 1, count do
      local node, number = take(), tonumber(take())
      packed_head = with_committed(packed_head, node, number)
    end
    now = math.max(now, time)
    local told, write = also_commit(last)
    return told,
      write and function()
        write()
        put_layout(alter, FORMAT)
        put_number(alter, 40, 0)
        put_number(alter, 48, 0)
        put_origin(alter, generation or fresh, met)
        alter('HDEL', root, 'rebuilding', 'shows', 'distrusted', 'next', 'since', 'left')
        alter('DEL', root .. ':m', root .. ':t', root .. ':u', root .. ':v')
        if run ~= met then
          alter('HSET', root, 'promoted', text(now))
        end
        alter('HSET', root, 'behind', text(last))
      end
  end
elseif op == 'times' then
  -- Returns the stored time and the clock, neither of which is believed yet.
  operation = function()
    return { text(mark), text(clock) }
  end
elseif op == 'right_time' then
  -- Replaces a stored time that no gate can have told.
  operation = function()
    return {}, mark > believed and function()
      put_number(alter, 8, now)
    end or nil
  end
elseif op == 'list_window' then
  -- Puts a window that has slots back into the list of windows; returns whether it was lacking.
  operation = function()
    local name = take()
    local has_slots = (redis.call('MGET', root .. ':s:' .. name)[1] or '') ~= ''
    local is_lacking = has_slots and not redis.call('ZSCORE', root .. ':l', name)
    return { is_lacking and '1' or '0' },
      is_lacking and function()
        alter('ZADD', root .. ':l', 0, name)
      end or nil
  end
elseif op == 'kept' then
  -- A journal has every entry up to a number. Entries leave when every node has them that has not left in order, and as
  -- many running nodes as there must be copies; of other entries, the newest stay.
  operation = function()
    local node, journal, number, copies, lapse = take(), take(), tonumber(take()), tonumber(take()), tonumber(take())
    local all, up_to, reached, said = roll(), number, { number }, {}
    local bytes_taken = tonumber(redis.call('HGET', root, 'taken') or 0)
    for other, one in pairs(all) do
      if other ~= node then
        local has = tonumber(string.match(redis.call('HGET', root .. ':k', other) or '0', '%d+$'))
        said[other] = has
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
    local newest = redis.call('ZRANGE', root .. ':q', -MAX_WAITING, -MAX_WAITING, 'WITHSCORES')[2]
    up_to = math.min(number, math.max(up_to, tonumber(newest or 1) - 1, passed_over(number, bytes_taken)))
    return {}, function()
      keep(node, journal, number)
      if bytes_put == bytes_taken then
        return
      end
      local stays = redis.call('ZRANGEBYSCORE', root .. ':q', '(' .. text(up_to), '+inf', 'LIMIT', 0, 1)[1]
      local taken = stays and bytes_before(stays) or bytes_put
      if taken ~= bytes_taken then
        for other, has in pairs(said) do
          mark_leaving(other, has, up_to)
        end
        alter('HSET', root, 'taken', text(taken), 'left', text(up_to))
        alter('ZREMRANGEBYSCORE', root .. ':q', '-inf', text(up_to))
      end
    end
  end
elseif op == 'sweep' then
  operation = function()
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
          local begins, ends, starts = string.match(name, '^(%-?%d+) (%-?%d+) ()')
          if not starts then
            error({ err = 'SPOILT it has an expiry that no gate writes' })
          end
          local its_window = string.sub(name, starts)
          local key = root .. ':s:' .. its_window
          local window = redis.call('MGET', key)[1] or ''
          local first = slot_in(window, tonumber(begins), tonumber(ends))
          if first and slots_in(window) == 32 then
            alter('DEL', key)
            alter('ZREM', root .. ':l', its_window)
          elseif first then
            alter('SET', key, with_slot(window, first))
          end
        else
          local key = root .. ':r:' .. name
          local packed = redis.call('MGET', key)[1]
          local version, gone, _
          if packed then
            version, _, gone = head_of(packed, now)
          end
          if version and gone >= 0 then
            -- A full Redis refuses this one: then the record keeps its content and its expiry.
            alter('ZADD', expiries, text(gone), one)
            alter('SET', key, string.sub(packed, 1, CONTENT - 2) .. 's')
          else
            alter('ZREM', expiries, one)
            if gone and gone >= 0 then
              alter('DEL', key)
            end
          end
        end
      end
    end
  end
end

return finish(pcall(operation))
