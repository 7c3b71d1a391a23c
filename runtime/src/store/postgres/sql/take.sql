
CREATE FUNCTION leasehold._acquire(me uuid, k text, t uuid, ttl integer, spare integer, queues boolean, fn text,
  waits boolean, OUT taken boolean, OUT fence bigint, OUT number integer, OUT wanted boolean, OUT left_ms bigint,
  OUT holder text)
LANGUAGE plpgsql AS $$
DECLARE
  l leasehold.locks;
  pinned boolean;
  r record;
BEGIN
  taken := false;
  IF NOT queues THEN
    -- If a call that does not queue is refused, it locks no row and writes nothing.
    SELECT x.* INTO l FROM leasehold.locks x WHERE x.key = k;
    IF l.state <> 'free' AND l.expires_at > clock_timestamp() AND l.token IS DISTINCT FROM t
       AND NOT leasehold._is_open(me, l) THEN
      left_ms := leasehold._refusal(me, l, false);
      holder := leasehold._owner(me, l, false);
      RETURN;
    END IF;
  END IF;
  SELECT * INTO r FROM leasehold._row(me, k, waits);
  l := r.l;
  pinned := r.pinned;
  IF l.state = 'held' AND l.token = t THEN
    UPDATE leasehold.locks x SET expires_at = leasehold._after(ttl) WHERE x.key = k;
    taken := true;
  ELSIF NOT pinned AND leasehold._is_open(me, l) THEN
    l := leasehold._give(me, l, t, ttl, spare, fn);
    taken := true;
  ELSE
    left_ms := leasehold._refuse(me, l, pinned, queues, fn);
    holder := leasehold._owner(me, l, pinned);
    RETURN;
  END IF;
  fence := l.fence;
  number := l.reserved;
  wanted := l.queued;
END $$;

-- Takes a share, if fewer than `limit_` calls have one. The limits of those calls do not matter.
-- `limit_` is 0 for no limit.
CREATE FUNCTION leasehold._join(me uuid, k text, t uuid, ttl integer, limit_ integer, queues boolean, fn text,
  waits boolean, OUT taken boolean, OUT fence bigint, OUT number integer, OUT wanted boolean, OUT left_ms bigint,
  OUT holder text)
LANGUAGE plpgsql AS $$
DECLARE
  l leasehold.locks;
  pinned boolean;
  r record;
  p uuid;
  taken_shares integer := 0;
  again boolean := false;
  revoked boolean := false;
  room boolean;
BEGIN
  taken := false;
  SELECT * INTO r FROM leasehold._row(me, k, waits);
  l := r.l;
  pinned := r.pinned;
  IF l.queued THEN p := leasehold._first(k); END IF;
  IF l.state = 'shared' THEN
    SELECT count(*), coalesce(bool_or(s.token = t AND NOT s.revoked), false), coalesce(bool_or(s.token = t AND s.revoked), false)
      INTO taken_shares, again, revoked FROM leasehold.shares s WHERE s.key = k;
    -- A share that was taken away from `t` keeps `t` out until that share ends. A lock that became
    -- a share lets readers in after the transactions that verified it have ended.
    room := NOT revoked AND (again OR (limit_ = 0) = (l.most = 0) AND coalesce(p = me, true) AND (l.token IS NULL OR NOT pinned)
      AND (limit_ = 0 OR taken_shares < limit_));
  ELSE
    room := NOT pinned AND leasehold._is_open(me, l);
  END IF;
  IF room IS NOT TRUE THEN
    left_ms := leasehold._refuse(me, l, pinned, queues, fn);
    IF limit_ > 0 AND taken_shares > limit_ AND l.most > 0 THEN
      -- The call can get a share once fewer than `limit_` shares are left.
      left_ms := leasehold._left((SELECT s.expires_at FROM leasehold.shares s WHERE s.key = k
        ORDER BY s.expires_at OFFSET taken_shares - limit_ LIMIT 1));
    END IF;
    holder := leasehold._owner(me, l, pinned);
    RETURN;
  END IF;
  taken := true;
  wanted := l.queued AND leasehold._leave_queue(me, k);
  IF again THEN
    UPDATE leasehold.shares s SET expires_at = leasehold._after(ttl) WHERE s.key = k AND s.token = t
      RETURNING s.fence INTO fence;
  ELSE
    fence := leasehold._next_fence(l);
    INSERT INTO leasehold.shares (key, token, fence, expires_at, process, owner, timeline)
      VALUES (k, t, _join.fence, leasehold._after(ttl), me, fn, leasehold._timeline());
  END IF;
  UPDATE leasehold.locks x SET state = 'shared', process = me, reserved = 0, queued = wanted,
      token = CASE WHEN again THEN l.token END,
      fence = greatest(l.fence + l.reserved, _join.fence),
      most = CASE l.state WHEN 'shared' THEN greatest(limit_, l.most) ELSE limit_ END,
      expires_at = (SELECT max(s.expires_at) FROM leasehold.shares s WHERE s.key = k)
    WHERE x.key = k;
  IF wanted AND NOT again THEN PERFORM leasehold._invite(k); END IF;
END $$;

-- Renews the share of `t`, or turns the exclusive lock of `t` into a share.
CREATE FUNCTION leasehold._stay(k text, t uuid, ttl integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  l leasehold.locks;
BEGIN
  SELECT r.* INTO l FROM leasehold.locks r WHERE r.key = k FOR NO KEY UPDATE;
  IF l.state = 'held' AND l.token = t AND l.expires_at > clock_timestamp() THEN
    INSERT INTO leasehold.shares (key, token, fence, expires_at, process, owner, timeline)
      VALUES (k, t, l.fence, leasehold._after(ttl), l.process, l.function, l.timeline);
    UPDATE leasehold.locks r SET state = 'shared', most = 0, expires_at = leasehold._after(ttl) WHERE r.key = k;
    IF l.queued THEN PERFORM leasehold._invite(k); END IF;
    RETURN true;
  END IF;
  IF l.state IS DISTINCT FROM 'shared' THEN RETURN false; END IF;
  UPDATE leasehold.shares s SET expires_at = leasehold._after(ttl)
    WHERE s.key = k AND s.token = t AND s.expires_at > clock_timestamp() AND NOT s.revoked;
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE leasehold.locks r SET expires_at = (SELECT max(s.expires_at) FROM leasehold.shares s WHERE s.key = k)
    WHERE r.key = k;
  RETURN true;
END $$;

-- Acquires at once the free keys that no transaction pins and no process waits for: nearly all
-- acquires of a batch. Returns the fence of each acquired key at the key's position in
-- `keys`. `_acquire` and similar functions carry out the other requests, and every request for a
-- key after the first.
CREATE FUNCTION leasehold._acquire_open(me uuid, verbs text[], keys text[], tokens uuid[], ttls integer[],
  numbers integer[], functions text[], OUT fences bigint[])
LANGUAGE plpgsql AS $$
DECLARE
  places bigint[];
  g record;
BEGIN
  places := ARRAY(
    WITH firsts AS (
      SELECT DISTINCT ON (f.key) f.* FROM unnest(verbs, keys) WITH ORDINALITY AS f(verb, key, place)
        ORDER BY f.key, f.place
    )
    SELECT a.place FROM firsts a JOIN leasehold.locks r ON r.key = ANY (ARRAY[a.key])
      WHERE a.verb = 'acquire' AND r.state = 'free' AND NOT r.queued FOR UPDATE OF r SKIP LOCKED);
  FOR g IN
    UPDATE leasehold.locks r SET state = 'held', token = a.token, process = me, fence = leasehold._next_fence(r),
        reserved = a.spare, function = a.fn, timeline = leasehold._timeline(), expires_at = leasehold._after(a.ttl)
      FROM unnest(keys, tokens, ttls, numbers, functions) WITH ORDINALITY AS a(key, token, ttl, spare, fn, place)
      -- For the last condition, see `_is_sole_locker`.
      WHERE a.place = ANY (places) AND r.key = ANY (ARRAY[a.key]) AND r.xmax = pg_current_xact_id()::xid
      RETURNING a.place, r.fence
  LOOP
    fences[g.place] := g.fence;
  END LOOP;
END $$;

-- Carries out acquires, joins, and renewals of both, in the order of the arrays, each as if it were
-- alone. Returns one row for each. `numbers`: number of fences that an acquire reserves, or the
-- limit of a join. `number` in the answer: the reserved fences. `taken` is null for a renewal of a
-- skipped row.
CREATE FUNCTION leasehold.take(me uuid, verbs text[], keys text[], tokens uuid[], ttls integer[], numbers integer[],
  queues boolean[], functions text[])
RETURNS TABLE (taken boolean, fence bigint, number integer, wanted boolean, left_ms bigint, holder text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  alone boolean := cardinality(keys) = 1 AND NOT leasehold._skips();
  any_taken boolean := false;
  touched text[];
  left_out text[];
  fences bigint[];
BEGIN
  IF NOT alone THEN
    touched := ARRAY(
      SELECT a.key FROM unnest(verbs, keys, tokens, queues) AS a(verb, key, token, queues)
      LEFT JOIN leasehold.locks l ON l.key = ANY (ARRAY[a.key])
      WHERE a.verb <> 'acquire' OR a.queues OR l.key IS NULL OR l.state = 'free' OR l.token = a.token
        OR l.expires_at <= clock_timestamp() OR l.state = 'handed' AND l.process = me);
    left_out := leasehold._lock(touched, verbs && ARRAY['acquire', 'join']);
    IF 'acquire' = ANY (verbs) THEN
      fences := leasehold._acquire_open(me, verbs, keys, tokens, ttls, numbers, functions);
    END IF;
  END IF;
  FOR i IN 1 .. cardinality(keys) LOOP
    number := NULL; wanted := NULL; left_ms := NULL; holder := NULL;
    fence := fences[i];
    IF fence IS NOT NULL THEN
      taken := true; number := numbers[i]; wanted := false;
    ELSIF keys[i] = ANY (left_out) AND verbs[i] IN ('renew', 'stay') THEN
      taken := NULL;
    ELSE CASE verbs[i]
      WHEN 'acquire' THEN
        SELECT a.taken, a.fence, a.number, a.wanted, a.left_ms, a.holder
          INTO taken, fence, number, wanted, left_ms, holder
          FROM leasehold._acquire(me, keys[i], tokens[i], ttls[i], numbers[i], queues[i], functions[i], alone) a;
      WHEN 'join' THEN
        SELECT a.taken, a.fence, a.number, a.wanted, a.left_ms, a.holder
          INTO taken, fence, number, wanted, left_ms, holder
          FROM leasehold._join(me, keys[i], tokens[i], ttls[i], numbers[i], queues[i], functions[i], alone) a;
      WHEN 'renew' THEN
        -- The row is locked before the clock is read, because locking may take time. The rows of
        -- several keys were locked above.
        IF alone THEN PERFORM FROM leasehold.locks l WHERE l.key = keys[i] FOR NO KEY UPDATE; END IF;
        UPDATE leasehold.locks l SET expires_at = leasehold._after(ttls[i])
          WHERE l.key = keys[i] AND l.token = tokens[i] AND l.state = 'held' AND l.expires_at > clock_timestamp();
        taken := FOUND;
      WHEN 'stay' THEN
        taken := leasehold._stay(keys[i], tokens[i], ttls[i]);
    END CASE; END IF;
    any_taken := any_taken OR taken IS TRUE;
    RETURN NEXT;
  END LOOP;
  -- A place in a queue need not be on disk before the answer.
  IF NOT any_taken THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
END $$;

-- Takes all of these keys or none. Returns one row for each if all were taken. Otherwise it returns
-- one row, whose `refused` is the index of the refused key, from 0.
CREATE FUNCTION leasehold.take_all(me uuid, keys text[], tokens uuid[], ttl integer, fn text)
RETURNS TABLE (refused integer, fence bigint, number integer, wanted boolean, left_ms bigint, holder text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  l leasehold.locks;
  pinned boolean;
  r record;
BEGIN
  PERFORM leasehold._lock(keys, true);
  FOR i IN 1 .. cardinality(keys) LOOP
    SELECT * INTO r FROM leasehold._row(me, keys[i], false);
    l := r.l;
    pinned := r.pinned;
    CONTINUE WHEN l.state = 'held' AND l.token = tokens[i];
    IF pinned OR NOT leasehold._is_open(me, l) THEN
      PERFORM set_config('synchronous_commit', 'off', true);
      refused := i - 1;
      left_ms := leasehold._refusal(me, l, pinned);
      holder := leasehold._owner(me, l, pinned);
      RETURN NEXT;
      RETURN;
    END IF;
  END LOOP;
  FOR i IN 1 .. cardinality(keys) LOOP
    SELECT a.fence, a.number, a.wanted INTO fence, number, wanted
      FROM leasehold._acquire(me, keys[i], tokens[i], ttl, 0, false, fn, false) a;
    RETURN NEXT;
  END LOOP;
END $$;
