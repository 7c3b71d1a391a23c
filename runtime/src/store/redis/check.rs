//! Checks a server for problems, and for settings that cause problems later.
//!
//! The check runs the scripts with the key of a trial lock, and reads the server's `INFO`. It runs
//! for `LockPool::check`, and when a pool connects, to log the findings.
//!
//! The check needs only the permissions that locks need. It reports a setting that it may not read
//! as unchecked.

use std::time::Duration;

use redis::{Pipeline, Value, cmd};

use super::commands::key_names::KeyNames;
use super::commands::{calls, failure, reply};
use super::master_address::MasterAddress;
use super::replication::ReplicaAcks;
use super::server_info::{Info, Role};
use super::wire::connect::OpenedConnection;
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::check_report::CheckReport;
use crate::check_report::{Finding, Severity};
use crate::error::LockError;
use crate::store::options::Options;
use crate::store::{Failure, Give, GiveKind, Op, Renewal, Take};

/// The ttl of the trial key. If the server refuses to remove the key, it expires after this time.
const TTL: Duration = Duration::from_secs(1);

/// The oldest supported major version. Earlier servers replicate the source of a script, and each
/// replica runs it again. The scripts of locks read the clock, so the server must replicate their
/// effects instead.
const OLDEST_MAJOR: u32 = 5;

/// Returns all findings on the server of `opened`.
pub(super) async fn examine(
    opened: &mut OpenedConnection,
    address: &MasterAddress,
    names: &KeyNames,
    options: &Options,
) -> Result<CheckReport, Failure> {
    let ops = trial(names);
    let replica_acks = ReplicaAcks::new(options);
    let mut pipeline = Pipeline::new();
    for op in &ops {
        calls::command(op, names, true, opened.line.out());
    }
    pipeline.add_command(cmd("PUBLISH").arg(names.channel()).arg("").to_owned());
    if let Some(replica_acks) = &replica_acks {
        replica_acks.connected(opened.role);
        pipeline.add_command(replica_acks.command(options.io_timeout));
    }
    pipeline.add_command(cmd("INFO"));
    let answers = tokio::time::timeout(options.io_timeout, opened.ask(&pipeline)).await;
    let mut answers = answers
        .unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()))
        .map_err(|error| failure::broken(&error))?;
    let info = Info::read(answers.pop().as_ref());
    let mut findings = findings_in(info.as_ref(), address, names.in_cluster());
    let confirmed = replica_acks.map(|replica_acks| replica_acks.judge(answers.pop()));
    let published = !matches!(answers.pop(), Some(Value::ServerError(_)));
    // Reports the trial only if none of the findings is an error yet. A replica refuses the trial,
    // and so does a node of a cluster that is checked as a single server. The findings then contain
    // the reason already.
    if findings
        .iter()
        .all(|finding| finding.severity < Severity::Error)
    {
        findings.extend(tried(&ops, answers, names).or_else(|| missing_acks(confirmed)));
    }
    findings.extend(turns(opened.listening && published));
    findings.extend(plain_text(opened, address));
    Ok(CheckReport::new(address.to_string(), findings))
}

/// Returns the requests of the trial. They take a lock, try to take it with another token, renew
/// it, remove it, and leave its queue.
fn trial(names: &KeyNames) -> [Op; 5] {
    let token = Token::random(Nonce::new());
    let key: FullKey = names.trial(token).into();
    let acquire = |token| Op::Take(Take::lock(key.clone(), token, TTL, "check"));
    [
        acquire(token),
        acquire(Token::random(Nonce::new())),
        Op::Keep {
            renewals: vec![Renewal {
                key: key.clone(),
                token,
                ttl: TTL,
            }],
            shares: false,
        },
        Op::Give(Give::now(key.clone(), token, GiveKind::Lock)),
        Op::Leave { key },
    ]
}

/// Returns a finding for the first step of the trial that failed.
fn tried(ops: &[Op], answers: Vec<Value>, names: &KeyNames) -> Option<Finding> {
    // A slot that moves to another node is not a problem.
    let moves = |failure: &Failure| {
        names.in_cluster() && matches!(failure.code(), "MOVED" | "ASK" | "TRYAGAIN")
    };
    let mut failures = ops
        .iter()
        .zip(answers)
        .filter_map(|(op, answer)| reply::read(op, answer, names.scripts()).err())
        .filter(|failure| !moves(failure));
    failures.next().map(|failure| broken(&failure))
}

fn missing_acks(confirmed: Option<Result<(), Failure>>) -> Option<Finding> {
    confirmed?.err().map(|failure| broken(&failure))
}

fn broken(failure: &Failure) -> Finding {
    let LockError::Unavailable { source } = &failure.error else {
        return Finding::error("", failure.error.to_string());
    };
    let code = match source.code() {
        "NOPERM" => "permission",
        "READONLY" => "role",
        code => code,
    };
    Finding::error(code, format!("locks do not work on this server: {source}"))
}

/// Returns the findings from the server's `INFO`.
fn findings_in(info: Option<&Info>, address: &MasterAddress, in_cluster: bool) -> Vec<Finding> {
    let Some(info) = info else {
        return vec![Finding::warning(
            "unchecked",
            "the server's role, version, eviction policy, persistence and replicas could not be checked; allow the user +info",
        )];
    };
    let checks = [role(info), cluster(info, in_cluster), version(info)];
    let fails_over = in_cluster || address.fails_over();
    let more = [
        eviction(info),
        persistence(info),
        fail_over(info, fails_over),
    ];
    checks.into_iter().chain(more).flatten().collect()
}

fn role(info: &Info) -> Option<Finding> {
    let Role { is_master, .. } = info.role()?;
    (!is_master).then(|| {
        Finding::error(
            "role",
            "the server is a replica, but locks must be on its master; point the URL there, or use \
             redis-sentinel://",
        )
    })
}

fn cluster(info: &Info, in_cluster: bool) -> Option<Finding> {
    let is_node = info.field("cluster_enabled")? == "1";
    (is_node != in_cluster).then(|| {
        Finding::error(
            "cluster",
            if is_node {
                "the server is part of a cluster, but one node alone cannot serve all keys; write \
                 redis-cluster://host:port,… with some of its nodes, or use a server outside of it"
            } else {
                "the server is not a cluster node; write redis://host:port"
            },
        )
    })
}

fn version(info: &Info) -> Option<Finding> {
    let version = info.field("redis_version")?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major < OLDEST_MAJOR).then(|| {
        Finding::error(
            "version",
            format!(
                "the server runs version {version}; locks need Redis {OLDEST_MAJOR} or later, or \
                 Valkey"
            ),
        )
    })
}

/// Returns a finding if the server can evict locks. Every lock has a ttl, so every policy except
/// `noeviction` can drop a held lock.
fn eviction(info: &Info) -> Option<Finding> {
    let limited = info.field("maxmemory").is_some_and(|limit| limit != "0");
    let policy = info.field("maxmemory_policy")?;
    (limited && policy != "noeviction").then(|| {
        Finding::warning(
            "eviction",
            format!(
                "the server's maxmemory-policy is {policy}, which drops held locks when memory is \
                 full; set it to noeviction"
            ),
        )
    })
}

/// Returns a finding if the server writes no append-only log. Snapshots do not count, because a
/// snapshot is always older than the newest lock.
fn persistence(info: &Info) -> Option<Finding> {
    (info.field("aof_enabled")? == "0").then(|| {
        Finding::warning(
            "persistence",
            "the server keeps no log of its writes, so a restart loses held locks; set appendonly \
             to yes, and appendfsync to always if no lock may be lost",
        )
    })
}

fn fail_over(info: &Info, fails_over: bool) -> Option<Finding> {
    let Role { replicas, .. } = info.role()?;
    (replicas == 0 && fails_over).then(|| {
        Finding::warning(
            "replicas",
            "the master has no replica, so a fail-over finds none to promote; start one, or check \
             why it is not connected",
        )
    })
}

fn turns(are_notified: bool) -> Option<Finding> {
    (!are_notified).then(|| {
        Finding::warning(
            "turns",
            "waiting processes cannot be notified of their turn and poll instead; allow the user \
             +subscribe, +publish and the namespace's channels, &lock:*, and use a server that \
             speaks RESP3",
        )
    })
}

fn plain_text(opened: &OpenedConnection, address: &MasterAddress) -> Option<Finding> {
    let host = opened.readable.clone().or_else(|| address.readable())?;
    Some(Finding::warning(
        "plain-text",
        format!(
            "the traffic to {host}, including the password, is not encrypted; use rediss:// on a \
             network that other parties can read"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(text: &str) -> Info {
        Info::read(Some(&Value::BulkString(text.into()))).expect("a text")
    }

    #[test]
    fn only_evicting_policies_are_reported() {
        let findings_in = |limit: u64, policy: &str| {
            let text = format!("maxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n");
            eviction(&info(&text)).map(|finding| finding.text)
        };
        assert_eq!(findings_in(0, "allkeys-lru"), None);
        assert_eq!(findings_in(100, "noeviction"), None);
        assert_eq!(eviction(&info("")), None);
        let reported = findings_in(100, "volatile-ttl").expect("it drops locks");
        assert!(reported.contains("volatile-ttl"), "{reported}");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for (text, reported) in [("4.0.14", true), ("5.0.0", false), ("10.2.1", false)] {
            let found = version(&info(&format!("redis_version:{text}\r\n")));
            assert_eq!(found.is_some(), reported, "{text}");
        }
        assert_eq!(version(&info("redis_version:?\r\n")), None);
    }
}
