-- Takes all of the locks or none. A repeated request takes its locks again.
--
-- KEYS[1] the fence counter of the namespace; then each lock, followed by its queue
-- ARGV[1] the process, 32 characters
-- ARGV[2] prefix of the channels
-- ARGV[3] ttl in ms
-- ARGV[4] owner, shown to operators
-- ARGV, then for each lock its token, 32 characters
--
-- Returns {1, answers} if all were taken. The answer for a lock that was free is its fence. For a
-- lock that already carried its token it is {1, fence, reserve, wanted}, as in `acquire.lua`.
--
-- Returns {0, i, pttl, owner} if another token has lock `i`, or another process must get it first.
--
-- No lock may occur twice.
--
-- Guarantees:
-- - The script takes nothing unless each lock either carries its token, or is free with no other
--   process first in its queue.
-- - A repeated call with the same tokens succeeds again, with the same fences and the full ttl.
-- - The guarantees of `acquire.lua` for values, fences and queues hold, too.
--
-- This fragment takes the locks if all are free and no process queues for any. Otherwise
-- `acquire_all_queue.lua` continues.
local process, channels, ttl, count = ARGV[1], ARGV[2], ARGV[3], (#KEYS - 1) / 2
local found = redis.call('MGET', unpack(KEYS, 2))
local answers, missing = {}, {}

-- Takes the locks in `missing`. Writes the counter first, so that a server that refuses writes
-- fails before any lock is taken.
local function take_missing()
  local fence = next_fence(KEYS[1], '0')
  for n, i in ipairs(missing) do
    local value = ARGV[4 + i] .. ':' .. fence .. ':0:' .. process .. ':' .. ARGV[4]
    if not redis.call('SET', KEYS[2 * i], value, 'NX', 'PX', ttl) then
      -- The key has data of another type, for which `MGET` returns nothing. Remove the locks taken
      -- so far, and let `GET` fail with the server's error.
      for before = 1, n - 1 do
        redis.call('DEL', KEYS[2 * missing[before]])
      end
      redis.call('GET', KEYS[2 * i])
    end
    answers[i] = fence
  end
end

for i = 1, count do
  if found[2 * i - 1] or found[2 * i] then
    break
  end
  missing[i] = i
end
if #missing == count then
  take_missing()
  return {1, answers}
end

