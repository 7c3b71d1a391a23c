//! Checks a database for present and future problems.
//!
//! The check calls the SQL functions of leasehold with the key of a trial lock, and reads the
//! server's settings and statistics. It runs for `LockPool::check`, and when a pool connects, to
//! log the findings.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_postgres::Row;

use super::address::{Address, Turns};
use super::calls::Packer;
use super::connection::Opened;
use super::failure::{self, Problem};
use super::turns::Listener;
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::check_report::{CheckReport, Finding};
use crate::error::LockError;
use crate::key::RESERVED;
use crate::owner::Owner;
use crate::store::options::Options;
use crate::store::{Failure, Give, GiveKind, Op, OpId, Renewal, Request, Take};

/// The ttl of the trial lock.
const TTL: Duration = Duration::from_secs(1);

/// The oldest tested version of PostgreSQL, as in `server_version_num`.
const OLDEST: i32 = 130_000;

/// More dead rows than this suggest that vacuum cannot remove them.
const MANY_DEAD_ROWS: i64 = 20_000;

const FACTS: &str = "
SELECT current_setting('server_version_num')::integer AS version,
       current_setting('server_version') AS version_text,
       pg_is_in_recovery() AS is_standby,
       current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off' AS is_durable,
       (SELECT c.relpersistence = 'u' FROM pg_class c WHERE c.oid = 'leasehold.locks'::regclass) AS is_unlogged,
       current_setting('synchronous_standby_names') <> '' AS has_synchronous_standbys,
       (SELECT count(*) FROM pg_stat_replication) AS standbys,
       coalesce((SELECT s.n_dead_tup FROM pg_stat_all_tables s WHERE s.relid = 'leasehold.locks'::regclass), 0) AS dead_rows
";

/// Query for pinned free locks, and for the session that pins each. A lock is pinned while an open
/// transaction, for example one that verified the lock's fence, has locked its row. Until this
/// transaction ends, no process can take the lock.
const PINS: &str = "SELECT p.key, p.session FROM (
    SELECT l.key, leasehold._pin(l.xmax) AS session FROM leasehold.locks l
    WHERE (l.state = 'free' OR l.expires_at <= clock_timestamp()) AND l.xmax <> '0'::xid
  ) p WHERE p.session IS NOT NULL LIMIT 1000";

/// Minimum duration of a reported pin. The transactions in which leasehold takes and releases locks
/// also lock rows, but for less time.
const PINNED_FOR: Duration = Duration::from_millis(200);

/// Returns all findings on the database of `opened`, except pinned free locks (see `PINS`).
pub(super) async fn examine(
    opened: &mut Opened,
    address: &Address,
    options: &Options,
) -> Result<CheckReport, Failure> {
    let limit = options.io_timeout;
    let rows = opened.query(FACTS, &[], limit).await?;
    let facts = rows.first().ok_or(Problem::TooFewRows);
    let facts = facts.and_then(|row| Ok(findings_in(row)?));
    let mut findings = facts.map_err(|problem| failure::unread(&problem))?;
    let is_standby = findings.iter().any(|finding| finding.code == "role");
    if !is_standby && let Err(failure) = try_out(opened, options).await {
        findings.push(broken(&failure));
    }
    findings.extend(plain_text(address));
    findings.extend(unproven(address));
    let listens = opened.listens();
    findings.extend(turns(listens, address, options).await);
    Ok(CheckReport::new(address.to_string(), findings))
}

/// Like `examine`, but also reports pinned free locks (see `PINS`).
pub(super) async fn examine_all(
    opened: &mut Opened,
    address: &Address,
    options: &Options,
) -> Result<CheckReport, Failure> {
    let report = examine(opened, address, options).await?;
    let pins = pins(opened, options).await?;
    let findings = report.findings.into_iter().chain(pins);
    Ok(CheckReport::new(address.to_string(), findings.collect()))
}

/// Finds the transactions that pin free locks. Queries twice, and reports only the pins found both
/// times. So the short transactions in which leasehold takes and releases locks do not count.
async fn pins(opened: &mut Opened, options: &Options) -> Result<Option<Finding>, Failure> {
    let mut seen: Option<BTreeMap<String, String>> = None;
    for pause in [Duration::ZERO, PINNED_FOR] {
        tokio::time::sleep(pause).await;
        let rows = opened.query(PINS, &[], options.io_timeout).await?;
        let pins = rows
            .iter()
            .map(|row| Ok((row.try_get("key")?, row.try_get("session")?)));
        let pins: Result<BTreeMap<String, String>, Problem> = pins.collect();
        let mut pins = pins.map_err(|problem| failure::unread(&problem))?;
        if let Some(seen) = seen {
            pins.retain(|key, session| seen.get(key) == Some(session));
        }
        if pins.is_empty() {
            return Ok(None);
        }
        seen = Some(pins);
    }
    let pins = seen.unwrap_or_default();
    let (session, number) = (
        pins.values().next().and_then(|text| Owner::read(text)),
        pins.len(),
    );
    let session = session.map_or_else(String::new, |session| format!(", the first by {session}"));
    Ok(Some(Finding::warning(
        "pinned",
        format!(
            "open transactions keep {number} locks from every call{session}; a transaction that \
             verified a lock keeps it until its COMMIT: set idle_in_transaction_session_timeout \
             and tcp_keepalives_idle, and end forgotten ones with pg_terminate_backend"
        ),
    )))
}

/// Reports a failed attempt to connect. If the server answered, but the database cannot keep locks,
/// returns a report with this finding. Otherwise, returns an error.
pub(super) fn unreachable(address: &Address, failure: Failure) -> Result<CheckReport, LockError> {
    match failure.error {
        LockError::Config { reason } => {
            let finding = Finding::error("schema", reason);
            Ok(CheckReport::new(address.to_string(), vec![finding]))
        }
        error => Err(error),
    }
}

/// Takes, renews and releases a trial lock, with a competing acquire.
async fn try_out(opened: &mut Opened, options: &Options) -> Result<(), Failure> {
    let (process, token) = (Token::random(Nonce::new()), Token::random(Nonce::new()));
    let name = format!("{RESERVED}:trial:{}", process.hex());
    let key = FullKey::new(&options.namespace, &name);
    let acquire = |token| Op::Take(Take::lock(key.clone(), token, TTL, "check"));
    let renewal = Renewal {
        key: key.clone(),
        token,
        ttl: TTL,
    };
    let ops = [
        acquire(token),
        acquire(Token::random(Nonce::new())),
        Op::Keep {
            renewals: vec![renewal],
            shares: false,
        },
        Op::Give(Give::now(key.clone(), token, GiveKind::Lock)),
        Op::Leave { key: key.clone() },
    ];
    let mut packer = Packer::default();
    for (id, op) in (0..).zip(ops) {
        let request = Request {
            id: OpId(id),
            op,
            patience: options.io_timeout,
        };
        packer.add(request, true);
    }
    for call in packer.finish() {
        let rows = opened.run(&call, process, options.io_timeout).await?;
        for (_, reply) in call.replies(&rows, true) {
            reply?;
        }
    }
    Ok(())
}

fn broken(failure: &Failure) -> Finding {
    let code = match failure.code() {
        "42501" => "permission",
        "25006" => "role",
        code => code,
    };
    let text = format!("locks do not work on this server: {}", failure.text());
    Finding::error(code, text)
}

/// Returns the findings from the server's settings and statistics.
fn findings_in(row: &Row) -> Result<Vec<Finding>, tokio_postgres::Error> {
    let mut findings = Vec::new();
    let version: i32 = row.try_get("version")?;
    if version < OLDEST {
        let text: String = row.try_get("version_text")?;
        findings.push(Finding::error(
            "version",
            format!("the server runs version {text}; locks need PostgreSQL 13 or later"),
        ));
    }
    if row.try_get("is_standby")? {
        findings.push(Finding::error(
            "role",
            "the server is a standby, but locks must be on the primary; point the URL there, or \
             name all hosts in it",
        ));
    }
    let is_unlogged: Option<bool> = row.try_get("is_unlogged")?;
    if !row.try_get::<_, bool>("is_durable")? || is_unlogged == Some(true) {
        findings.push(Finding::warning(
            "persistence",
            "the server answers before its changes are on disk, so a crash loses held locks; set \
             fsync and synchronous_commit to on for this role, and keep leasehold.locks a logged \
             table",
        ));
    }
    if row.try_get::<_, i64>("standbys")? > 0 && !row.try_get("has_synchronous_standbys")? {
        findings.push(Finding::warning(
            "replicas",
            "the server has standbys but waits for none of them, so a fail-over loses the latest \
             locks; set synchronous_standby_names",
        ));
    }
    if row.try_get::<_, i64>("dead_rows")? > MANY_DEAD_ROWS {
        findings.push(Finding::warning(
            "bloat",
            "the table of the locks has many dead rows, which make each lock slower; look for \
             transactions that stay open for long, and for unused replication slots",
        ));
    }
    Ok(findings)
}

fn plain_text(address: &Address) -> Option<Finding> {
    let host = address.readable()?;
    Some(Finding::warning(
        "plain-text",
        format!(
            "the traffic to {host} is not encrypted; keep the server on a network that no other \
             party can read"
        ),
    ))
}

fn unproven(address: &Address) -> Option<Finding> {
    let host = address.unproven()?;
    Some(Finding::warning(
        "unverified",
        format!(
            "any server can pose as {host}: `sslmode=require` encrypts but does not verify the \
             server; write `sslmode=verify-full`"
        ),
    ))
}

/// Returns a finding if the server will not notify the pool when a key is reserved for it.
async fn turns(listens: bool, address: &Address, options: &Options) -> Option<Finding> {
    let process = Token::random(Nonce::new());
    let why = match address.turns() {
        Turns::Here if listens => return None,
        Turns::Here => "the server does not accept LISTEN".to_owned(),
        Turns::Nowhere => "the pool does not listen".to_owned(),
        Turns::Beside(_) => match Listener::try_out(address, process, options.io_timeout).await {
            Ok(()) => return None,
            Err(failure) => failure.text(),
        },
    };
    Some(Finding::warning(
        "turns",
        format!(
            "processes are not notified of their turn and poll instead ({why}); add a `listen=` \
             with the server itself to the URL"
        ),
    ))
}
