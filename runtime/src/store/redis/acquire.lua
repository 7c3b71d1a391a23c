-- Takes locks, or takes them again, or queues for them: each as if it had been asked for alone.
--
-- KEYS[1] the last fence of the namespace; then each lock with its queue; then the shares of each lock
-- ARGV[1] the process, 32 characters; ARGV[2] prefix of the channels; ARGV[3] how many fences more than one there may be need for;
-- then for each lock: token, 32 characters; ttl in ms; owner, for people; `+` or `-` to queue, listening or not, else ``; fences to
-- keep in reserve
-- Returns for each the fence if it was free and nobody wants it, {1, fence, reserve, wanted} if it carries the token now all the same,
-- {0, pttl, queued} if it does not, and {-1, error} if the server refused a command. No lock may be named twice.
--
-- Guarantees:
-- - A key with another value, of whatever client and type, is not touched, except one that was handed to this process.
-- - With the same token it succeeds again, with the same fences and the full ttl: a retry after a lost
--   reply is not refused by its own earlier attempt.
-- - The fences are greater than every earlier one of the namespace, as long as either the counter or the
--   server's clock was kept: max(last + 1, now in microseconds).
-- - A key that is free goes to the first process that queues for it, and only then to one that comes.
-- - A key of which shares are held is not free before the last of them has ended.
-- The value is `token:fence:reserve:process:owner`; to other clients it is opaque.
--
-- What is free and wanted by nobody is taken here; `acquire_queue.lua` does the rest, so that this need not wait for the functions of
-- the queue to be made.
local process, channels, count = ARGV[1], ARGV[2], (#KEYS - 1) / 3
local found = redis.call('MGET', unpack(KEYS, 2, 2 * count + 1))
local answers, others, fence = {}, {}, nil

-- The counter is ahead of all that are still to be taken before the first of them is.
local function fences(spare)
  local first = fence or next_fence(KEYS[1], ARGV[3])
  fence = first + 1 + spare
  return first
end

-- The value of lock `i`.
local function owned(i, first)
  local at = 5 * i - 1
  return ARGV[at] .. ':' .. string.format('%.0f', first) .. ':' .. ARGV[at + 4] .. ':' .. process .. ':' .. ARGV[at + 2]
end

for i = 1, count do
  local set = false
  if not found[2 * i - 1] and not found[2 * i] then
    local done, first = pcall(fences, ARGV[5 * i + 3])
    if done then
      -- Data of another type looked like nothing.
      set = redis.pcall('SET', KEYS[2 * i], owned(i, first), 'NX', 'PX', ARGV[5 * i])
      answers[i] = set and set['err'] and {-1, set['err']} or first
    else
      -- Where memory is full those that need no fence may still be served.
      set, answers[i] = true, {-1, type(first) == 'table' and first['err'] or tostring(first)}
    end
  end
  if not set then
    others[#others + 1] = i
  end
end
if not others[1] then
  return answers
end

