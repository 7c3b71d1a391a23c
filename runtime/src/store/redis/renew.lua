-- Renews leases.
--
-- KEYS the locks; ARGV a token and a ttl in ms for each
-- Returns, for each, 1 if it carried its token and lives its ttl from now, else 0.
--
-- Guarantees: a key that is gone is not created, a key with another value is not touched, and it works
-- when memory is full, because PEXPIRE needs none.
local kept, values = {}, redis.call('MGET', unpack(KEYS))
for i, key in ipairs(KEYS) do
  local value = values[i]
  if value and string.sub(value, 1, 32) == ARGV[2 * i - 1] then
    kept[i] = redis.call('PEXPIRE', key, ARGV[2 * i])
  else
    kept[i] = 0
  end
end
return kept
