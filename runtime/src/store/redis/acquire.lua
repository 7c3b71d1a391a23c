-- Takes a lock, or takes it again, or queues for it.
--
-- KEYS[1] the lock; KEYS[2] the last fence of the namespace; KEYS[3] the lock's queue; KEYS[4] its shares
-- ARGV[1] token, 32 characters; ARGV[2] ttl in ms; ARGV[3] owner, for people; ARGV[4] the process, 32 characters;
-- ARGV[5] `+` or `-` to queue, listening or not, else ``; ARGV[6] fences to keep in reserve; ARGV[7] prefix of the channels
-- Returns {1, fence, reserve, wanted} if the lock carries the token now, else {0, pttl, queued}.
--
-- Guarantees:
-- - A key with another value, of whatever client, is not touched, except one that was handed to this process.
-- - With the same token it succeeds again, with the same fences and the full ttl: a retry after a lost
--   reply is not refused by its own earlier attempt.
-- - The fences are greater than every earlier one of the namespace, as long as either the counter or the
--   server's clock was kept: max(last + 1, now in microseconds).
-- - A key that is free goes to the first process that queues for it, and only then to one that comes.
-- - A key of which shares are held is not free before the last of them has ended.
-- The value is `token:fence:reserve:process:owner`; to other clients it is opaque.
local value = redis.call('GET', KEYS[1])
local line = read(KEYS[3])
if value and string.sub(value, 1, 32) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  local fence, reserve = string.match(value, '^%x+:(%d+):(%d+)')
  return {1, fence, reserve, #line}
end
if limit_of(value) and prune(KEYS[1], KEYS[4], milliseconds()) == 0 then
  value = false
end
if not value and line ~= '' then
  value, line = settle(KEYS[1], KEYS[3], line, ARGV[4], milliseconds(), ARGV[7])
end
if value and value ~= ARGV[4] .. ':claim' then
  if ARGV[5] ~= '' then
    enter(KEYS[1], KEYS[3], line, ARGV[4], ARGV[5], value, milliseconds(), ARGV[7])
  end
  return {0, redis.call('PTTL', KEYS[1]), (ARGV[5] == '+' and knows_queue(value)) and 1 or 0}
end
local fence = next_fence(KEYS[2], ARGV[6])
redis.call('SET', KEYS[1], table.concat({ARGV[1], fence, ARGV[6], ARGV[4], ARGV[3]}, ':'), 'PX', ARGV[2])
return {1, fence, ARGV[6], #line}
