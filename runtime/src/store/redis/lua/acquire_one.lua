
-- Takes one lock like `acquire.lua`, with the same guarantees. With fewer arguments and steps, it
-- takes 11.1 us of a server's time instead of 12.9 (`evalsha` in `INFO commandstats`, Redis 7.0).
--
-- KEYS[1] the fence counter of the namespace
-- KEYS[2] the lock
-- KEYS[3] its queue
-- ARGV[1] the token, 32 characters
-- ARGV[2] ttl in ms
-- ARGV[3] reserved fences
-- ARGV[4] the end of the value, `process:owner`
-- ARGV[5] `+` to queue and listen, `-` to queue without listening, `''` not to queue
-- ARGV[6] prefix of the channels
-- Returns the same answers as `acquire.lua`, but a refused `SET` is an error of the script.
if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
  local fence = next_fence(KEYS[1], ARGV[3])
  redis.call('SET', KEYS[2], ARGV[1] .. ':' .. fence .. ':' .. ARGV[3] .. ':' .. ARGV[4], 'PX', ARGV[2])
  return fence
end

-- The next fragments are those of `acquire.lua`. They need its arguments, for one group of one
-- lock.
local ARGV = {
  string.sub(ARGV[4], 1, 32), ARGV[6], ARGV[3],
  ARGV[2], string.sub(ARGV[4], 34), ARGV[5], ARGV[3], 1, ARGV[1],
}
local process, channels, more = ARGV[1], ARGV[2], ARGV[3]
