-- Returns the result kept beside a lock. If there is none, takes the lock like `acquire_one.lua`,
-- with the same arguments and guarantees.
--
-- KEYS[1] to KEYS[3] as for `acquire_one.lua`
-- KEYS[4] the kept results
-- ARGV[1] to ARGV[6] as for `acquire_one.lua`
-- ARGV[7] the function whose result is requested
-- Returns {3, result} if there is a result of the function. Otherwise returns the answer of
-- `acquire_one.lua`.
--
-- Guarantees:
-- - If there is a result, nothing changes: no lock is taken, and the process is not queued. If the
--   process already queues, or was handed the lock, it must give that up with `leave.lua`.
-- - A result that `record.lua` stores is the answer as soon as the lock is released.
local kept = redis.call('GET', KEYS[4])
kept = kept and results_in(kept, ARGV[7])
if kept then
  return {3, kept}
end
local KEYS = {KEYS[1], KEYS[2], KEYS[3]}

