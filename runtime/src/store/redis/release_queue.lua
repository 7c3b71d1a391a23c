-- The rest of `release.lua`: locks that somebody queues for, and those that are kept.
local function drop(i)
  local key, queue, keep = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i + 1]
  local line = as_line(found[2 * i])
  if keep ~= '' then
    redis.call('PEXPIRE', key, keep)
    -- Not handed on: the first that waits looks now, and sees when to look again.
    local pool, listens = first(line, milliseconds())
    if listens then
      tell(ARGV[1] .. pool, 't' .. key)
    end
  elseif line == '' or not hand_on(key, queue, line, milliseconds(), ARGV[1]) then
    redis.call('DEL', key)
  end
  return 1
end

each(others, answers, drop)
return answers
