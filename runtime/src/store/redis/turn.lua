
-- Ends a process's turn with a lock, and queues for the next: what `release.lua` and then `acquire.lua` would do.
--
-- KEYS[1] the last fence of the namespace; KEYS[2] the lock; KEYS[3] its queue
-- ARGV[1] the process, 32 characters; ARGV[2] prefix of the channels; ARGV[3] how many fences more than one there may be need for;
-- ARGV[4] the token to release; ARGV[5] the token to take the lock with; ARGV[6] ttl in ms; ARGV[7] owner, for people; ARGV[8] `+` or `-`
-- to queue, listening or not, else ``
-- Returns {released, answer} as those two do for one lock.
--
-- Guarantees: theirs. In one script because that is what the process waits for that is next: every command before its message is sent
-- keeps it waiting.
local released, behind = 0, ''
local key, queue, place = KEYS[2], KEYS[3], ARGV[8]
local found = redis.call('MGET', key, queue)
local value, line = found[1], as_line(found[2])

if value and string.sub(value, 1, 32) == ARGV[4] then
  released, value = 1, false
  local now = milliseconds()
  if place ~= '' and not string.find(line, process, 1, true) then
    behind = record(process, place, now)
  end
  if line == '' then
    redis.call('DEL', key)
  elseif not hand_on(key, queue, line, now, channels, behind) then
    redis.call('DEL', key)
    line = read(queue)
  elseif behind ~= '' then
    return {1, {0, CLAIM, place == '+' and 1 or 0}}
  else
    value, line = redis.call('GET', key), read(queue)
  end
end

local answers = {}
each({1}, answers, function()
  return take(key, queue, value, line, ARGV[5], ARGV[6], ARGV[7], place, more)
end)
return {released, answers[1]}
