-- Removes a lock: compare and delete.
--
-- KEYS[1] the lock; ARGV[1] token
-- Returns 1 if it carried the token, else 0.
--
-- Guarantees: a key with another value, of whatever type, is not touched.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' and string.sub(value, 1, 32) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
