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
local i, at = 0, 1
while i < #KEYS do
  local ttl, owner, size = unpack(ARGV, at, at + 2)
  for n = at + 3, at + 2 + size do
    i = i + 1
    local key, token = KEYS[i], ARGV[n]
    local set = redis.pcall('SET', key, token .. ':' .. owner, 'NX', 'PX', ttl)
    answers[i] = 1
    if not set or set['err'] then
      local value = redis.pcall('GET', key)
      if type(value) == 'table' then
        answers[i] = {-1, value['err']}
      elseif value and string.sub(value, 1, 32) == token then
        redis.call('PEXPIRE', key, ttl)
      elseif value then
        answers[i] = {0, redis.call('PTTL', key), 0}
      else
        answers[i] = {-1, set['err']}
      end
      missed = true
    end
  end
  at = at + 3 + size
end
return missed and answers or 1
