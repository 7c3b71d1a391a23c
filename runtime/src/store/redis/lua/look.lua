
-- Reads the state of a lock, for operators. Changes nothing.
--
-- Returns {now, value, ms, shares, waiters}:
-- - the server's time in ms;
-- - the value of the lock's key: nothing if there is none, `?` if it has data of another type;
-- - the remaining ms of the key, negative if it does not expire;
-- - for each share, its member in the set, its end and its owner's record;
-- - for each process in the queue, its owner's record. A missing record is `''`.
local SHARED, MOST_TOLD = string.rep('f', 32), 1000

-- Returns the record of a share's owner, or of a process in the queue. An `id` that is neither a
-- token nor a process has none.
local function owner_of(queue, id)
  local found = redis.pcall('GET', owner_key(queue, string.match(id, '^%x+$') or ''))
  return type(found) == 'string' and found or ''
end

-- True if a token was taken away by force. Such a token has an `r` in front. `rest` is a pattern
-- for the text after the token.
local function is_revoked(text, rest)
  return string.find(text, '^r' .. string.rep('%x', 32) .. rest)
end

local function look(key, queue, shares)
  local now, value = milliseconds(), redis.pcall('GET', key)
  if type(value) == 'table' then
    if not string.find(value['err'], 'WRONGTYPE', 1, true) then
      redis.call('GET', key)
    end
    value = '?'
  end
  local held, waiters = {}, {}
  if value and string.sub(value, 1, 32) == SHARED and shares ~= key then
    -- Data of another type has no members.
    local found = redis.pcall('ZRANGE', shares, 0, MOST_TOLD - 1, 'WITHSCORES')
    for at = 1, #found, 2 do
      if tonumber(found[at + 1]) > now then
        held[#held + 1] = {found[at], found[at + 1], owner_of(queue, string.sub(found[at], -32))}
      end
    end
  end
  local pool, _, line = first(as_line(redis.pcall('GET', queue), queue), now)
  while pool and #waiters < MOST_TOLD do
    waiters[#waiters + 1] = owner_of(queue, pool)
    pool, _, line = first(line, now)
  end
  return {string.format('%.0f', now), value, redis.call('PTTL', key), held, waiters}
end
