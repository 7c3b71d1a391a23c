-- Renews shares of locks.
--
-- KEYS a lock and its shares, for each; ARGV a token and a ttl in ms for each
-- Returns, for each, 1 if the token has a share and keeps it for its ttl from now, else 0.
--
-- Guarantees: a share that has ended is not given again, no share shortens another, and a lock that is not shared is not touched.
local now = milliseconds()
local kept = {}
for i = 1, #KEYS / 2 do
  local lock, shares = KEYS[2 * i - 1], KEYS[2 * i]
  local token, ttl = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local value = redis.pcall('GET', lock)
  local ends = redis.call('ZSCORE', shares, token)
  kept[i] = 0
  if type(value) == 'string' and limit_of(value) and ends and tonumber(ends) > now then
    redis.call('ZADD', shares, string.format('%.0f', now + ttl), token)
    if redis.call('PTTL', lock) < ttl then
      redis.call('PEXPIRE', lock, ttl)
      redis.call('PEXPIRE', shares, ttl)
    end
    kept[i] = 1
  end
end
return kept
