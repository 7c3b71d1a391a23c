-- Takes locks, or takes them again: all of them or none.
--
-- KEYS[1] the last fence of the namespace; then each lock with its queue
-- ARGV[1] the process, 32 characters; ARGV[2] prefix of the channels; ARGV[3] ttl in ms; ARGV[4] owner, for people; then for each lock
-- its token, 32 characters
-- Returns {1, answers}, for each lock the fence if it was free, or {1, fence, reserve, wanted} if it carried its token already; or
-- {0, i, pttl} if another has lock `i`. No lock may be named twice.
--
-- Guarantees:
-- - Nothing is taken unless each lock is free and nobody queues for it, or it carries its token.
-- - With the same tokens it succeeds again, with the same fences and the full ttl.
-- - All else that `acquire.lua` guarantees of values, fences and queues.
--
-- What is free and wanted by nobody is taken here; `acquire_all_queue.lua` does the rest.
local process, channels, ttl, count = ARGV[1], ARGV[2], ARGV[3], (#KEYS - 1) / 2
local found = redis.call('MGET', unpack(KEYS, 2))
local answers, missing = {}, {}

-- Takes those that are missing. The first write is the counter's: where the server refuses writes, it refuses them before anything
-- is taken.
local function take_missing()
  local fence = next_fence(KEYS[1], '0')
  for n, i in ipairs(missing) do
    local value = ARGV[4 + i] .. ':' .. fence .. ':0:' .. process .. ':' .. ARGV[4]
    if not redis.call('SET', KEYS[2 * i], value, 'NX', 'PX', ttl) then
      -- Data of another type looked like nothing.
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

