
-- Looks at a lock.
--
-- KEYS[1] the lock
-- KEYS[2] its queue
-- KEYS[3] its shares
-- Returns what `look.lua` does.
return look(KEYS[1], KEYS[2], KEYS[3])
