-- Takes a lock, or takes it again, or queues for it.
--
-- KEYS[1] the lock; KEYS[2] the last fence of the namespace; KEYS[3] the lock's queue
-- ARGV[1] token, 32 characters; ARGV[2] ttl in ms; ARGV[3] owner, for people; ARGV[4] the process, 32 characters;
-- ARGV[5] `+` or `-` to queue, listening or not, else ``; ARGV[6] fences to keep in reserve; ARGV[7] prefix of the channels
-- Returns {1, fence, reserve, wanted} if the lock carries the token now, else {0, pttl, queued}.
--
-- Guarantees:
-- - A key with another value, of whatever client, is not touched, except one that was handed to this process.
-- - With the same token it succeeds again, with the same fences and the full ttl: a retry after a lost
--   reply is not refused by its own earlier attempt.
-- - The fences are greater than every earlier one of the namespace, as long as either the counter or the
--   server's clock was kept: max(last + 1, now in microseconds).
-- - A key that is free goes to the first process that queues for it, and only then to one that comes.
-- The value is `token:fence:reserve:process:owner`; to other clients it is opaque.
local value = redis.call('GET', KEYS[1])
local line = redis.call('GET', KEYS[3]) or ''
if value and string.sub(value, 1, 32) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  local fence, reserve = string.match(value, '^%x+:(%d+):(%d+)')
  return {1, fence, reserve, #line}
end
if value ~= ARGV[4] .. ':claim' then
  if not value and line ~= '' then
    local now = milliseconds()
    local pool, _, rest = first(line, now)
    if pool and pool ~= ARGV[4] then
      if hand_on(KEYS[1], KEYS[3], line, now, ARGV[7]) then
        value = redis.call('GET', KEYS[1])
        line = redis.call('GET', KEYS[3]) or ''
      else
        line = ''
      end
    else
      line = rest
      store(KEYS[3], line)
    end
  end
  if value then
    if ARGV[5] ~= '' then
      local at = string.find(line, ARGV[4], 1, true)
      local record = ARGV[4] .. ARGV[5] .. string.format('%013.0f', milliseconds())
      if at then
        line = string.sub(line, 1, at - 1) .. record .. string.sub(line, at + RECORD)
      else
        line = line .. record
        local holder = string.match(value, '^%x+:%d+:%d+:(%x+):')
        if holder then
          tell(ARGV[7] .. holder, 'w' .. KEYS[1])
        end
      end
      store(KEYS[3], line)
    end
    -- Only a holder that knows the queue will hand the key on.
    local known = string.find(value, '^%x+:claim$') or string.find(value, '^%x+:%d+:%d+:%x+:')
    return {0, redis.call('PTTL', KEYS[1]), (known and ARGV[5] == '+') and 1 or 0}
  end
end
local time = redis.call('TIME')
local fence = time[1] * 1000000 + time[2]
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
if fence <= last then
  fence = last + 1
end
-- `tostring` would give 1.758e+15.
redis.call('SET', KEYS[2], string.format('%.0f', fence + ARGV[6]))
fence = string.format('%.0f', fence)
redis.call('SET', KEYS[1], table.concat({ARGV[1], fence, ARGV[6], ARGV[4], ARGV[3]}, ':'), 'PX', ARGV[2])
return {1, fence, ARGV[6], #line}
