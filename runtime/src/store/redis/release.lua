-- Removes locks, compare and delete; where processes queue for one, the first of them gets it. Or lets them expire later.
--
-- KEYS each lock with its queue; ARGV[1] prefix of the channels; then for each lock: token; for how long to keep the lock, in ms, or ``
-- Returns for each 1 if it carried the token, else 0, and {-1, error} if the server refused a command. No lock may be named twice.
--
-- Guarantees: a key with another value, of whatever type, is not touched; it works when memory is full.
local channels, found, gone = ARGV[1], redis.call('MGET', unpack(KEYS)), {}

local function drop(i)
  local key, queue, token, keep = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i], ARGV[2 * i + 1]
  local value, line = found[2 * i - 1], as_line(found[2 * i])
  if not value or string.sub(value, 1, 32) ~= token then
    return 0
  end
  if keep ~= '' then
    redis.call('PEXPIRE', key, keep)
    -- Not handed on: the first that waits looks now, and sees when to look again.
    local pool, listens = first(line, milliseconds())
    if listens then
      tell(channels .. pool, 't' .. key)
    end
  elseif line == '' or not hand_on(key, queue, line, milliseconds(), channels) then
    gone[#gone + 1] = key
  end
  return 1
end

local answers = each(#KEYS / 2, drop)
if gone[1] then
  redis.call('DEL', unpack(gone))
end
return answers
