-- Removes locks that carry their tokens from a node of a quorum, or lets them expire later.
--
-- KEYS the locks
-- ARGV for each group of locks with the same conditions, in the order of KEYS:
-- - how many ms to keep the locks, or `''`
-- - the number of locks, then the token of each lock
--
-- Returns 1 if all carried their tokens. Otherwise returns for each lock 1, 0, or {-1, error} if
-- the server refused a command.
--
-- No lock may occur twice.
--
-- Guarantees:
-- - A key with another value, of any type, is not touched.
-- - The script works even if the server's memory is full.
-- - A kept key no longer carries its token. So a late request with that token cannot extend the
--   time.
local found = redis.call('MGET', unpack(KEYS))
local answers, gone, keeps, missed = {}, {}, {}, false
local i, at = 0, 1
while i < #KEYS do
  local keep, size = ARGV[at], ARGV[at + 1]
  for token = at + 2, at + 1 + size do
    i = i + 1
    local value = found[i]
    answers[i] = 1
    if not value or string.sub(value, 1, 32) ~= ARGV[token] then
      answers[i], missed = 0, true
      if value and string.sub(value, 1, 33) == 'r' .. ARGV[token] then
        -- The lock was taken away by force, and the holder's body has ended. See `release.lua`.
        gone[#gone + 1] = KEYS[i]
      end
    elseif keep ~= '' then
      keeps[i] = keep
    else
      gone[#gone + 1] = KEYS[i]
    end
  end
  at = at + 2 + size
end
if gone[1] then
  redis.call('DEL', unpack(gone))
end
for i, keep in pairs(keeps) do
  -- `PEXPIRE` comes first because it needs no memory. After a script's first write, a server whose
  -- memory is full accepts further writes.
  local kept = redis.pcall('PEXPIRE', KEYS[i], keep)
  if type(kept) ~= 'table' then
    kept = redis.pcall('SET', KEYS[i], string.rep('0', 32) .. string.sub(found[i], 33), 'PX', keep)
  end
  if type(kept) == 'table' and kept['err'] then
    answers[i], missed = {-1, kept['err']}, true
  end
end
return missed and answers or 1
