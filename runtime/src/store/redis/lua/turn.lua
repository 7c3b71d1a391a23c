
-- Ends the tenure of a process: the time in which it passes a lock among its own calls. In the same
-- step, queues for its next tenure. The effect is that of `release.lua` followed by `acquire.lua`.
--
-- KEYS[1] the fence counter of the namespace
-- KEYS[2] the lock
-- KEYS[3] its queue
-- ARGV[1] the process, 32 characters
-- ARGV[2] prefix of the channels
-- ARGV[3] the number of reserved fences
-- ARGV[4] the token to release
-- ARGV[5] the token to take the lock with
-- ARGV[6] ttl in ms
-- ARGV[7] owner, shown to operators
-- ARGV[8] `+` to queue and listen, `-` to queue without listening, `''` not to queue
-- ARGV[9] ms of unbroken use after which the lock is left free for clients without a queue, or `''`
--
-- Returns two answers. Either is {-1, error} if the server refused a command for it:
-- - for the release, 1 if the lock carried its token, 0 if it did not;
-- - for the acquire, {1, fence, reserve, wanted} or {0, pttl, queued}, like `acquire.lua` for a
--   lock in use.
--
-- Guarantees: those of `release.lua` and `acquire.lua`.
--
-- A single script lets the next process start earlier. The server sends messages only after all
-- commands that arrived together, and a separate acquire would be one of them.
--
-- This fragment serves the common case: the lock carries its token, other processes wait, and this
-- process queues behind them. `turn_queue.lua` serves all other cases.
local process, channels, more = ARGV[1], ARGV[2], ARGV[3]
local key, queue, place = KEYS[2], KEYS[3], ARGV[8]
local found = redis.call('MGET', key, queue)
local value, line = found[1], as_line(found[2], queue)
local every = tonumber(ARGV[9])
local foreign = not value or string.sub(value, 1, 32) ~= ARGV[4]

-- Hands the lock on or leaves it free, and appends `behind` to its queue. Returns both answers, or
-- nothing if it did neither.
local function pass(now, behind)
  local way = make_way(key, queue, line, now, channels, every, behind)
  if way or hand_on(key, queue, line, now, channels, behind) then
    return {1, {0, way and PAUSE or CLAIM, place == '+' and 1 or 0}}
  end
end

if not foreign and line ~= '' and place ~= '' and not string.find(line, process, 1, true) then
  local now = milliseconds()
  local done, passed = pcall(pass, now, record(process, place, now))
  if done and passed then
    note_waiter(queue, process, ARGV[7], now)
    return passed
  end
end

