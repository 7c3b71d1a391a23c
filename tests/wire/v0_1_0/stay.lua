-- Renews shares of locks, and makes shares of locks that their tokens have alone.
--
-- KEYS a lock, its queue and its shares, for each; ARGV[1] prefix of the channels, then a token and a ttl in ms for each
-- Returns, for each, 1 if the token has a share and keeps it for its ttl from now, else 0.
--
-- Guarantees: a share that has ended is not given again, no share shortens another, and a lock that another has alone is not
-- touched. Between having a lock alone and having a share of it there is no moment in which another could take it.
local now = milliseconds()
local kept = {}
for i = 1, #KEYS / 3 do
  local lock, queue, shares = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local token, ttl = ARGV[2 * i], tonumber(ARGV[2 * i + 1])
  local ends = string.format('%.0f', now + ttl)
  local value = redis.pcall('GET', lock)
  kept[i] = 0
  if type(value) == 'string' and string.sub(value, 1, 32) == token then
    redis.call('DEL', shares)
    redis.call('SET', lock, SHARED .. ':0', 'PX', ttl)
    redis.call('ZADD', shares, ends, token)
    redis.call('PEXPIRE', shares, ttl)
    local line = read(queue)
    if line ~= '' then
      invite(lock, queue, line, now, ARGV[1])
    end
    kept[i] = 1
  elseif type(value) == 'string' and limit_of(value) then
    local before = redis.call('ZSCORE', shares, token)
    if before and tonumber(before) > now then
      redis.call('ZADD', shares, ends, token)
      if redis.call('PTTL', lock) < ttl then
        redis.call('PEXPIRE', lock, ttl)
        redis.call('PEXPIRE', shares, ttl)
      end
      kept[i] = 1
    end
  end
end
return kept
