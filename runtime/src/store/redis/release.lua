-- Removes a lock, compare and delete; if processes queue for it, the first of them gets it. Or lets it expire later.
--
-- KEYS[1] the lock; KEYS[2] the lock's queue; ARGV[1] token; ARGV[2] prefix of the channels;
-- ARGV[3] for how long to keep the lock, in ms, if at all
-- Returns 1 if it carried the token, else 0.
--
-- Guarantees: a key with another value, of whatever type, is not touched; it works when memory is full.
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' or string.sub(value, 1, 32) ~= ARGV[1] then
  return 0
end
local line = read(KEYS[2])
if ARGV[3] then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  -- Not handed on: the first that waits looks now, and sees when to look again.
  local pool, listens = first(line, milliseconds())
  if listens then
    tell(ARGV[2] .. pool, 't' .. KEYS[1])
  end
  return 1
end
if line == '' or not hand_on(KEYS[1], KEYS[2], line, milliseconds(), ARGV[2]) then
  redis.call('DEL', KEYS[1])
end
return 1
