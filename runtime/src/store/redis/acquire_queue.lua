-- The rest of `acquire.lua`: somebody has one of the locks, or queues for it.
local found, fence = redis.call('MGET', unpack(KEYS, 2)), nil
local locks, terms, answers = {}, {}, {}
local at = 4
while #locks < #KEYS / 2 - 1 do
  local ttl, owner, place, spare, size = unpack(ARGV, at, at + 4)
  for token = at + 5, at + 4 + size do
    locks[#locks + 1] = #locks + 1
    terms[#locks] = {ARGV[token], ttl, owner, place, spare}
  end
  at = at + 5 + size
end

local function take(i)
  local key, queue = KEYS[2 * i], KEYS[2 * i + 1]
  local token, ttl, owner, place, spare = unpack(terms[i])
  local value, line = found[2 * i - 1], as_line(found[2 * i])
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

each(locks, answers, take)
return answers
