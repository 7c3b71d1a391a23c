
-- Looks at a lock.
--
-- KEYS[1] the lock
-- KEYS[2] its queue
-- KEYS[3] its shares
-- KEYS[2] and KEYS[3] are the lock itself if those keys may be on another node. Then the answer
-- lacks the shares and the queue.
--
-- Returns the answer of `look.lua`.
return look(KEYS[1], KEYS[2], KEYS[3])
