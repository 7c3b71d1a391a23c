
-- One lock for a token, as `acquire.lua` promises it; `value` and `line` are what was found of it and of its queue.
local process, channels, more, fence = ARGV[1], ARGV[2], ARGV[3], nil
local function take(key, queue, value, line, token, ttl, owner, place, spare)
  if value and string.sub(value, 1, 32) == token then
    redis.call('PEXPIRE', key, ttl)
    local first, reserve = string.match(value, '^%x+:(%d+):(%d+)')
    return {1, first, reserve, #line}
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
  fence = fence or next_fence(KEYS[1], more)
  redis.call('SET', key, token .. ':' .. fence .. ':' .. spare .. ':' .. process .. ':' .. owner, 'PX', ttl)
  return {1, fence, spare, #line}
end
