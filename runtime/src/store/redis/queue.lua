-- The queue of processes for one key, shared by the scripts that follow.
--
-- It is one string of records, oldest first: 32 characters that name the process, `+` if it listens for its turn or `-` if it only
-- looks again from time to time, and 13 digits, the server's time in ms when it last asked. A string, so that taking and
-- releasing a lock for which nobody queues costs one key more to look at and no other kind of data.
--
-- Guarantees:
-- - A process keeps its place as long as it asks at least every FORGOTTEN ms.
-- - A key is handed on with a claim that expires: a process that died costs at most CLAIM ms. One that listens and whose
--   connection is closed costs nothing.
-- - The string expires with its last sign of life.
local RECORD, CLAIM, FORGOTTEN = 46, 1000, 3000

-- What a lock's key carries instead of a token while shares of it are held: `ffff…:n`, n the number of shares there may be at
-- most, 0 for no bound.
local SHARED = string.rep('f', 32)

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Something that is not made of records is no queue, and must not keep a lock from being released or waited for.
local function as_line(text)
  if type(text) == 'string' and #text % RECORD == 0 and not string.find(text, '[^%x+-]') then
    return text
  end
  return ''
end

local function read(queue)
  return as_line(redis.pcall('GET', queue))
end

local function store(queue, line)
  if line == '' then
    redis.call('DEL', queue)
  else
    -- Refused when memory is full: then the queue stays as it was, and who waits looks again by itself.
    redis.pcall('SET', queue, line, 'PX', FORGOTTEN)
  end
end

-- The first process that has shown a sign of life, whether it listens, and the rest of the line.
local function first(line, now)
  while #line >= RECORD do
    local pool, listens = string.sub(line, 1, 32), string.sub(line, 33, 33) == '+'
    -- Digits and nothing else: `1e+173` would be a number, too.
    local seen = tonumber(string.match(string.sub(line, 34, RECORD), '^%d+$'))
    line = string.sub(line, RECORD + 1)
    if seen and now - seen <= FORGOTTEN then
      return pool, listens, line
    end
  end
  return nil, false, ''
end

local function without(line, pool)
  local at = string.find(line, pool, 1, true)
  if at then
    return string.sub(line, 1, at - 1) .. string.sub(line, at + RECORD)
  end
  return line
end

-- Tells a process; how many heard it. Without the permission to publish there is no knowing, and it looks again by itself.
local function tell(channel, message)
  local heard = redis.pcall('PUBLISH', channel, message)
  return type(heard) == 'number' and heard or 1
end

-- How a process stands in a queue.
local function record(process, place, now)
  return process .. place .. string.format('%013.0f', now)
end

-- Hands a key to the first process of its queue, and puts `behind` at the queue's end; false if nobody takes it, or if the server refused to
-- set the key: then the queue may have changed or not.
local function hand_on(key, queue, line, now, channels, behind)
  local pool, listens
  repeat
    pool, listens, line = first(line, now)
    if pool and (not listens or tell(channels .. pool, 't' .. key) > 0) then
      local set = redis.pcall('SET', key, pool .. ':claim', 'PX', CLAIM)
      line = line .. (behind or '')
      store(queue, line)
      return not set['err']
    end
  until not pool
  redis.call('DEL', queue)
  return false
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

-- Does `one` for each lock of `list` and notes what it returns, or {-1, error} if the server refused a command. What fails for one
-- lock does not keep the others from theirs.
local function each(list, answers, one)
  for _, i in ipairs(list) do
    local done, answer = pcall(one, i)
    answers[i] = done and answer or {-1, type(answer) == 'table' and answer['err'] or tostring(answer)}
  end
end
