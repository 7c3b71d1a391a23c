//! Bugs in the SQL of the PostgreSQL store. Each bug replaces one text of the schema. Tests switch
//! the bugs on to show that other tests detect them.

use std::env;

use leasehold::postgres::SCHEMA;

/// Environment variable with the name of the bug that this process puts into the schema.
const VARIABLE: &str = "LEASEHOLD_SQL_MUTANT";

/// A bug: its name, a text from the schema, and the replacement for this text.
type Mutant = (&'static str, &'static str, &'static str);

const MUTANTS: &[Mutant] = &[
    (
        "VerifyKeepsNothing",
        "f BETWEEN l.fence AND l.fence + l.reserved FOR KEY SHARE",
        "f BETWEEN l.fence AND l.fence + l.reserved",
    ),
    ("KeptSharesVerify", "s.fence = f AND f > 0", "s.fence = f"),
    (
        "AdoptersOvertakePins",
        "l.token = was AND NOT pinned",
        "l.token = was",
    ),
    (
        "ClaimsLast",
        "process = p, expires_at = leasehold._after(1000)",
        "process = p, expires_at = leasehold._after(9000)",
    ),
    (
        "LockedRowsAreNotLeftOut",
        "IF leasehold._skips() THEN\n    RETURN",
        "IF false THEN\n    RETURN",
    ),
    (
        "VerifyHoldsRenewalsUp",
        "f BETWEEN l.fence AND l.fence + l.reserved FOR KEY SHARE",
        "f BETWEEN l.fence AND l.fence + l.reserved FOR SHARE",
    ),
    (
        "PoolsAreShownAsPins",
        "LIKE 'leasehold:%'\n      LIMIT 1",
        "NOT LIKE 'leasehold:%'\n      LIMIT 1",
    ),
    (
        "EarlierFencesVerify",
        "f BETWEEN l.fence AND l.fence + l.reserved",
        "f <= l.fence + l.reserved",
    ),
    (
        "EarlierTimelinesVerify",
        "l.timeline = leasehold._timeline()",
        "true",
    ),
    (
        "ReadersOfEarlierTimelinesVerify",
        "s.timeline = leasehold._timeline()",
        "true",
    ),
    (
        "ReadersKeepNothing",
        "l.state = 'shared' FOR KEY SHARE",
        "l.state = 'shared'",
    ),
    (
        "PinsAreNotSeen",
        "    pinned := NOT FOUND OR NOT leasehold._is_sole_locker(k);\n    EXIT;",
        "    pinned := false;\n    EXIT;",
    ),
    (
        "ReadersComeInBeforeTheCommit",
        "(l.token IS NULL OR NOT pinned)",
        "true",
    ),
    (
        // With this replacement, each session locks the rows in a different order. It also sleeps
        // for each row, so that concurrent transactions overlap while they lock rows.
        "RowsAreLockedInAnyOrder",
        "PERFORM 1 FROM leasehold.locks l WHERE l.key = ANY (keys) ORDER BY l.key",
        "PERFORM pg_sleep(0.0005) FROM leasehold.locks l WHERE l.key = ANY (keys) ORDER BY md5(l.key || pg_backend_pid())",
    ),
    (
        "ReleasesNeedNoToken",
        "r.key = k AND r.token = t AND r.state = 'held'",
        "r.key = k AND r.state = 'held'",
    ),
    (
        "RenewalsNeedNoToken",
        "l.key = keys[i] AND l.token = tokens[i] AND l.state = 'held'",
        "l.key = keys[i] AND l.state = 'held'",
    ),
    (
        "RenewalsGoByTheirBeginning",
        "AND l.state = 'held' AND l.expires_at > clock_timestamp();\n        taken := FOUND;",
        "AND l.state = 'held' AND l.expires_at > now();\n        taken := FOUND;",
    ),
    (
        "LeasesEndWithTheirBeacon",
        "IF l.state <> 'free' AND l.expires_at <= clock_timestamp() THEN",
        "IF l.state <> 'free' AND (l.expires_at <= clock_timestamp() OR leasehold._is_dark(l.process)) THEN",
    ),
    (
        "DarkWaitersAreCalled",
        "EXIT WHEN lit IS NOT TRUE OR NOT leasehold._is_dark(p);",
        "EXIT;",
    ),
    (
        "DarkHoldersAreNotified",
        "RETURN p IS NOT NULL AND NOT leasehold._is_dark(p);",
        "RETURN p IS NOT NULL;",
    ),
    (
        "NoHolderReceives",
        "RETURN p IS NOT NULL AND NOT leasehold._is_dark(p);",
        "RETURN false;",
    ),
    (
        "SweepsForgetFences",
        "floor = greatest(m.floor, last)",
        "floor = m.floor",
    ),
    (
        "ReservesAreGivenAway",
        "ELSE l.fence + l.reserved + 1 END",
        "ELSE l.fence + 1 END",
    ),
    (
        "TheQueueIsOvertaken",
        "l.state = 'free' AND l.queued AND NOT pinned",
        "false",
    ),
    (
        "BatchesTakePinned",
        "AND NOT r.queued FOR UPDATE OF r SKIP LOCKED);
  FOR g IN
    UPDATE leasehold.locks r SET state = 'held', token = a.token, process = me, fence = leasehold._next_fence(r),
        reserved = a.spare, function = a.fn, timeline = leasehold._timeline(), expires_at = leasehold._after(a.ttl)
      FROM unnest(keys, tokens, ttls, numbers, functions) WITH ORDINALITY AS a(key, token, ttl, spare, fn, place)
      -- For the last condition, see `_is_sole_locker`.
      WHERE a.place = ANY (places) AND r.key = ANY (ARRAY[a.key]) AND r.xmax = pg_current_xact_id()::xid",
        "AND NOT r.queued);
  FOR g IN
    UPDATE leasehold.locks r SET state = 'held', token = a.token, process = me, fence = leasehold._next_fence(r),
        reserved = a.spare, function = a.fn, timeline = leasehold._timeline(), expires_at = leasehold._after(a.ttl)
      FROM unnest(keys, tokens, ttls, numbers, functions) WITH ORDINALITY AS a(key, token, ttl, spare, fn, place)
      -- For the last condition, see `_is_sole_locker`.
      WHERE a.place = ANY (places) AND r.key = ANY (ARRAY[a.key])",
    ),
    (
        "BatchesLockTooWeakly",
        "AND NOT r.queued FOR UPDATE OF r SKIP LOCKED",
        "AND NOT r.queued",
    ),
    (
        "BatchesForgetEndedPins",
        "AND r.xmax = pg_current_xact_id()::xid\n      RETURNING",
        "\n      RETURNING",
    ),
    (
        "EndedPinsAreForgotten",
        "RETURN EXISTS (SELECT FROM leasehold.locks r WHERE r.key = k AND r.xmax = pg_current_xact_id()::xid);",
        "RETURN true;",
    ),
    (
        "BatchesOvertakeTheQueue",
        "r.state = 'free' AND NOT r.queued FOR UPDATE OF r",
        "r.state = 'free' FOR UPDATE OF r",
    ),
    (
        "BatchesServeTheLast",
        "f(verb, key, place)\n        ORDER BY f.key, f.place",
        "f(verb, key, place)\n        ORDER BY f.key, f.place DESC",
    ),
    (
        "BatchesReleaseInAnyOrder",
        "keep, place) ORDER BY f.key, f.place",
        "keep, place) ORDER BY f.key, f.place DESC",
    ),
    (
        "BatchesReleaseForAnyToken",
        "AND r.token = a.token AND r.state = 'held'",
        "AND r.state = 'held'",
    ),
    (
        "BatchesReleaseWhatIsRevoked",
        "AND r.token = a.token AND r.state = 'held'",
        "AND r.token = a.token",
    ),
    (
        "BatchesReportOtherFences",
        "fences[g.place] := g.fence;",
        "fences[g.place] := g.fence + 1;",
    ),
    (
        "RevokedSharesAreTakenAgain",
        "room := NOT revoked AND (",
        "room := (",
    ),
    (
        "BatchesReadTheWholeTable",
        "LEFT JOIN leasehold.locks l ON l.key = ANY (ARRAY[a.key])",
        "LEFT JOIN leasehold.locks l ON l.key = a.key",
    ),
    (
        "BatchesForgetWaiters",
        "AND r.expires_at > clock_timestamp() AND NOT r.queued\n      RETURNING",
        "AND r.expires_at > clock_timestamp()\n      RETURNING",
    ),
    (
        "TakesTrustThePath",
        "LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$\nDECLARE\n  alone",
        "LANGUAGE plpgsql AS $$\nDECLARE\n  alone",
    ),
    (
        "SweepsTrustThePath",
        "RETURNS integer\nLANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS",
        "RETURNS integer\nLANGUAGE plpgsql AS",
    ),
    (
        "SweepsNeedAnAdvisoryLock",
        "PERFORM FROM leasehold.meta m FOR NO KEY UPDATE SKIP LOCKED;",
        "PERFORM FROM leasehold.meta m WHERE pg_try_advisory_xact_lock(1818583923, 1);",
    ),
    (
        "EndedSessionsStayLit",
        "b.pid = pg_backend_pid() OR b.lit_at >= now() OR",
        "true OR",
    ),
    ("AnySessionKeepsABeacon", "a.usesysid = b.role AND", ""),
    (
        "GuardTakesAnyFence",
        "IF f > (extract(epoch FROM clock_timestamp()",
        "IF false AND f > (extract(epoch FROM clock_timestamp()",
    ),
    (
        "GuardLetsEarlierFencesIn",
        "WHERE g.fence <= excluded.fence",
        "",
    ),
];

/// Returns the schema of the PostgreSQL store. If `LEASEHOLD_SQL_MUTANT` names a bug, the returned
/// schema has this bug.
///
/// # Panics
///
/// Panics if there is no such bug. Also panics if the schema does not contain the text to replace
/// exactly once.
pub(crate) fn schema() -> String {
    let Ok(wanted) = env::var(VARIABLE) else {
        return SCHEMA.to_owned();
    };
    let mutant = MUTANTS.iter().find(|(name, ..)| *name == wanted);
    let (_, text, instead) = mutant.unwrap_or_else(|| panic!("there is no mutant `{wanted}`"));
    assert_eq!(SCHEMA.matches(text).count(), 1, "{wanted}: {text}");
    SCHEMA.replace(text, instead)
}

/// Returns the environment variable, and its value, that switches a bug on in another process.
///
/// # Panics
///
/// Panics if there is no such bug.
pub(crate) fn variable(mutant: &str) -> (&'static str, &str) {
    assert!(
        MUTANTS.iter().any(|(name, ..)| *name == mutant),
        "there is no mutant `{mutant}`"
    );
    (VARIABLE, mutant)
}
