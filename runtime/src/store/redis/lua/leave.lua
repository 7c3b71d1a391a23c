-- Removes a process from a lock's queue. If the lock was handed to the process, hands it on.
--
-- KEYS[1] the lock
-- KEYS[2] the lock's queue
-- ARGV[1] the process
-- ARGV[2] prefix of the channels
-- Returns 1.
--
-- Guarantees: a held lock is not touched. A lock handed to the process goes to the next process in
-- the queue, or becomes free.
local line = without(read(KEYS[2]), ARGV[1])
store(KEYS[2], line)
forget_owner(KEYS[2], ARGV[1])
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] .. ':claim' and not hand_on(KEYS[1], KEYS[2], line, milliseconds(), ARGV[2]) then
  redis.call('DEL', KEYS[1])
elseif line ~= '' and (not value or type(value) == 'string' and limit_of(value)) then
  -- The key is free although processes wait, so it is in its pause (see `queue.lua`). Or it is
  -- shared, and the leaving process may have kept a share from the others. Perhaps only the leaving
  -- process was notified, so the next process is notified now.
  invite(KEYS[1], KEYS[2], line, milliseconds(), ARGV[2])
end
return 1
