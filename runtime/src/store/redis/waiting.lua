
-- The rest of the queue's functions: to join it, to leave it, and to share a lock. They come second because the server makes them anew for each
-- call of a script, which costs more than most of what the script does.

-- What a lock's key carries instead of a token while shares of it are held: `ffff…:n`, n the number of shares there may be at
-- most, 0 for no bound.
local SHARED = string.rep('f', 32)

local function read(queue)
  return as_line(redis.pcall('GET', queue))
end

local function without(line, pool)
  local at = string.find(line, pool, 1, true)
  if at then
    return string.sub(line, 1, at - 1) .. string.sub(line, at + RECORD)
  end
  return line
end

-- Tells the first process of a queue, which keeps its place, that there may be room for it. Returns that process, the queue behind it,
-- and the queue; those that do not hear are taken out.
local function invite(key, queue, line, now, channels, except)
  while true do
    local pool, listens, rest = first(line, now)
    if not pool then
      redis.call('DEL', queue)
      return nil, '', ''
    end
    line = string.sub(line, -(#rest + RECORD))
    if pool == except or not listens or tell(channels .. pool, 't' .. key) > 0 then
      return pool, rest, line
    end
    line = rest
    store(queue, line)
  end
end

-- A key is free: it goes to the first that queues for it, unless that is the process that asks. Returns the key's value and its queue.
local function settle(key, queue, line, process, now, channels)
  local pool, _, rest = first(line, now)
  if pool and pool ~= process then
    if hand_on(key, queue, line, now, channels) then
      return redis.call('GET', key), read(queue)
    end
    return false, ''
  end
  if line ~= '' then
    store(queue, rest)
  end
  return false, rest
end

-- Gives a process a place in a queue, or renews its sign of life there. A holder that is told knows that its turn has an end.
local function enter(key, queue, line, process, place, value, now, channels)
  local at = string.find(line, process, 1, true)
  if at then
    line = string.sub(line, 1, at - 1) .. record(process, place, now) .. string.sub(line, at + RECORD)
  else
    line = line .. record(process, place, now)
  end
  store(queue, line)
  -- Each time: a holder that missed it would pass the lock on among its own calls for long.
  local holder = string.match(value, '^%x+:%d+:%d+:(%x+):')
  if holder then
    tell(channels .. holder, 'w' .. key)
  end
end

-- Whether the holder of a value knows the queue and will hand the key on.
local function knows_queue(value)
  return string.find(value, '^%x+:claim$') or string.find(value, '^%x+:%d+$') or string.find(value, '^%x+:%d+:%d+:%x+:')
end

-- How many shares there may be at most, if the value says that a lock is shared.
local function limit_of(value)
  if value and string.sub(value, 1, 32) == SHARED then
    return tonumber(string.sub(value, 34))
  end
end

-- Removes the shares that have ended; how many are left. The lock's key ends with the last of them.
local function prune(key, shares, now)
  if redis.call('ZREMRANGEBYSCORE', shares, '-inf', string.format('%.0f', now)) > 0 then
    local last = redis.call('ZRANGE', shares, -1, -1, 'WITHSCORES')[2]
    if last then
      redis.call('PEXPIRE', key, string.format('%.0f', last - now))
    end
  end
  local left = redis.call('ZCARD', shares)
  if left == 0 then
    redis.call('DEL', key)
  end
  return left
end
