-- Gives up a share of a lock, at once or after a while. When the last share is gone, the first
-- process that queues for the lock gets it.
--
-- KEYS[1] the lock
-- KEYS[2] the lock's queue
-- KEYS[3] its shares
-- ARGV[1] token
-- ARGV[2] prefix of the channels
-- ARGV[3] how many ms to keep the share, or `''`
-- Returns 1 if the token had a share, or the whole lock because no renewal had made it a share yet.
-- Otherwise returns 0.
--
-- Guarantees:
-- - Other shares are not touched. A lock that another token has alone is not touched either.
-- - The script works even if the server's memory is full.
-- - A kept share no longer belongs to its token. So a late request with that token cannot extend
--   the time.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' and string.sub(value, 1, 32) == ARGV[1] then
  local line, now = read(KEYS[2]), milliseconds()
  if ARGV[3] ~= '' then
    -- The same steps as in `release_queue.lua`.
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    redis.call('SET', KEYS[1], string.rep('0', 32) .. string.sub(value, 33), 'PX', ARGV[3])
    local pool, listens = first(line, now)
    if listens then
      tell(ARGV[2] .. pool, 't' .. KEYS[1])
    end
  elseif line == '' or not hand_on(KEYS[1], KEYS[2], line, now, ARGV[2]) then
    redis.call('DEL', KEYS[1])
  end
  return 1
end
local now, line = milliseconds(), read(KEYS[2])
if type(value) == 'string' and string.sub(value, 1, 33) == 'r' .. ARGV[1] then
  -- The lock was taken away by force, and the holder's body has ended. See `release.lua`.
  if line == '' or not hand_on(KEYS[1], KEYS[2], line, now, ARGV[2]) then
    redis.call('DEL', KEYS[1])
  end
  return 0
end
local found = redis.call('ZREM', KEYS[3], ARGV[1])
local revoked = found == 0 and redis.call('ZREM', KEYS[3], 'r' .. ARGV[1]) == 1
if found == 0 and not revoked or type(value) ~= 'string' or not limit_of(value) then
  return 0
end
if ARGV[3] ~= '' and not revoked then
  -- `ZADD` comes after `ZREM`, which needs no memory. After a script's first write, a server whose
  -- memory is full accepts further writes.
  redis.call('ZADD', KEYS[3], string.format('%.0f', now + ARGV[3]), 'kept:' .. ARGV[1])
  local known = owner_key(KEYS[2], ARGV[1])
  if known then
    redis.pcall('PEXPIRE', known, ARGV[3])
  end
else
  forget_owner(KEYS[2], ARGV[1])
end
if prune(KEYS[1], KEYS[3], now) == 0 then
  if line ~= '' then
    hand_on(KEYS[1], KEYS[2], line, now, ARGV[2])
  end
else
  outlast(KEYS[1], KEYS[3], now)
  if line ~= '' then
    invite(KEYS[1], KEYS[2], line, now, ARGV[2])
  end
end
return revoked and 0 or 1
