-- Takes locks, or takes them again, or queues for them: each as if it had been asked for alone.
--
-- KEYS[1] the last fence of the namespace; then each lock with its queue
-- ARGV[1] the process, 32 characters; ARGV[2] prefix of the channels; ARGV[3] how many fences more than one there may be need for;
-- then for each group of locks, in their order: ttl in ms; owner, for people; `+` or `-` to queue, listening or not, else ``; fences to
-- keep in reserve for each; how many locks they are, and the token of each, 32 characters
-- Returns the fence of all if all were free and nobody wants any; else for each {1, fence, reserve, wanted} if it carries the token now,
-- {0, pttl, queued} if it does not, and {-1, error} if the server refused a command. No lock may be named twice.
--
-- Guarantees:
-- - A key with another value, of whatever client and type, is not touched, except one that was handed to this process.
-- - With the same token it succeeds again, with the same fences and the full ttl: a retry after a lost
--   reply is not refused by its own earlier attempt.
-- - The fences are greater than every earlier one of the namespace, as long as either the counter or the
--   server's clock was kept: max(last + 1, now in microseconds). Locks that are taken together may have the same.
-- - A key that is free goes to the first process that queues for it, and only then to one that comes.
-- - A key of which shares are held is not free: it expires with the last of them.
-- The value is `token:fence:reserve:process:owner`; to other clients it is opaque.
--
-- Where all are free and nobody queues for any, they are taken here; `acquire_queue.lua` does the rest, so that this need not wait
-- for the functions of the queue to be made. What a lock costs is its strings and its commands: what is common to many is said once
-- and done once.
local process, channels, more = ARGV[1], ARGV[2], ARGV[3]

if redis.call('EXISTS', unpack(KEYS, 2)) == 0 then
  -- Ahead of all that are still to be taken before the first of them is. All differ, so they may have the same fence.
  local fence, refused = next_fence(KEYS[1], more), nil
  local lock, at = 2, 4
  while lock <= #KEYS do
    local ttl, owner, _, spare, size = unpack(ARGV, at, at + 4)
    local rest = ':' .. fence .. ':' .. spare .. ':' .. process .. ':' .. owner
    for token = at + 5, at + 4 + size do
      refused = refused or redis.pcall('SET', KEYS[lock], ARGV[token] .. rest, 'PX', ttl)['err']
      lock = lock + 2
    end
    at = at + 5 + size
  end
  if not refused then
    return fence
  end
end

