-- Takes locks, or takes them again, or queues for them: each as if it had been asked for alone.
--
-- KEYS[1] the last fence of the namespace; then each lock with its queue; then the shares of each lock
-- ARGV[1] the process, 32 characters; ARGV[2] prefix of the channels; then for each lock: token, 32 characters; ttl in ms; owner, for
-- people; `+` or `-` to queue, listening or not, else ``; fences to keep in reserve
-- Returns for each {1, fence, reserve, wanted} if the lock carries the token now, {0, pttl, queued} if it does not, and {-1, error}
-- if the server refused a command. No lock may be named twice.
--
-- Guarantees:
-- - A key with another value, of whatever client and type, is not touched, except one that was handed to this process.
-- - With the same token it succeeds again, with the same fences and the full ttl: a retry after a lost
--   reply is not refused by its own earlier attempt.
-- - The fences are greater than every earlier one of the namespace, as long as either the counter or the
--   server's clock was kept: max(last + 1, now in microseconds).
-- - A key that is free goes to the first process that queues for it, and only then to one that comes.
-- - A key of which shares are held is not free before the last of them has ended.
-- The value is `token:fence:reserve:process:owner`; to other clients it is opaque.
local process, channels, count = ARGV[1], ARGV[2], (#KEYS - 1) / 3
-- Data of another type looks like nothing here.
local found = redis.call('MGET', unpack(KEYS, 2, 2 * count + 1))
local fence

-- The counter is ahead of all that are still to be taken before the first of them is.
local function fences(i, spare)
  if not fence then
    local others = 0
    for lock = i + 1, count do
      others = others + 1 + ARGV[5 * lock + 2]
    end
    fence = tonumber(next_fence(KEYS[1], spare + others))
  end
  local mine = string.format('%.0f', fence)
  fence = fence + 1 + spare
  return mine
end

local function take(i)
  local key, queue = KEYS[2 * i], KEYS[2 * i + 1]
  local token, ttl, owner, place, spare = unpack(ARGV, 5 * i - 2, 5 * i + 2)
  local value, line = found[2 * i - 1], as_line(found[2 * i])
  if value and string.sub(value, 1, 32) == token then
    redis.call('PEXPIRE', key, ttl)
    local first, reserve = string.match(value, '^%x+:(%d+):(%d+)')
    return {1, first, reserve, #line}
  end
  if limit_of(value) and prune(key, KEYS[2 * count + 1 + i], milliseconds()) == 0 then
    value = false
  end
  if not value and line ~= '' then
    -- Fails if there is data of another type.
    redis.call('GET', key)
    value, line = settle(key, queue, line, process, milliseconds(), channels)
  end
  if value and value ~= process .. ':claim' then
    if place ~= '' then
      enter(key, queue, line, process, place, value, milliseconds(), channels)
    end
    return {0, redis.call('PTTL', key), (place == '+' and knows_queue(value)) and 1 or 0}
  end
  local first = fences(i, spare)
  local taken = table.concat({token, first, spare, process, owner}, ':')
  if value then
    redis.call('SET', key, taken, 'PX', ttl)
  elseif not redis.call('SET', key, taken, 'NX', 'PX', ttl) then
    redis.call('GET', key)
  end
  return {1, first, spare, #line}
end

return each(count, take)
