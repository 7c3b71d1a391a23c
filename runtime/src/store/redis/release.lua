-- Removes locks, compare and delete; where processes queue for one, the first of them gets it. Or lets them expire later.
--
-- KEYS each lock with its queue; ARGV[1] prefix of the channels; then for each lock: token; for how long to keep the lock, in ms, or ``
-- Returns for each 1 if it carried the token, else 0, and {-1, error} if the server refused a command. No lock may be named twice.
--
-- Guarantees: a key with another value, of whatever type, is not touched; it works when memory is full.
--
-- What nobody queues for is removed here; `release_queue.lua` does the rest.
local found = redis.call('MGET', unpack(KEYS))
local answers, others, gone = {}, {}, {}
for i = 1, #KEYS / 2 do
  local value, token = found[2 * i - 1], ARGV[2 * i]
  if not value or string.sub(value, 1, 32) ~= token then
    answers[i] = 0
  elseif found[2 * i] or ARGV[2 * i + 1] ~= '' then
    others[#others + 1] = i
  else
    answers[i] = 1
    gone[#gone + 1] = KEYS[2 * i - 1]
  end
end
if gone[1] then
  redis.call('DEL', unpack(gone))
end
if not others[1] then
  return answers
end

