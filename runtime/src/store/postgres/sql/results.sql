
-- Kept results (`replay`), and adopted locks (handovers).

-- Rows are written only while the key's row in `locks` is locked. They may be removed at any time,
-- by `forget` or after they have expired.
CREATE TABLE leasehold.results (
  key        text COLLATE "C",
  function   text COLLATE "C",                   -- path of the function that returned it
  result     text        NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (key, function)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX results_expires_at ON leasehold.results (expires_at);

CREATE FUNCTION leasehold._result(k text, f text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN (SELECT r.result FROM leasehold.results r WHERE r.key = k AND r.function = f AND r.expires_at > clock_timestamp());
END $$;

-- Returns the result of `k` and `f`. If there is none, acquires `k`, and reads the result again.
-- The second read finds a result that was kept before this call locked the lock's row. Because of
-- the first read, most calls do not need the lock.
CREATE FUNCTION leasehold.recall(me uuid, k text, t uuid, ttl integer, queues boolean, fn text, f text)
RETURNS TABLE (result text, taken boolean, fence bigint, number integer, wanted boolean, left_ms bigint, holder text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  result := leasehold._result(k, f);
  IF result IS NULL THEN
    SELECT a.taken, a.fence, a.number, a.wanted, a.left_ms, a.holder
      INTO taken, fence, number, wanted, left_ms, holder
      FROM leasehold._acquire(me, k, t, ttl, 0, queues, fn, true) a;
    IF taken THEN
      result := leasehold._result(k, f);
      IF result IS NOT NULL THEN PERFORM leasehold._release(k, t, NULL); END IF;
    END IF;
  END IF;
  IF result IS NOT NULL OR NOT taken THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  RETURN NEXT;
END $$;

-- Releases the lock. If `t` had it, stores `kept` as the result of `f`. Each call also removes up
-- to 4 expired results, so it removes more than it adds.
CREATE FUNCTION leasehold.record(k text, t uuid, keep integer, kept text, stays bigint, f text, OUT had boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_ timestamptz := clock_timestamp();
BEGIN
  had := leasehold._release(k, t, keep);
  IF NOT had THEN RETURN; END IF;
  INSERT INTO leasehold.results AS r (key, function, result, expires_at) VALUES (k, f, kept, leasehold._after(stays))
    ON CONFLICT (key, function) DO UPDATE SET result = excluded.result, expires_at = excluded.expires_at;
  DELETE FROM leasehold.results r USING (
    SELECT e.key, e.function FROM leasehold.results e WHERE e.expires_at < now_
      ORDER BY e.expires_at LIMIT 4 FOR UPDATE SKIP LOCKED) e
    WHERE r.key = e.key AND r.function = e.function;
END $$;

-- Removes the results of `k`, of all functions. Returns true if there was an unexpired one.
CREATE FUNCTION leasehold.forget(k text) RETURNS TABLE (had boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  WITH gone AS (
    DELETE FROM leasehold.results r WHERE r.key = k RETURNING r.expires_at > clock_timestamp() AS live
  ) SELECT coalesce(bool_or(g.live), false) INTO had FROM gone g;
  RETURN NEXT;
END $$;

-- Gives the lock of the token `was` to `t`, with its fence. A transaction that verified the lock
-- for the previous process must end first: until then, the answer is `pinned`.
CREATE FUNCTION leasehold.adopt(me uuid, k text, was uuid, t uuid, ttl integer, fn text)
RETURNS TABLE (taken boolean, fence bigint, number integer, wanted boolean, pinned boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM FROM leasehold.locks l WHERE l.key = k FOR NO KEY UPDATE;
  PERFORM FROM leasehold.locks l WHERE l.key = k FOR UPDATE SKIP LOCKED;
  pinned := NOT FOUND;
  UPDATE leasehold.locks l SET token = t, process = me, function = fn, expires_at = leasehold._after(ttl)
    WHERE l.key = k AND (l.token = t OR l.token = was AND NOT pinned) AND l.state = 'held'
      AND l.expires_at > clock_timestamp()
    RETURNING l.fence, l.reserved, l.queued INTO fence, number, wanted;
  taken := FOUND;
  pinned := NOT taken AND EXISTS (
    SELECT FROM leasehold.locks l WHERE l.key = k AND l.token = was AND l.state = 'held' AND l.expires_at > clock_timestamp());
  RETURN NEXT;
END $$;
