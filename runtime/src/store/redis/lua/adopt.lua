-- Replaces the token of a lock. The process with the new token then holds the lock.
--
-- KEYS[1] the lock
-- KEYS[2] its queue
-- ARGV[1] the current token, 32 characters
-- ARGV[2] the new token, 32 characters
-- ARGV[3] ttl in ms
-- ARGV[4] the rest of the value after the fences, `process:owner`
-- Returns {1, fence, reserve, wanted} if the lock carries the new token now, otherwise {5}.
--
-- Guarantees:
-- - A missing key is not created, and a key with another value is not touched.
-- - If several processes adopt a lock, only one gets it: the others no longer find the token.
-- - A repeated call with the same tokens succeeds again, so a retry after a lost reply is not
--   refused.
-- - A kept lock is not adopted. Its value has a constant instead of a token, and a handover could
--   contain that constant as its token.
-- - The fence stays the same. The lock gets its full ttl from now.
-- - The script works even if the server's memory is full.
local found = redis.call('MGET', KEYS[1], KEYS[2])
local value = found[1]
local token = value and string.sub(value, 1, 32)
if not value or token ~= ARGV[1] and token ~= ARGV[2] then
  return {5}
end
if token == string.rep('0', 32) then
  return {5}
end
local fence, reserve = string.match(value, '^%x+:(%d+):(%d+):')
if not fence then
  return {5}
end
-- `PEXPIRE` comes first because it needs no memory. After a script's first write, a server whose
-- memory is full accepts further writes.
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[1], ARGV[2] .. ':' .. fence .. ':' .. reserve .. ':' .. ARGV[4], 'PX', ARGV[3])
return {1, fence, reserve, found[2] and 1 or 0}
