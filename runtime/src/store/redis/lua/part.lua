-- Gives a share of a lock back; if it was the last, the first process that queues for the lock gets it.
--
-- KEYS[1] the lock; KEYS[2] the lock's queue; KEYS[3] its shares; ARGV[1] token; ARGV[2] prefix of the channels
-- Returns 1 if the token had a share, or all of the lock because it had not become a share yet; else 0.
--
-- Guarantees: other shares, and a lock that another has alone, are not touched.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' and string.sub(value, 1, 32) == ARGV[1] then
  local line = read(KEYS[2])
  if line == '' or not hand_on(KEYS[1], KEYS[2], line, milliseconds(), ARGV[2]) then
    redis.call('DEL', KEYS[1])
  end
  return 1
end
local found = redis.call('ZREM', KEYS[3], ARGV[1])
if found == 0 or type(value) ~= 'string' or not limit_of(value) then
  return 0
end
local now = milliseconds()
local line = read(KEYS[2])
if prune(KEYS[1], KEYS[3], now) == 0 then
  if line ~= '' then
    hand_on(KEYS[1], KEYS[2], line, now, ARGV[2])
  end
else
  outlast(KEYS[1], KEYS[3], now)
  if line ~= '' then
    invite(KEYS[1], KEYS[2], line, now, ARGV[2])
  end
end
return 1
