-- Renews shares of locks, and makes shares of locks that their tokens have alone.
--
-- KEYS a lock, its queue and its shares, for each; ARGV[1] prefix of the channels, then a token and a ttl in ms for each
-- Returns, for each, 1 if the token has a share and keeps it for its ttl from now, 0 if it has none, and {-1, error} if the server refused
-- a command: then the share may have been renewed or not.
--
-- Guarantees: a share that has ended is not given again, no share shortens another, and a lock that another has alone is not
-- touched. Between having a lock alone and having a share of it there is no moment in which another could take it. It works when memory
-- is full: a server looks at its memory until the first write of a script, so that is one that needs none.
local now = milliseconds()
local locks, kept = {}, {}

-- The lock of a token that has it alone becomes a share. The lock's own key comes last: until then it is the token's.
local function downgrade(lock, queue, shares, token, ttl)
  redis.call('DEL', shares)
  redis.call('ZADD', shares, string.format('%.0f', now + ttl), token)
  redis.call('PEXPIRE', shares, ttl)
  redis.call('SET', lock, SHARED .. ':0', 'PX', ttl)
  local line = read(queue)
  if line ~= '' then
    invite(lock, queue, line, now, ARGV[1])
  end
  return 1
end

local function renew(lock, shares, token, ttl)
  local ends = redis.call('ZSCORE', shares, token)
  if not ends or tonumber(ends) <= now then
    return 0
  end
  local left = redis.call('PTTL', lock)
  redis.call('PEXPIRE', shares, math.max(ttl, left))
  redis.call('ZADD', shares, string.format('%.0f', now + ttl), token)
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
    return downgrade(lock, queue, shares, token, ttl)
  end
  return type(value) == 'string' and limit_of(value) and renew(lock, shares, token, ttl) or 0
end)
return kept
