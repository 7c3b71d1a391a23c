-- Continues `acquire_all.lua` if a lock is held, or a process queues for one.
missing = {}
for i = 1, count do
  local key, queue = KEYS[2 * i], KEYS[2 * i + 1]
  local value, line = found[2 * i - 1], as_line(found[2 * i], queue)
  if value and string.sub(value, 1, 32) == ARGV[4 + i] then
    local fence, reserve = string.match(value, '^%x+:(%d+):(%d+)')
    answers[i] = {1, fence, reserve, #line}
  else
    if not value and line ~= '' then
      -- Fails if the key has data of another type.
      redis.call('GET', key)
      local now = milliseconds()
      local rest = rest_of_pause(queue, line, now)
      if rest > 0 then
        return {0, i, rest}
      end
      value = settle(key, queue, line, process, now, channels)
    end
    if value then
      return {0, i, time_left(key, value), owner_in(value)}
    end
    missing[#missing + 1] = i
  end
end
if missing[1] then
  take_missing()
end
for i = 1, count do
  if type(answers[i]) == 'table' then
    redis.call('PEXPIRE', KEYS[2 * i], ttl)
  end
end
return {1, answers}
