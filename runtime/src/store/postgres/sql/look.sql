
-- Converts a time to microseconds.
CREATE FUNCTION leasehold._micros(t timestamptz) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN (extract(epoch FROM t) * 1000000)::bigint;
END $$;

-- Describes these locks to operators. Returns a row for each lock that is not free, each free lock
-- that a transaction pins, each share and each waiting process. Changes nothing. Times are in
-- microseconds, and so are fences.
CREATE FUNCTION leasehold.look(names text[])
RETURNS TABLE (key text, part text, place bigint, state text, fence bigint, most integer, owner text, since bigint,
  ends bigint, now bigint)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.key, 'lock', 0::bigint, l.state::text, l.fence, l.most, l.function, l.fence,
      leasehold._micros(l.expires_at), leasehold._micros(clock_timestamp())
    FROM leasehold.locks l
    WHERE l.key = ANY (names) AND l.state <> 'free' AND l.expires_at > clock_timestamp()
  UNION ALL
  SELECT p.key, 'pin', 0, '', 0, 0, p.session, 0, 0, leasehold._micros(clock_timestamp())
    FROM (
      SELECT l.key, leasehold._pin(l.xmax) AS session FROM leasehold.locks l
      WHERE l.key = ANY (names) AND (l.state IN ('free', 'handed') OR l.expires_at <= clock_timestamp()) AND l.xmax <> '0'::xid
    ) p
    WHERE p.session IS NOT NULL
  UNION ALL
  SELECT s.key, 'share', 0, CASE WHEN s.revoked THEN 'revoked' ELSE 'held' END, s.fence, 0, s.owner, s.fence,
      leasehold._micros(s.expires_at), leasehold._micros(clock_timestamp())
    FROM leasehold.shares s JOIN leasehold.locks l ON l.key = s.key
    WHERE s.key = ANY (names) AND l.state = 'shared' AND l.expires_at > clock_timestamp()
      AND s.expires_at > clock_timestamp()
  UNION ALL
  SELECT w.key, 'waiter', w.place, '', 0, 0, w.owner, leasehold._micros(w.since), 0,
      leasehold._micros(clock_timestamp())
    FROM leasehold.waiters w
    WHERE w.key = ANY (names) AND w.seen_at >= clock_timestamp() - interval '3 seconds'
  ORDER BY 1, 2, 3, 9
$$;

-- True if a process can be notified that its lock was taken away: one of its sessions listens.
CREATE FUNCTION leasehold._hears(p uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN p IS NOT NULL AND NOT leasehold._is_dark(p);
END $$;

CREATE FUNCTION leasehold._tell_revoked(p uuid, t uuid, k text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM leasehold._tell(p, 'r' || right(replace(t::text, '-', ''), 16) || k);
END $$;

CREATE FUNCTION leasehold._revoke_shares(k text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  s leasehold.shares;
  ends timestamptz;
BEGIN
  FOR s IN SELECT x.* FROM leasehold.shares x WHERE x.key = k AND NOT x.revoked LOOP
    IF s.fence > 0 AND s.expires_at > clock_timestamp() AND leasehold._hears(s.process) THEN
      UPDATE leasehold.shares x SET revoked = true, expires_at = least(x.expires_at, leasehold._after(3000))
        WHERE x.key = k AND x.token = s.token;
      PERFORM leasehold._tell_revoked(s.process, s.token, k);
    ELSE
      DELETE FROM leasehold.shares x WHERE x.key = k AND x.token = s.token;
    END IF;
  END LOOP;
  SELECT max(x.expires_at) INTO ends FROM leasehold.shares x WHERE x.key = k AND x.expires_at > clock_timestamp();
  IF ends IS NULL THEN
    PERFORM leasehold._hand_on(k);
  ELSE
    UPDATE leasehold.locks r SET expires_at = ends WHERE r.key = k;
  END IF;
END $$;

-- Takes a lock away from its holders. Returns the rows that `look` returned just before that. A
-- holder that can be notified keeps other clients out until it releases, for at most 3 seconds.
-- Otherwise the lock is free at once, or goes to the process that waits first. Only an operator's
-- command ends a lease in this way.
CREATE FUNCTION leasehold.take_away(k text)
RETURNS TABLE (key text, part text, place bigint, state text, fence bigint, most integer, owner text, since bigint,
  ends bigint, now bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  l leasehold.locks;
BEGIN
  SELECT r.* INTO l FROM leasehold.locks r WHERE r.key = k FOR NO KEY UPDATE;
  RETURN QUERY SELECT * FROM leasehold.look(ARRAY[k]);
  IF l.key IS NULL OR l.state IN ('free', 'revoked') OR l.expires_at <= clock_timestamp() THEN RETURN; END IF;
  IF l.state = 'shared' THEN
    PERFORM leasehold._revoke_shares(k);
  ELSIF l.state = 'held' AND leasehold._hears(l.process) THEN
    UPDATE leasehold.locks r SET state = 'revoked', expires_at = least(r.expires_at, leasehold._after(3000))
      WHERE r.key = k;
    PERFORM leasehold._tell_revoked(l.process, l.token, k);
  ELSE
    PERFORM leasehold._hand_on(k);
  END IF;
END $$;
