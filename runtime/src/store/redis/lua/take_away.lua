
-- Takes a lock away from all its holders.
--
-- KEYS[1] the lock
-- KEYS[2] its queue
-- KEYS[3] its shares
-- ARGV[1] prefix of the channels
-- Returns the answer of `look.lua` for the moment before.
--
-- Guarantees:
-- - No renewal finds the token afterwards, so no holder keeps its lease.
-- - If the holder's process gets the message, the holder keeps other clients out until it releases.
--   It does so for GRACE ms at most, and never beyond its lease. The release scripts know a token
--   with an `r` in front.
-- - Otherwise the lock is free at once, or goes to the first process that queues.
-- - A second run changes nothing more.
-- - The script works when memory is full.
local GRACE = 3000
local key, queue, shares = KEYS[1], KEYS[2], KEYS[3]
local was = look(key, queue, shares)
local now, value, ms = tonumber(was[1]), was[2], was[3]

-- Notifies the process of a holder. Returns true if it may have received the message. `rest` is the
-- text after the token in a value.
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
    -- Data of another type: no share can be taken or renewed while it is there.
    redis.call('DEL', shares)
  end
  for at = 1, #found, 2 do
    local member, ends = found[at], math.min(found[at + 1], now + GRACE)
    if not is_revoked(member, '$') then
      -- The removal is first: it needs no memory, and after it a full server accepts the rest.
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
