-- Keeps a result beside a lock, and removes the lock like `release_one.lua`, with the same
-- arguments and guarantees.
--
-- KEYS[1] and KEYS[2] as for `release_one.lua`
-- KEYS[3] the kept results
-- ARGV[1] to ARGV[4] as for `release_one.lua`
-- ARGV[5] the result
-- ARGV[6] how many ms to keep the result
-- ARGV[7] the function that returned the result
-- Returns the answer of `release_one.lua`.
--
-- Guarantees:
-- - The result is stored only if the lock carries the token, and in the same step as the release.
--   So no client finds the lock free before the result is stored.
-- - The results of other functions are kept until their own ends.
-- - The script works even if the server's memory is full.
if string.sub(redis.call('GET', KEYS[1]) or '', 1, 32) == ARGV[1] then
  -- `PEXPIRE` comes first because it needs no memory. After a script's first write, a server whose
  -- memory is full accepts further writes. The next fragments remove the lock, or set its time
  -- again.
  redis.call('PEXPIRE', KEYS[1], 1000)
  local kept = redis.pcall('GET', KEYS[3])
  local _, others, last, now = results_in(type(kept) == 'string' and kept or '', ARGV[7])
  local ends = now + ARGV[6]
  local head = string.format('%.0f %d %d ', ends, #ARGV[7], #ARGV[5])
  local stays = string.format('%.0f', math.max(last, ends) - now)
  redis.call('SET', KEYS[3], others .. head .. ARGV[7] .. ARGV[5], 'PX', stays)
end
local KEYS, ARGV = {KEYS[1], KEYS[2]}, {ARGV[1], ARGV[2], ARGV[3], ARGV[4]}

