
-- Takes a lock away from all its holders.
--
-- KEYS[1] the lock
-- KEYS[2] its queue
-- KEYS[3] its shares
-- ARGV[1] prefix of the channels
-- ARGV[2] server time in ms after which the script only returns an error
-- Returns the answer of `look.lua` for the state before the script.
--
-- Guarantees:
-- - No later renewal finds the token, so no holder keeps its lease.
-- - If the holder's process gets the message, other clients stay locked out until the holder
--   releases the lock. This takes at most GRACE ms, and never longer than the lease. Meanwhile the
--   token in the value has an `r` in front, which the release scripts recognize.
-- - Otherwise the lock is free at once, or goes to the first process that queues.
-- - A second run does not change a lock that is already being taken away.
-- - A request that was held up on its way does not take the lock from a later holder.
-- - The script works even if the server's memory is full.
local GRACE = 3000
local key, queue, shares = KEYS[1], KEYS[2], KEYS[3]
local was = look(key, queue, shares)
local now, value, ms = tonumber(was[1]), was[2], was[3]
if tonumber(ARGV[2]) < now then
  return redis.error_reply('LATE a forced release')
end

-- Notifies the process of a holder. Returns true if the process may have received the message.
-- `rest` is the text after the token in a value.
local function told(token, rest)
  local process = string.match(rest, '^:?%d+:%d+:(%x+):')
  return process and tell(ARGV[1] .. process, 'r' .. string.sub(token, -16) .. key) > 0
end

local function give()
  local line = as_line(redis.pcall('GET', queue), queue)
  if line == '' or not hand_on(key, queue, line, now, ARGV[1]) then
    redis.call('DEL', key)
  end
end

local function revoke_shares()
  local found = redis.pcall('ZRANGE', shares, 0, -1, 'WITHSCORES')
  if found['err'] then
    -- The key of the shares has data of another type. Until its removal, no share can be taken or
    -- renewed.
    redis.call('DEL', shares)
  end
  for at = 1, #found, 2 do
    local member, ends = found[at], math.min(tonumber(found[at + 1]), now + GRACE)
    if not is_revoked(member, '$') then
      -- `ZREM` comes first because it needs no memory. After a script's first write, a server whose
      -- memory is full accepts further writes.
      redis.call('ZREM', shares, member)
      if #member == 32 and told(member, owner_of(queue, member)) then
        redis.call('ZADD', shares, string.format('%.0f', ends), 'r' .. member)
      end
    end
  end
  if prune(key, shares, now) == 0 then
    give()
  else
    outlast(key, shares, now)
  end
end

if not value or is_revoked(value, ':%d+:%d+:%x+:') then
  return was
end
if string.sub(value, 1, 32) == SHARED then
  revoke_shares()
elseif string.find(value, '^%x+:%d+:%d+:%x+:') and string.sub(value, 1, 32) ~= string.rep('0', 32)
  and told(string.sub(value, 1, 32), string.sub(value, 33)) then
  local left = math.max(math.min(ms, GRACE), 1)
  redis.call('PEXPIRE', key, left)
  redis.call('SET', key, 'r' .. value, 'PX', left)
else
  give()
end
return was
