-- Answers with the result that is kept beside a lock. Without a result it takes the lock as
-- `acquire_one.lua` does, with its arguments and guarantees.
--
-- KEYS[1] to KEYS[3] as for `acquire_one.lua`
-- KEYS[4] the results
-- ARGV[1] to ARGV[6] as for `acquire_one.lua`
-- ARGV[7] the function
-- Returns {3, result} if there is a result of the function, else what `acquire_one.lua` does.
--
-- Guarantees:
-- - With a result nothing is changed: no lock is taken, and the process is not queued. The process
--   gives up by itself a place that it has, and a lock that was handed to it.
-- - A result that another script stores is the answer from the release on that stored it.
local kept = redis.call('GET', KEYS[4])
kept = kept and results_in(kept, ARGV[7])
if kept then
  return {3, kept}
end
local KEYS = {KEYS[1], KEYS[2], KEYS[3]}

