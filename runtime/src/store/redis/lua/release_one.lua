-- Removes one lock like `release.lua`, with the same guarantees. It takes 5.4 us of a server's time
-- instead of 7.3.
--
-- KEYS[1] the lock
-- KEYS[2] its queue
-- ARGV[1] the token
-- ARGV[2] how many ms to keep the lock; `0` to leave it free for clients without a queue; or `''`
-- ARGV[3] prefix of the channels
-- ARGV[4] ms of unbroken use after which the lock is left free for clients without a queue, or `''`
-- Returns 1 if the lock carried its token, 0 if it did not, or a list of one answer of
-- `release.lua`.
local found = redis.call('MGET', KEYS[1], KEYS[2])
local value = found[1]
if not value or string.sub(value, 1, 32) ~= ARGV[1] then
  if not value or string.sub(value, 1, 33) ~= 'r' .. ARGV[1] then
    return 0
  end
elseif not found[2] and ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
  return 1
end
local revoked = {string.sub(value, 1, 33) == 'r' .. ARGV[1]}
local answers, others, keeps = {}, {1}, {revoked[1] and '' or ARGV[2]}
local ARGV = {ARGV[3], ARGV[4]}

