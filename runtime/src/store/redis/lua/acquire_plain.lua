-- Takes locks on a node of a quorum, or takes them again: each as if it had been asked for alone.
--
-- KEYS the locks; ARGV for each group of locks, in their order: ttl in ms; owner, for people; how many locks they are, and the token of
-- each, 32 characters
-- Returns 1 if all are taken; else for each 1, {0, pttl, 0} if another has it, and {-1, error} if the server refused a command. No lock
-- may be named twice.
--
-- Guarantees: a key with another value, of whatever client and type, is not touched; with the same token it succeeds again, with the full
-- ttl. There is no queue and no fence: what one node knows of them, another does not.
-- The value is `token:owner`; to other clients it is opaque.
local answers, missed = {}, false

-- What is answered for a lock that was not set.
local function look(key, token, ttl, set)
  local value = redis.call('GET', key)
  if value and string.sub(value, 1, 32) == token then
    redis.call('PEXPIRE', key, ttl)
    return 1
  end
  return value and {0, redis.call('PTTL', key), 0} or {-1, set['err']}
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
