
CREATE FUNCTION leasehold._release(k text, t uuid, keep integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  l leasehold.locks;
BEGIN
  IF keep IS NULL THEN
    UPDATE leasehold.locks r SET state = 'free', token = NULL, process = NULL, expires_at = clock_timestamp()
      WHERE r.key = k AND r.token = t AND r.state = 'held' AND r.expires_at > clock_timestamp() AND NOT r.queued;
    IF FOUND THEN RETURN true; END IF;
  END IF;
  SELECT r.* INTO l FROM leasehold.locks r WHERE r.key = k FOR NO KEY UPDATE;
  IF l.state = 'revoked' AND l.token = t AND l.expires_at > clock_timestamp() THEN
    -- The lock was taken away by force, and the holder's body has ended. The answer is false,
    -- because the token no longer had the lock.
    PERFORM leasehold._hand_on(k);
    RETURN false;
  END IF;
  IF l.state IS DISTINCT FROM 'held' OR l.token <> t OR l.expires_at <= clock_timestamp() THEN RETURN false; END IF;
  IF keep IS NULL THEN
    PERFORM leasehold._hand_on(k);
    RETURN true;
  END IF;
  UPDATE leasehold.locks r SET state = 'kept', token = NULL, process = NULL, expires_at = leasehold._after(keep)
    WHERE r.key = k;
  IF l.queued THEN PERFORM leasehold._invite(k); END IF;
  RETURN true;
END $$;

-- Releases a share, or the lock if it has not become a share yet. A kept share no longer belongs to
-- its token, so a late renewal cannot prolong it.
CREATE FUNCTION leasehold._part(k text, t uuid, keep integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  l leasehold.locks;
  ends timestamptz;
  had boolean;
  gone boolean;
BEGIN
  SELECT r.* INTO l FROM leasehold.locks r WHERE r.key = k FOR NO KEY UPDATE;
  IF l.state IS DISTINCT FROM 'shared' THEN RETURN leasehold._release(k, t, keep); END IF;
  DELETE FROM leasehold.shares s WHERE s.key = k AND s.token = t AND s.revoked;
  gone := FOUND;
  IF keep IS NULL THEN
    DELETE FROM leasehold.shares s WHERE s.key = k AND s.token = t AND s.expires_at > clock_timestamp();
  ELSE
    UPDATE leasehold.shares s SET token = gen_random_uuid(), fence = 0, expires_at = leasehold._after(keep)
      WHERE s.key = k AND s.token = t AND s.expires_at > clock_timestamp();
  END IF;
  had := FOUND;
  SELECT max(s.expires_at) INTO ends FROM leasehold.shares s WHERE s.key = k AND s.expires_at > clock_timestamp();
  IF ends IS NULL THEN
    PERFORM leasehold._hand_on(k);
  ELSIF had OR gone THEN
    UPDATE leasehold.locks r SET expires_at = ends WHERE r.key = k;
    IF l.queued THEN PERFORM leasehold._invite(k); END IF;
  END IF;
  RETURN had;
END $$;

-- Removes `me` from the queue. If the lock was handed to `me`, the next process gets it. If the
-- lock is shared, `me` may have kept a share from the next process, so that process is notified.
CREATE FUNCTION leasehold._leave(me uuid, k text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  l leasehold.locks;
  waited boolean;
BEGIN
  SELECT r.* INTO l FROM leasehold.locks r WHERE r.key = k FOR NO KEY UPDATE;
  waited := leasehold._leave_queue(me, k);
  IF l.state = 'handed' AND l.process = me AND l.expires_at > clock_timestamp() THEN
    PERFORM leasehold._hand_on(k);
  ELSIF l.state = 'shared' AND waited THEN
    PERFORM leasehold._invite(k);
  ELSIF l.queued AND NOT waited THEN
    UPDATE leasehold.locks r SET queued = false WHERE r.key = k;
  END IF;
END $$;

-- Releases keys in one statement if this call has locked their rows and no process waits for them.
-- That covers nearly all releases of a batch. Returns true at the position of each released key.
-- `_release` and similar functions carry out the other requests, and every request for a key after
-- the first.
CREATE FUNCTION leasehold._release_open(verbs text[], keys text[], tokens uuid[], keeps integer[],
  OUT freed boolean[])
LANGUAGE plpgsql AS $$
DECLARE
  at bigint;
BEGIN
  FOR at IN
    UPDATE leasehold.locks r SET state = 'free', token = NULL, process = NULL, expires_at = clock_timestamp()
      FROM (
        SELECT DISTINCT ON (f.key) f.* FROM unnest(verbs, keys, tokens, keeps)
          WITH ORDINALITY AS f(verb, key, token, keep, place) ORDER BY f.key, f.place
      ) a
      WHERE a.verb = 'release' AND a.keep IS NULL AND r.key = ANY (ARRAY[a.key]) AND r.token = a.token AND r.state = 'held'
        AND r.expires_at > clock_timestamp() AND NOT r.queued
      RETURNING a.place
  LOOP
    freed[at] := true;
  END LOOP;
END $$;

-- Releases locks and shares, and leaves queues, in the order of the arrays. Returns one row for
-- each request: `had` is true if the token had the lock or share, and null for a skipped row. A
-- release need not be on disk before it is answered: if a crash loses it, the lock ends with its
-- ttl. A cooldown must be on disk.
CREATE FUNCTION leasehold.give(me uuid, verbs text[], keys text[], tokens uuid[], keeps integer[])
RETURNS TABLE (had boolean) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  freed boolean[];
  left_out text[];
BEGIN
  IF array_remove(keeps, NULL) = '{}' THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  IF cardinality(keys) > 1 OR leasehold._skips() THEN
    left_out := leasehold._lock(keys, false);
    IF left_out = '{}' THEN freed := leasehold._release_open(verbs, keys, tokens, keeps); END IF;
  END IF;
  FOR i IN 1 .. cardinality(keys) LOOP
    had := freed[i];
    IF had IS NULL AND keys[i] = ANY (left_out) IS NOT TRUE THEN CASE verbs[i]
      WHEN 'release' THEN had := leasehold._release(keys[i], tokens[i], keeps[i]);
      WHEN 'part' THEN had := leasehold._part(keys[i], tokens[i], keeps[i]);
      WHEN 'leave' THEN PERFORM leasehold._leave(me, keys[i]); had := false;
    END CASE; END IF;
    RETURN NEXT;
  END LOOP;
END $$;

-- Removes at most `at_most` rows that were not used for the time `idle`, and returns their number.
-- Pools call it from time to time.
CREATE FUNCTION leasehold.sweep(idle interval DEFAULT '1 minute', at_most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  removed integer;
  last bigint;
BEGIN
  -- This row lock admits one sweep at a time. Only a role with the right to UPDATE this table can
  -- lock the row.
  PERFORM FROM leasehold.meta m FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN 0; END IF;
  PERFORM set_config('synchronous_commit', 'off', true), set_config('enable_seqscan', 'on', true);
  WITH idlers AS (
    SELECT l.key FROM leasehold.locks l
    WHERE l.expires_at < clock_timestamp() - idle
      AND NOT EXISTS (SELECT FROM leasehold.waiters w WHERE w.key = l.key AND w.seen_at > clock_timestamp() - idle)
    LIMIT at_most FOR UPDATE SKIP LOCKED
  ), gone AS (
    DELETE FROM leasehold.locks l USING idlers i WHERE l.key = i.key RETURNING l.key, l.fence + l.reserved AS last
  ), waiters AS (
    DELETE FROM leasehold.waiters w USING gone g WHERE w.key = g.key
  ), shares AS (
    DELETE FROM leasehold.shares s USING gone g WHERE s.key = g.key
  )
  SELECT count(*), max(g.last) INTO removed, last FROM gone g;
  IF removed > 0 THEN UPDATE leasehold.meta m SET floor = greatest(m.floor, last); END IF;
  DELETE FROM leasehold.beacons b USING (
    SELECT d.process, d.pid FROM leasehold.beacons d WHERE NOT leasehold._is_lit(d) FOR UPDATE SKIP LOCKED
  ) d WHERE b.process = d.process AND b.pid = d.pid;
  RETURN removed;
END $$;
