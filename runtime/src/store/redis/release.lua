-- Removes a lock, compare and delete; if processes queue for it, the first of them gets it.
--
-- KEYS[1] the lock; KEYS[2] the lock's queue; ARGV[1] token; ARGV[2] prefix of the channels
-- Returns 1 if it carried the token, else 0.
--
-- Guarantees: a key with another value, of whatever type, is not touched; it works when memory is full.
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' or string.sub(value, 1, 32) ~= ARGV[1] then
  return 0
end
local line = redis.call('GET', KEYS[2])
if not line or not hand_on(KEYS[1], KEYS[2], line, milliseconds(), ARGV[2]) then
  redis.call('DEL', KEYS[1])
end
return 1
