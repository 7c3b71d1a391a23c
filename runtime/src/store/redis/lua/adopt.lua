-- Gives a lock another token, so that the process that has the new token holds it from now on.
--
-- KEYS[1] the lock
-- KEYS[2] its queue
-- ARGV[1] the token that it carries, 32 characters
-- ARGV[2] the token that it is to carry, 32 characters
-- ARGV[3] ttl in ms
-- ARGV[4] what follows the fences in the value, `process:owner`
-- Returns {1, fence, reserve, wanted} if the lock carries the new token now, else {5}.
--
-- Guarantees:
-- - A key that is gone is not created, and a key with another value is not touched.
-- - Of several processes that adopt a lock, one gets it: the rest do not find the token any more.
-- - With the same tokens the script succeeds again. So a retry after a lost reply is not refused.
-- - A kept lock is not adopted. Its value has a constant for a token, and so may the baggage.
-- - The fence stays. The lock lives its full ttl from now.
-- - The script works when memory is full.
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
-- First what needs no memory: after it a full server takes the rest.
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[1], ARGV[2] .. ':' .. fence .. ':' .. reserve .. ':' .. ARGV[4], 'PX', ARGV[3])
return {1, fence, reserve, found[2] and 1 or 0}
