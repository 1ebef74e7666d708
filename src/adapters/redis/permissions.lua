-- What the user may not do of all that is asked of the Redis: the words of each such command, and of its key.
-- ARGV are commands besides.

local missing = {}

local function need(...)
  local is_known, is_allowed = pcall(redis.acl_check_cmd, ...)
  if not (is_known and is_allowed) then
    local command, key = ...
    missing[#missing + 1] = key and command .. ' ' .. key or command
  end
end

for _, command in ipairs({ 'PING', 'TIME', unpack(ARGV) }) do
  need(command)
end
for _, environment in ipairs({ 'production', 'sandbox' }) do
  local root = 'sluice:{' .. environment .. '}'
  need('HMGET', root, 'x')
  need('HSET', root, 'x', 'x')
  need('SETRANGE', root .. ':a', '0', 'x')
  for _, hash in ipairs({ ':n', ':k', ':g', ':c', ':f' }) do
    need('HGET', root .. hash, 'x')
    need('HSET', root .. hash, 'x', 'x')
    need('HDEL', root .. hash, 'x')
  end
  for _, content in ipairs({ ':a', ':r:x', ':s:x', ':h:x' }) do
    need('GET', root .. content)
    need('SET', root .. content, 'x')
    need('MGET', root .. content)
    need('MSET', root .. content, 'x')
    need('DEL', root .. content)
  end
  for _, index in ipairs({ ':i:x', ':q', ':x', ':l' }) do
    need('ZADD', root .. index, '1', 'x')
    need('ZREM', root .. index, 'x')
  end
  for _, content in ipairs({ ':r:x', ':i:x', ':s:x', ':h:x', ':x', ':l', ':q' }) do
    need('UNLINK', root .. content)
  end
  need('HGETALL', root .. ':n')
  need('ZRANGE', root .. ':l', '-', '+', 'BYLEX')
  need('ZSCORE', root .. ':i:x', 'x')
  need('ZRANGE', root .. ':q', '0', '1')
  need('ZRANGEBYSCORE', root .. ':i:x', '0', '1')
  need('ZRANGEBYSCORE', root .. ':x', '0', '1')
  need('ZREMRANGEBYSCORE', root .. ':q', '0', '1')
end
need('GET', '{rates}:x')
need('SET', '{rates}:x', 'x')
need('SCAN', '0')
return missing
