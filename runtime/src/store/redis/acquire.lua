-- Takes a lock, or takes it again.
--
-- KEYS[1] the lock; KEYS[2] the last fence of the namespace
-- ARGV[1] token, 32 characters; ARGV[2] ttl in ms; ARGV[3] owner, for people
-- Returns {1, fence} if the lock carries the token now, {0, pttl} if it carries another value.
--
-- Guarantees:
-- - A key with another value, of whatever client, is not touched.
-- - With the same token it succeeds again, with the same fence and the full ttl: a retry after a lost
--   reply is not refused by its own earlier attempt.
-- - The fence is greater than every earlier one of the namespace, as long as either the counter or the
--   server's clock was kept: max(last + 1, now in microseconds).
-- The value is `token:fence:owner`; to other clients it is opaque.
local value = redis.call('GET', KEYS[1])
if value then
  if string.sub(value, 1, 32) ~= ARGV[1] then
    return {0, redis.call('PTTL', KEYS[1])}
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {1, string.match(value, '^%x+:(%d+)')}
end
local time = redis.call('TIME')
local fence = time[1] * 1000000 + time[2]
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
if fence <= last then
  fence = last + 1
end
-- `tostring` would give 1.758e+15.
fence = string.format('%.0f', fence)
redis.call('SET', KEYS[2], fence)
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. fence .. ':' .. ARGV[3], 'PX', ARGV[2])
return {1, fence}
