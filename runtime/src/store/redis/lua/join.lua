-- Takes a share of a lock, or queues for one. A repeated request takes its share again.
--
-- KEYS[1] the lock
-- KEYS[2] the fence counter of the namespace
-- KEYS[3] the lock's queue
-- KEYS[4] its shares
-- ARGV[1] token, 32 characters
-- ARGV[2] ttl in ms
-- ARGV[3] maximum number of shares, 0 for no limit
-- ARGV[4] the process, 32 characters
-- ARGV[5] `+` to queue and listen, `-` to queue without listening, `''` not to queue
-- ARGV[6] prefix of the channels
-- ARGV[7] owner, shown to operators
-- Returns {1, fence, 0, wanted} if the token has a share now, as in `acquire.lua`. Returns
-- {0, ms, queued, owner} if no share is available. The owner is missing or `''` if it is not known.
--
-- Guarantees:
-- - While there is a share, the lock's own key is set, so every client that checks the key finds
--   the lock held. The key expires with the share that lasts longest. No share shortens another.
-- - A call with a limit takes a share only while fewer than ARGV[3] are held. The limits of other
--   calls do not matter. Shares with a limit and shares without one exclude each other.
-- - Each share ends at its own time. Ended shares are removed before the script decides about the
--   request.
-- - A process that comes while other processes queue goes to the end of the queue. Otherwise a
--   stream of readers could keep a writer out.
local now, most = milliseconds(), tonumber(ARGV[3])
local value = redis.call('GET', KEYS[1])
local line = read(KEYS[3])
local limit = limit_of(value)
if limit and prune(KEYS[1], KEYS[4], now) == 0 then
  value, limit = false, nil
end

local function take(fence)
  if not limit then
    -- Shares that remain from a deleted lock do not count.
    redis.call('DEL', KEYS[4])
  end
  -- `ZADD` comes first: if the user lacks the permission for it, the lock stays free.
  redis.call('ZADD', KEYS[4], string.format('%.0f', now + ARGV[2]), ARGV[1])
  redis.call('SET', KEYS[1], SHARED .. ':' .. string.format('%.0f', math.max(limit or 0, most)), 'PX', ARGV[2])
  note_owner(KEYS[3], ARGV[1], fence, ARGV[4], ARGV[7], ARGV[2])
  outlast(KEYS[1], KEYS[4], now)
  return {1, fence, 0, #line}
end

if limit and redis.call('ZSCORE', KEYS[4], ARGV[1]) then
  return take(next_fence(KEYS[2], '0'))
end
local rest = value and 0 or rest_of_pause(KEYS[3], line, now)
if rest > 0 then
  return wait_for_pause(KEYS[1], KEYS[3], line, ARGV[4], ARGV[5], now, ARGV[6], rest, ARGV[7])
end
if not value then
  value, line = settle(KEYS[1], KEYS[3], line, ARGV[4], now, ARGV[6])
end
local room = not value or value == ARGV[4] .. ':claim'
local patience
if limit and (limit == 0) == (most == 0) and (most == 0 or redis.call('ZCARD', KEYS[4]) < most) then
  local ahead, rest, all, keeps = invite(KEYS[1], KEYS[3], line, now, ARGV[6], ARGV[4])
  patience = keeps
  room = not ahead or ahead == ARGV[4]
  line = room and rest or all
  if ahead == ARGV[4] then
    forget_owner(KEYS[3], ARGV[4])
    store(KEYS[3], line)
  end
end
if not room then
  if ARGV[5] ~= '' then
    enter(KEYS[1], KEYS[3], line, ARGV[4], ARGV[5], value, now, ARGV[6], ARGV[7])
  end
  local left = time_left(KEYS[1], value)
  if limit and limit > 0 then
    -- A share becomes available when one held share has ended. If more shares are held than this
    -- call's limit permits, the excess must end, too.
    local over = most > 0 and math.max(redis.call('ZCARD', KEYS[4]) - most, 0) or 0
    left = math.min(left, redis.call('ZRANGE', KEYS[4], over, over, 'WITHSCORES')[2] - now)
  end
  if patience and ARGV[5] ~= '' then
    -- A share also becomes available if the first process in the queue sends no request within
    -- `patience` ms, and so loses its position.
    left = math.min(left, patience)
  end
  local queued = ARGV[5] == '+' and knows_queue(value)
  return {0, string.format('%.0f', left), queued and 1 or 0, owner_in(value)}
end
local reply = take(next_fence(KEYS[2], '0'))
-- A share may be available for the next process as well.
if line ~= '' then
  invite(KEYS[1], KEYS[3], line, now, ARGV[6])
end
return reply
