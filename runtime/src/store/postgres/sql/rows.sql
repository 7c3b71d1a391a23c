
-- Returns the end of a lease of `ms` milliseconds that begins now.
CREATE FUNCTION leasehold._after(ms bigint) RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN clock_timestamp() + ms * interval '1 millisecond';
END $$;

-- Returns the milliseconds until the time `until`, rounded up.
CREATE FUNCTION leasehold._left(until timestamptz) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN greatest(ceil(extract(epoch FROM until - clock_timestamp()) * 1000), 0)::bigint;
END $$;

CREATE FUNCTION leasehold._tell(p uuid, message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('leasehold_' || replace(p::text, '-', ''), message);
END $$;

-- Lights the beacon of `me`, which shows that this session exists.
CREATE FUNCTION leasehold.light(me uuid) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  INSERT INTO leasehold.beacons AS b (process, pid, role, began)
    SELECT me, a.pid, a.usesysid, a.backend_start FROM pg_stat_get_activity(pg_backend_pid()) a
    ON CONFLICT (process, pid) DO UPDATE SET role = excluded.role, began = excluded.began, lit_at = excluded.lit_at;
END $$;

-- True while the session of the beacon lasts. A role that may not read the start of another role's
-- session compares only its pid and its role. A transaction sees the server's sessions as of one
-- moment, so a beacon that was lit after the transaction's start counts as lit.
CREATE FUNCTION leasehold._is_lit(b leasehold.beacons) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN b.pid = pg_backend_pid() OR b.lit_at >= now() OR EXISTS (
    SELECT FROM pg_stat_get_activity(b.pid) a WHERE a.usesysid = b.role AND coalesce(a.backend_start, b.began) = b.began);
END $$;

-- True if no session keeps a beacon of `p` lit.
CREATE FUNCTION leasehold._is_dark(p uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN NOT EXISTS (SELECT FROM leasehold.beacons b WHERE b.process = ANY (ARRAY[p]) AND leasehold._is_lit(b));
END $$;

-- Returns the process that has waited longest for `k`. First removes processes that sent no request
-- for 3 seconds, and processes at the front of the queue whose beacon has gone out.
CREATE FUNCTION leasehold._first(k text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  p uuid;
  lit boolean;
BEGIN
  DELETE FROM leasehold.waiters w WHERE w.key = k AND w.seen_at < clock_timestamp() - interval '3 seconds';
  LOOP
    SELECT w.process, w.beacon INTO p, lit FROM leasehold.waiters w WHERE w.key = k ORDER BY w.place LIMIT 1;
    EXIT WHEN lit IS NOT TRUE OR NOT leasehold._is_dark(p);
    DELETE FROM leasehold.waiters w WHERE w.key = k AND w.process = p;
  END LOOP;
  RETURN p;
END $$;

-- Reserves `k` for a second for the process that has waited longest, and notifies that process. If
-- no process waits, frees `k`. The caller has locked the row.
CREATE FUNCTION leasehold._hand_on(k text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  p uuid := leasehold._first(k);
BEGIN
  DELETE FROM leasehold.shares s WHERE s.key = k;
  IF p IS NULL THEN
    UPDATE leasehold.locks l SET state = 'free', token = NULL, process = NULL, queued = false,
        expires_at = clock_timestamp()
      WHERE l.key = k;
    RETURN;
  END IF;
  DELETE FROM leasehold.waiters w WHERE w.key = k AND w.process = p;
  UPDATE leasehold.locks l SET state = 'handed', token = NULL, process = p, expires_at = leasehold._after(1000),
      queued = EXISTS (SELECT FROM leasehold.waiters w WHERE w.key = k)
    WHERE l.key = k;
  PERFORM leasehold._tell(p, 't' || k);
END $$;

-- Notifies the process that has waited longest, which then repeats its request. The process keeps
-- its place.
CREATE FUNCTION leasehold._invite(k text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  p uuid := leasehold._first(k);
BEGIN
  IF p IS NOT NULL THEN PERFORM leasehold._tell(p, 't' || k); END IF;
END $$;

-- Gives `me` a place in the queue of `k`, or records its new request, and notifies the holder.
CREATE FUNCTION leasehold._enter(me uuid, k text, holder uuid, fn text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO leasehold.waiters AS w (key, process, seen_at, owner, beacon)
    VALUES (k, me, clock_timestamp(), fn, NOT leasehold._is_dark(me))
    ON CONFLICT (key, process) DO UPDATE SET seen_at = excluded.seen_at, beacon = excluded.beacon;
  UPDATE leasehold.locks l SET queued = true WHERE l.key = k AND NOT l.queued;
  IF holder <> me THEN PERFORM leasehold._tell(holder, 'w' || k); END IF;
END $$;

-- Removes `me` from the queue of `k`. Returns true if another process is left in it.
CREATE FUNCTION leasehold._leave_queue(me uuid, k text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM leasehold.waiters w WHERE w.key = k AND w.process = me;
  RETURN EXISTS (SELECT FROM leasehold.waiters w WHERE w.key = k);
END $$;

-- True if the call skips rows that other transactions have locked, instead of waiting for them.
CREATE FUNCTION leasehold._skips() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN coalesce(current_setting('leasehold.skips', true), '') = 'on';
END $$;

-- Creates missing rows if `makes` is true, and locks the rows of these keys. A call with several
-- keys waits for rows only here. Returns the keys of the skipped rows.
CREATE FUNCTION leasehold._lock(keys text[], makes boolean) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
  IF makes THEN
    INSERT INTO leasehold.locks (key)
      SELECT k FROM unnest(keys) AS k WHERE NOT EXISTS (SELECT FROM leasehold.locks l WHERE l.key = k OFFSET 0)
      GROUP BY k ORDER BY k COLLATE "C" ON CONFLICT DO NOTHING;
  END IF;
  IF leasehold._skips() THEN
    RETURN ARRAY(
      WITH locked AS MATERIALIZED (
        SELECT l.key FROM leasehold.locks l WHERE l.key = ANY (keys) ORDER BY l.key FOR NO KEY UPDATE SKIP LOCKED
      )
      SELECT l.key FROM leasehold.locks l WHERE l.key = ANY (keys) AND NOT EXISTS (SELECT FROM locked x WHERE x.key = l.key));
  END IF;
  PERFORM 1 FROM leasehold.locks l WHERE l.key = ANY (keys) ORDER BY l.key FOR NO KEY UPDATE;
  RETURN '{}';
END $$;

-- True if this transaction, which has locked the row of `k` twice, is the only one in the list of
-- the row's lockers (a multixact). Otherwise, the list still has a pin that has ended since the
-- first lock. After an update of such a row, PostgreSQL lets older snapshots pass: `verify` would
-- succeed for a former holder.
CREATE FUNCTION leasehold._is_sole_locker(k text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM leasehold.locks r WHERE r.key = k AND r.xmax = pg_current_xact_id()::xid);
END $$;

-- Locks the row of `k`, and returns its current state: an expired lock is free, and a free lock is
-- handed to the process that waits first, unless that is `me`. `pinned`: no token may get the lock
-- now. With `waits`, creates a missing row, and waits for a row that another call has locked.
-- Without `waits`, returns null for such rows.
CREATE FUNCTION leasehold._row(me uuid, k text, waits boolean, OUT l leasehold.locks, OUT pinned boolean)
LANGUAGE plpgsql AS $$
DECLARE
  p uuid;
BEGIN
  LOOP
    SELECT r.* INTO l FROM leasehold.locks r WHERE r.key = k FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      -- Without `waits`, `_lock` has locked the row before.
      pinned := NOT waits AND NOT leasehold._is_sole_locker(k);
      EXIT;
    END IF;
    pinned := true;
    IF NOT waits THEN
      SELECT r.* INTO l FROM leasehold.locks r WHERE r.key = k FOR NO KEY UPDATE SKIP LOCKED;
      EXIT;
    END IF;
    INSERT INTO leasehold.locks (key) VALUES (k) ON CONFLICT DO NOTHING;
    -- Waits for other calls, which are short. A pin does not conflict with this lock mode.
    SELECT r.* INTO l FROM leasehold.locks r WHERE r.key = k FOR NO KEY UPDATE;
    CONTINUE WHEN NOT FOUND;
    PERFORM FROM leasehold.locks r WHERE r.key = k FOR UPDATE SKIP LOCKED;
    pinned := NOT FOUND OR NOT leasehold._is_sole_locker(k);
    EXIT;
  END LOOP;
  IF l.key IS NULL THEN RETURN; END IF;
  IF l.state <> 'free' AND l.expires_at <= clock_timestamp() THEN
    IF l.state = 'shared' THEN DELETE FROM leasehold.shares s WHERE s.key = k; END IF;
    l.state := 'free';
    l.token := NULL;
  ELSIF l.state = 'shared' THEN
    DELETE FROM leasehold.shares s WHERE s.key = k AND s.expires_at <= clock_timestamp();
  END IF;
  IF l.state = 'free' AND l.queued AND NOT pinned THEN
    p := leasehold._first(k);
    IF p IS NULL THEN
      l.queued := false;
    ELSIF p <> me THEN
      PERFORM leasehold._hand_on(k);
      SELECT r.* INTO l FROM leasehold.locks r WHERE r.key = k;
    END IF;
  END IF;
END $$;

-- True if `me` may take the exclusive lock, unless it is pinned.
CREATE FUNCTION leasehold._is_open(me uuid, l leasehold.locks) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN l.state = 'free' OR l.state = 'handed' AND l.process = me;
END $$;

-- Returns the milliseconds after which another try may succeed. The end of a pin sends no
-- notification, so the caller must try again soon.
CREATE FUNCTION leasehold._refusal(me uuid, l leasehold.locks, pinned boolean) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  IF l.key IS NULL THEN RETURN NULL; END IF;
  IF pinned AND leasehold._is_open(me, l) THEN RETURN 100; END IF;
  IF l.state = 'shared' AND l.most > 0 THEN
    RETURN leasehold._left((SELECT min(s.expires_at) FROM leasehold.shares s WHERE s.key = l.key));
  END IF;
  RETURN leasehold._left(l.expires_at);
END $$;

-- Refuses `me` the lock, and queues `me` if `queues` is true. A pinned lock that was handed to `me`
-- stays reserved for `me` for another second.
CREATE FUNCTION leasehold._refuse(me uuid, l leasehold.locks, pinned boolean, queues boolean, fn text)
RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  IF l.state = 'handed' AND l.process = me THEN
    UPDATE leasehold.locks r SET expires_at = leasehold._after(1000) WHERE r.key = l.key;
  ELSIF queues AND l.key IS NOT NULL THEN
    PERFORM leasehold._enter(me, l.key, CASE WHEN l.state IN ('held', 'shared') THEN l.process END, fn);
  END IF;
  RETURN leasehold._refusal(me, l, pinned);
END $$;

-- True while the transaction or subtransaction `x` is in progress.
CREATE FUNCTION leasehold._goes_on(x xid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  next bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
  whole bigint := next / 4294967296 * 4294967296 + x::text::bigint;
BEGIN
  RETURN pg_xact_status((CASE WHEN whole > next THEN whole - 4294967296 ELSE whole END)::text::xid8) = 'in progress';
EXCEPTION WHEN OTHERS THEN
  -- The number does not belong to a transaction.
  RETURN false;
END $$;

-- Returns the session whose transaction has locked a row with this `xmax`, in the form of an owner.
-- Returns null if there is no such session, and one of them if there are several. The number is the
-- `pid` of `pg_stat_activity`, and 0 for a prepared transaction.
CREATE FUNCTION leasehold._pin(x xid) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  lockers xid[] := ARRAY[x];
  all_ xid[] := ARRAY[x];
  owner text;
BEGIN
  FOR try IN 1 .. 2 LOOP
    -- Every transaction and subtransaction has a lock on its own number.
    SELECT format('PostgreSQL %s %s', coalesce(k.pid, 0), CASE
        WHEN p.gid IS NOT NULL THEN format('prepared transaction %s', p.gid)
        ELSE concat_ws(' ', 'transaction of', coalesce(nullif(a.application_name, ''), a.usename), 'at ' || host(a.client_addr)) END)
      INTO owner
      FROM pg_locks k LEFT JOIN pg_stat_activity a ON a.pid = k.pid LEFT JOIN pg_prepared_xacts p ON p.transaction = k.transactionid
      WHERE k.locktype = 'transactionid' AND k.mode = 'ExclusiveLock' AND k.granted AND k.transactionid = ANY (lockers)
        AND k.pid IS DISTINCT FROM pg_backend_pid()
      -- The call of a pool may also have locked the row, for a moment, so it comes last.
      ORDER BY coalesce(a.application_name, '') LIKE 'leasehold:%'
      LIMIT 1;
    EXIT WHEN owner IS NOT NULL OR try = 2;
    BEGIN
      -- If several transactions have locked a row, the number is that of their list (a multixact).
      -- An error shows that there is no such list.
      lockers := ARRAY(SELECT m.xid FROM pg_get_multixact_members(x) m);
      all_ := all_ || lockers;
    EXCEPTION WHEN OTHERS THEN
      EXIT;
    END;
  END LOOP;
  IF owner IS NULL THEN
    -- Subtransactions of a prepared transaction have no lock on their own numbers.
    SELECT format('PostgreSQL 0 prepared transaction %s', string_agg(p.gid, ' or ')) INTO owner
      FROM pg_prepared_xacts p WHERE p.database = current_database()
      HAVING count(*) > 0 AND (SELECT bool_or(leasehold._goes_on(u)) FROM unnest(all_) u);
  END IF;
  RETURN owner;
END $$;

-- Returns the owner of an exclusive lock, or the transaction that pins the lock, for a refused
-- call.
CREATE FUNCTION leasehold._owner(me uuid, l leasehold.locks, pinned boolean) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF pinned AND leasehold._is_open(me, l) THEN
    RETURN (SELECT leasehold._pin(r.xmax) FROM leasehold.locks r WHERE r.key = l.key);
  END IF;
  RETURN CASE WHEN l.state = 'held' THEN l.function END;
END $$;

-- Returns the first fence of the next acquisition. `meta.floor` is read after the row was created.
-- By then, a sweep that removed an earlier row of the key has ended, so the floor is at least as
-- high as that row's fences.
CREATE FUNCTION leasehold._next_fence(l leasehold.locks) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN greatest(
    CASE l.fence WHEN 0 THEN (SELECT m.floor + 1 FROM leasehold.meta m) ELSE l.fence + l.reserved + 1 END,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
END $$;

-- Gives the lock to `t`. The lock must be open and not pinned.
CREATE FUNCTION leasehold._give(me uuid, INOUT l leasehold.locks, t uuid, ttl integer, spare integer, fn text)
LANGUAGE plpgsql AS $$
BEGIN
  l.fence := leasehold._next_fence(l);
  l.queued := l.queued AND leasehold._leave_queue(me, l.key);
  UPDATE leasehold.locks r SET state = 'held', token = t, process = me, fence = l.fence, reserved = spare,
      queued = l.queued, function = fn, timeline = leasehold._timeline(), expires_at = leasehold._after(ttl)
    WHERE r.key = l.key;
  l.reserved := spare;
END $$;
