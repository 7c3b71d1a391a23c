
-- For an application's own transaction, in any client. Raises LH001 unless the acquisition of `k`
-- with the fence `f` has the lock, or had it last and has not released it. After success, no other
-- acquisition gets the lock before the transaction has ended, regardless of the clocks. An
-- acquisition from before a fail-over is refused, because data that its holder has read may be
-- missing on this server. The caller needs no rights on the tables. The error also names the
-- constraint `leasehold_verify`, for clients that show no SQLSTATE. The same applies to `guard`,
-- with `leasehold_guard`.
CREATE FUNCTION leasehold.verify(k text, f bigint) RETURNS void LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM FROM leasehold.locks l
    WHERE l.key = k AND l.state = 'held' AND l.timeline = leasehold._timeline()
      AND f BETWEEN l.fence AND l.fence + l.reserved FOR KEY SHARE;
  IF FOUND THEN RETURN; END IF;
  -- The lock is pinned before its share is looked up. In the other order, a writer could get the
  -- lock in between.
  PERFORM FROM leasehold.locks l WHERE l.key = k AND l.state = 'shared' FOR KEY SHARE;
  IF FOUND THEN
    PERFORM FROM leasehold.shares s WHERE s.key = k AND s.fence = f AND f > 0 AND s.timeline = leasehold._timeline() AND NOT s.revoked;
    IF FOUND THEN RETURN; END IF;
  END IF;
  RAISE EXCEPTION 'the lease on % with the fence % is over', k, f USING ERRCODE = 'LH001', CONSTRAINT = 'leasehold_verify',
    HINT = 'Another holder may have the lock, or a standby was promoted. Roll back, and repeat the whole operation under a new lock.';
END $$;

-- Like `verify`, but for locks kept elsewhere, for example in Redis. Raises LH002 if `guard` has
-- accepted a later fence. After success, `guard` accepts no earlier fence, and no fence at all
-- before the transaction has ended.
--
-- Stores count fences by a clock in microseconds, or more slowly. A fence far ahead of this
-- server's clock comes from no holder. If it were accepted, it would exclude all holders
-- permanently. Synchronized clocks differ by less than an hour. If a wrong fence is accepted, the
-- fences of holders are higher again after an hour at most.
CREATE FUNCTION leasehold.guard(k text, f bigint) RETURNS void LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF f > (extract(epoch FROM clock_timestamp() + interval '1 hour') * 1000000)::bigint THEN
    RAISE EXCEPTION 'the fence % of % lies more than an hour ahead of the clock of this database', f, k USING ERRCODE = '22023',
      HINT = 'Pass the fence of a held lock. If it is one, set the clocks of the lock store and of this server.';
  END IF;
  INSERT INTO leasehold.guards AS g (key, fence, used_at) VALUES (k, f, clock_timestamp())
    ON CONFLICT (key) DO UPDATE SET fence = excluded.fence, used_at = excluded.used_at WHERE g.fence <= excluded.fence;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'a later holder of % was here before the fence %', k, f USING ERRCODE = 'LH002', CONSTRAINT = 'leasehold_guard',
      HINT = 'Another holder has written. Roll back, and repeat the whole operation under a new lock.';
  END IF;
END $$;
