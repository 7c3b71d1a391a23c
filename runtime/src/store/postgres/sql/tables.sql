-- The schema of leasehold, for PostgreSQL 13 and later. Run it once, in one transaction: as a
-- migration, or by `?migrate=1`.
--
-- On the pool's connection, each function call is a separate transaction, under READ COMMITTED.
-- Only `verify` and `guard` are for the transactions of an application.
--
-- Times are `clock_timestamp()`. `now()` is the start of the transaction. With `now()`, a renewal
-- that waited for a row would compare the end of its lease with a past time.
--
-- Use of row locks:
-- * `verify` takes FOR KEY SHARE on the lock's row and keeps it to the end of its transaction: the
--   lock is pinned.
-- * A renewal and a release change no key column, so they take FOR NO KEY UPDATE, which does not
--   conflict with a pin.
-- * Each function that gives a lock to another token first tries FOR UPDATE, with SKIP LOCKED. On a
--   pinned row this fails without a wait. See `_is_sole_locker`.
-- * A call with several keys may wait while it creates rows, in the order of the keys. Then it may
--   wait while it locks rows, in the same order, and afterwards it waits for no row. So calls
--   cannot deadlock. No call waits for an application.
--
-- Finding rows: with `= ANY (ARRAY[key])` in a join, or with `OFFSET 0`, the planner must use the
-- index to find the key. A session may make its plans while the table is nearly empty. For `= key`,
-- it then plans to read the whole index in each call. It may keep this plan while the table grows.
--
-- A process that listens for its turns has a beacon: a row that names its session. The beacon is
-- lit while the server has that session. It shows if a *waiting* process still exists, and if a
-- holder can be notified when an operator takes its lock away. It does not end a lease, because the
-- holder may still run after its session has ended. No advisory lock is used, because any role that
-- may connect could take it.
--
-- Callers need not trust the `search_path`. Each function without a leading `_` sets it, so no
-- function or operator of another role runs. A function with a leading `_` is called by these, or
-- by the pool after it has set the path. If others call it directly, it has no more rights than its
-- caller, so EXECUTE stays with PUBLIC. The setting costs time in each call, so functions with a
-- leading `_` do not have it.

-- Fails if the schema exists. It may belong to another role, which could replace its contents.
CREATE SCHEMA leasehold;

CREATE TABLE leasehold.meta (
  single  boolean PRIMARY KEY DEFAULT true CHECK (single),
  version integer NOT NULL,
  floor   bigint  NOT NULL                       -- fences of new rows are higher than this
);
INSERT INTO leasehold.meta (version, floor) VALUES (1, 0);

-- Returns the timeline of the server's log. A promoted standby begins a new timeline, on which the
-- latest commits of the old one may be missing.
CREATE FUNCTION leasehold._timeline() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
$$;

CREATE TYPE leasehold.state AS ENUM (
  'free',
  'held',                                        -- by `token`, for `process`
  'revoked',                                     -- from `token`, whose body may not have ended yet
  'handed',                                      -- to `process`, which has not taken it yet
  'kept',                                        -- by `cooldown`, after the release
  'shared'                                       -- by the tokens in `shares`
);

-- A row for each recently locked key. The row of a free key stays for a while, because its fence is
-- the key's counter. The table has only one index, and no key column changes, so updates stay on
-- their page (HOT).
CREATE TABLE leasehold.locks (
  key        text COLLATE "C" PRIMARY KEY,
  state      leasehold.state NOT NULL DEFAULT 'free',
  token      uuid,                               -- of the holder, or of a downgraded exclusive lock
  fence      bigint      NOT NULL DEFAULT 0,     -- of the latest acquisition; 0 in a new row
  reserved   integer     NOT NULL DEFAULT 0,     -- number of fences reserved after `fence`
  process    uuid,                               -- which has the lock, or to which it was handed
  most       integer     NOT NULL DEFAULT 0,     -- shared: the limit of permits, 0 for no limit
  queued     boolean     NOT NULL DEFAULT false, -- true if processes wait
  expires_at timestamptz NOT NULL DEFAULT 'epoch',
  function   text,                               -- the latest owner, as `host pid function`
  timeline   text        NOT NULL DEFAULT ''     -- WAL timeline of the latest acquisition
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- A row for each process that waits for a key. A row changes only while the key's row in `locks` is
-- locked.
CREATE TABLE leasehold.waiters (
  key     text COLLATE "C",
  process uuid,
  place   bigint GENERATED ALWAYS AS IDENTITY,   -- first come, first served
  seen_at timestamptz NOT NULL,                  -- time of the process's latest request
  since   timestamptz NOT NULL DEFAULT clock_timestamp(),
  owner   text,                                  -- of the first call that requested the lock
  beacon  boolean NOT NULL,                      -- true if its beacon was lit at that time
  PRIMARY KEY (key, process)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- A row for each session in which a process listens for its turns. Sweeps remove the rows of ended
-- sessions. The rows may be lost in a crash, because a crash also ends all sessions.
CREATE UNLOGGED TABLE leasehold.beacons (
  process uuid,
  pid     integer,
  role    oid         NOT NULL,
  began   timestamptz NOT NULL,                  -- start of the session
  lit_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (process, pid)
);

-- A row changes only while the key's row in `locks` is locked.
CREATE TABLE leasehold.shares (
  key        text COLLATE "C",
  token      uuid,
  fence      bigint      NOT NULL,
  expires_at timestamptz NOT NULL,
  process    uuid,                               -- which has the share
  owner      text,                               -- of the call that has the share
  timeline   text        NOT NULL DEFAULT '',    -- WAL timeline of the acquisition
  revoked    boolean     NOT NULL DEFAULT false, -- taken away; the body may not have ended yet
  PRIMARY KEY (key, token)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The highest fence of each key that `guard` has accepted.
CREATE TABLE leasehold.guards (
  key     text COLLATE "C" PRIMARY KEY,
  fence   bigint      NOT NULL,
  used_at timestamptz NOT NULL
) WITH (fillfactor = 50);
