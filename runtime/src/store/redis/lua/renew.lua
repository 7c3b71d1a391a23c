-- Renews the leases of locks.
--
-- KEYS the locks
-- ARGV for each group of locks with the same ttl, in the order of KEYS:
-- - ttl in ms
-- - the number of locks, then the token of each lock
--
-- Returns 1 if all carried their tokens; each then has its ttl from now. Otherwise returns 1 or 0
-- for each lock.
--
-- Guarantees:
-- - A missing key is not created.
-- - A key with another value is not touched.
-- - The script works even if the server's memory is full, because PEXPIRE needs none.
local kept, missed, values = {}, false, redis.call('MGET', unpack(KEYS))
local i, at = 0, 1
while i < #KEYS do
  local ttl, size = ARGV[at], ARGV[at + 1]
  for token = at + 2, at + 1 + size do
    i = i + 1
    local value = values[i]
    if value and string.sub(value, 1, 32) == ARGV[token] then
      kept[i] = redis.call('PEXPIRE', KEYS[i], ttl)
    else
      kept[i] = 0
    end
    missed = missed or kept[i] == 0
  end
  at = at + 2 + size
end
return missed and kept or 1
