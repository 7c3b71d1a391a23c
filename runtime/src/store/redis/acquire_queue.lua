-- The rest of `acquire.lua`: locks that somebody has or queues for.
local function take(i)
  local key, queue = KEYS[2 * i], KEYS[2 * i + 1]
  local token, ttl, _, place, spare = unpack(ARGV, 5 * i - 1, 5 * i + 3)
  local value, line = found[2 * i - 1], as_line(found[2 * i])
  if value and string.sub(value, 1, 32) == token then
    redis.call('PEXPIRE', key, ttl)
    local first, reserve = string.match(value, '^%x+:(%d+):(%d+)')
    return {1, first, reserve, #line}
  end
  if limit_of(value) and prune(key, KEYS[2 * count + 1 + i], milliseconds()) == 0 then
    value = false
  end
  if not value then
    -- Fails if there is data of another type.
    redis.call('GET', key)
    if line ~= '' then
      value, line = settle(key, queue, line, process, milliseconds(), channels)
    end
  end
  if value and value ~= process .. ':claim' then
    if place ~= '' then
      enter(key, queue, line, process, place, value, milliseconds(), channels)
    end
    return {0, redis.call('PTTL', key), (place == '+' and knows_queue(value)) and 1 or 0}
  end
  local first = fences(spare)
  redis.call('SET', key, owned(i, first), 'PX', ttl)
  return {1, string.format('%.0f', first), spare, #line}
end

each(others, answers, take)
return answers
