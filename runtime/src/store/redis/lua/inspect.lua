
-- Returns the state of a lock.
--
-- KEYS[1] the lock
-- KEYS[2] its queue
-- KEYS[3] its shares
-- If the queue and the shares may be on another node, KEYS[2] and KEYS[3] are the lock itself. The
-- answer then lacks the shares and the queue.
--
-- Returns the answer of `look.lua`.
return look(KEYS[1], KEYS[2], KEYS[3])
