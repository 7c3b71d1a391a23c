-- Renews shares of locks. If a token has the whole lock, the lock becomes a share.
--
-- KEYS for each lock: its own key, its queue and its shares
-- ARGV[1] prefix of the channels
-- ARGV, then a token and a ttl in ms for each lock
-- Returns for each lock:
-- - 1 if the token has a share, which now lasts the full ttl,
-- - 0 if the token has none,
-- - {-1, error} if the server refused a command. The share may have been renewed or not.
--
-- Guarantees:
-- - An ended share is not revived, and no share shortens another.
-- - A lock that another token has alone is not touched.
-- - While a whole lock becomes a share, no other token can take it.
-- - The script works even if the server's memory is full. A full server refuses commands that need
--   memory, but only until a script's first write. So the first write must need none.
local now = milliseconds()
local locks, kept = {}, {}

-- Turns a lock that `token` has alone into a share. The lock's own key is set last: until then, the
-- lock belongs to the token.
local function downgrade(lock, queue, shares, token, ttl, value)
  redis.call('DEL', shares)
  redis.call('ZADD', shares, string.format('%.0f', now + ttl), token)
  redis.call('PEXPIRE', shares, ttl)
  redis.call('SET', lock, SHARED .. ':0', 'PX', ttl)
  local fence, process, owner = string.match(value, '^%x+:(%d+):%d+:(%x+):(.*)$')
  if fence then
    note_owner(queue, token, fence, process, owner, ttl)
  end
  local line = read(queue)
  if line ~= '' then
    invite(lock, queue, line, now, ARGV[1])
  end
  return 1
end

local function renew(lock, queue, shares, token, ttl)
  local ends = redis.call('ZSCORE', shares, token)
  if not ends or tonumber(ends) <= now then
    return 0
  end
  local left = redis.call('PTTL', lock)
  redis.call('PEXPIRE', shares, math.max(ttl, left))
  redis.call('ZADD', shares, string.format('%.0f', now + ttl), token)
  local known = owner_key(queue, token)
  if known then
    redis.pcall('PEXPIRE', known, ttl)
  end
  if left < ttl then
    redis.call('PEXPIRE', lock, ttl)
  elseif left > ttl then
    outlast(lock, shares, now)
  end
  return 1
end

for i = 1, #KEYS / 3 do
  locks[i] = i
end
each(locks, kept, function(i)
  local lock, queue, shares = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local token, ttl = ARGV[2 * i], tonumber(ARGV[2 * i + 1])
  local value = redis.pcall('GET', lock)
  if type(value) == 'string' and string.sub(value, 1, 32) == token then
    return downgrade(lock, queue, shares, token, ttl, value)
  end
  return type(value) == 'string' and limit_of(value) and renew(lock, queue, shares, token, ttl) or 0
end)
return kept
