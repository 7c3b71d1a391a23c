-- Takes locks, or takes them again: all of them or none.
--
-- KEYS[1] the last fence of the namespace; then each lock with its queue
-- ARGV[1] the process, 32 characters
-- ARGV[2] prefix of the channels
-- ARGV[3] ttl in ms
-- ARGV[4] owner, for people
-- ARGV, then for each lock its token, 32 characters
--
-- Returns {1, answers} if all were taken. An answer is the fence of a free lock, or {1, fence,
-- reserve, wanted} of a lock that carried its token already.
-- Returns {0, i, pttl, owner} if another token has lock `i`, or another process must get it first.
--
-- No lock may be named twice.
--
-- Guarantees:
-- - The script takes nothing unless each lock carries its token, or is free and no other process is
--   first in its queue.
-- - With the same tokens the script succeeds again, with the same fences and the full ttl.
-- - The guarantees of `acquire.lua` for values, fences and queues hold, too.
--
-- This part takes the locks if all are free and no process queues for any. `acquire_all_queue.lua`
-- does the rest.
local process, channels, ttl, count = ARGV[1], ARGV[2], ARGV[3], (#KEYS - 1) / 2
local found = redis.call('MGET', unpack(KEYS, 2))
local answers, missing = {}, {}

-- Takes the locks in `missing`. The counter is written first: a server that refuses writes refuses
-- this one, before any lock is taken.
local function take_missing()
  local fence = next_fence(KEYS[1], '0')
  for n, i in ipairs(missing) do
    local value = ARGV[4 + i] .. ':' .. fence .. ':0:' .. process .. ':' .. ARGV[4]
    if not redis.call('SET', KEYS[2 * i], value, 'NX', 'PX', ttl) then
      -- `MGET` returns nothing for data of another type. Remove the taken locks, and let `GET` fail
      -- with the server's error.
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

