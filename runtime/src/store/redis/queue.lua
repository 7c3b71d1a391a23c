-- The queue of processes for one key, shared by the scripts that follow.
--
-- It is one string of records, oldest first: 32 characters that name the process, `+` if it listens for its turn or `-` if it only
-- looks again from time to time, and 13 digits, the server's time in ms when it last asked. A string, so that taking and
-- releasing a lock for which nobody queues costs one GET more and no other kind of data.
--
-- Guarantees:
-- - A process keeps its place as long as it asks at least every FORGOTTEN ms.
-- - A key is handed on with a claim that expires: a process that died costs at most CLAIM ms. One that listens and whose
--   connection is closed costs nothing.
-- - The string expires with its last sign of life.
local RECORD, CLAIM, FORGOTTEN = 46, 1000, 3000

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
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
    local seen = tonumber(string.sub(line, 34, RECORD))
    line = string.sub(line, RECORD + 1)
    if now - seen <= FORGOTTEN then
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

-- Hands a key to the first process of its queue; false if nobody takes it.
local function hand_on(key, queue, line, now, channels)
  local pool, listens
  repeat
    pool, listens, line = first(line, now)
    if pool and (not listens or tell(channels .. pool, 't' .. key) > 0) then
      local set = redis.pcall('SET', key, pool .. ':claim', 'PX', CLAIM)
      store(queue, line)
      return not set['err']
    end
  until not pool
  redis.call('DEL', queue)
  return false
end

