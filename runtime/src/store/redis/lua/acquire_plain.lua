-- Takes locks on a node of a quorum. A repeated request takes its locks again. Each lock is handled
-- as if it were requested alone.
--
-- KEYS the locks
-- ARGV for each group of locks with the same conditions, in the order of KEYS:
-- - ttl in ms
-- - record (see below), shown to operators
-- - the number of locks, then the token of each, 32 characters
--
-- Returns 1 if all are taken. Otherwise returns for each lock 1, {0, pttl, 0, owner} if another
-- token has it, or {-1, error} if the server refused a command. The owner is `''` if it is not
-- known.
--
-- No lock may occur twice.
--
-- Guarantees:
-- - A key with another value is not touched, even if another client wrote it or it has another
--   type.
-- - A repeated call with the same token succeeds again, with the full ttl.
--
-- There are neither queues nor fences, because the nodes cannot share them. The value is
-- `token:record`. The record is `time:0:process:owner`, where the time is the client's, in us.
-- Other clients must treat the value as opaque.
local answers, missed = {}, false

-- Returns the answer for a lock whose `SET` did not succeed.
local function look(key, token, ttl, set)
  local value = redis.call('GET', key)
  if value and string.sub(value, 1, 32) == token then
    redis.call('PEXPIRE', key, ttl)
    return 1
  end
  if not value then
    return {-1, set['err']}
  end
  local owner = string.match(value, '^%x+:%d+:%d+:%x+:(.*)$') or ''
  return {0, redis.call('PTTL', key), 0, owner}
end

local i, at = 0, 1
while i < #KEYS do
  local ttl, owner, size = unpack(ARGV, at, at + 2)
  for n = at + 3, at + 2 + size do
    i = i + 1
    local key, token = KEYS[i], ARGV[n]
    local set = redis.pcall('SET', key, token .. ':' .. owner, 'NX', 'PX', ttl)
    answers[i] = 1
    if not set or set['err'] then
      local done, answer = pcall(look, key, token, ttl, set)
      answers[i] = done and answer or {-1, type(answer) == 'table' and answer['err'] or tostring(answer)}
      missed = true
    end
  end
  at = at + 3 + size
end
return missed and answers or 1
