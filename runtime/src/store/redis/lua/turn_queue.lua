
-- Continues `turn.lua` for all cases but the common one: for example if the lock is lost, if no
-- process waits, if none took the lock, or if the server refused a command.
local answers, queued = {}, false

local function release()
  if foreign then
    -- The lock was taken away by force, and the holder's body has ended. See `release.lua`.
    if value and string.sub(value, 1, 33) == 'r' .. ARGV[4] then
      if line == '' or not hand_on(key, queue, line, milliseconds(), channels) then
        redis.call('DEL', key)
      end
      value, line = redis.call('GET', key), read(queue)
    end
    return 0
  end
  line = read(queue)
  if line == '' then
    redis.call('DEL', key)
    value = false
    return 1
  end
  local now, behind = milliseconds(), ''
  if place ~= '' and not string.find(line, process, 1, true) then
    behind = record(process, place, now)
  end
  local passed = pass(now, behind)
  if passed and behind ~= '' then
    note_waiter(queue, process, ARGV[7], now)
    queued = passed
    return 1
  end
  if not passed then
    redis.call('DEL', key)
  end
  value, line = redis.call('GET', key), read(queue)
  return 1
end

each({1}, answers, release)
if type(answers[1]) == 'table' then
  found = redis.call('MGET', key, queue)
  value, line = found[1], as_line(found[2], queue)
end
if queued then
  return queued
end
each({2}, answers, function()
  return take(key, queue, value, line, ARGV[5], ARGV[6], ARGV[7], place, more)
end)
return answers
