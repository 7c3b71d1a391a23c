-- Answers with the kept result beside a lock. Without a result it takes the lock like
-- `acquire_one.lua`, with the same arguments and guarantees.
--
-- KEYS[1] to KEYS[3] as for `acquire_one.lua`
-- KEYS[4] the results
-- ARGV[1] to ARGV[6] as for `acquire_one.lua`
-- ARGV[7] the function
-- Returns {3, result} if there is a result of the function, else the answer of `acquire_one.lua`.
--
-- Guarantees:
-- - With a result nothing changes: no lock is taken, and the process is not queued. If the process
--   has a place in the queue, or was handed the lock, it must give these up itself.
-- - A result that another script stores is the answer as soon as that script has released the lock.
local kept = redis.call('GET', KEYS[4])
kept = kept and results_in(kept, ARGV[7])
if kept then
  return {3, kept}
end
local KEYS = {KEYS[1], KEYS[2], KEYS[3]}

