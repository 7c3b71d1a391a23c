//! Checks an etcd cluster for present and future problems.
//!
//! The check takes and releases a trial lock, and requests the status of each member in the URL. It
//! runs for `LockPool::check`, and when a pool connects. The pool then logs the findings.

use std::time::Duration;

use super::connection::Connection;
use super::failure;
use super::service::Etcd;
use crate::check_report::{CheckReport, Finding};
use crate::store::Failure;
use crate::store::options::Options;
use crate::store::session::service::{Timeout, Trouble};
use crate::store::session::trial::try_out;

/// Lifetime of the trial's session.
const TRIAL: Timeout = Timeout(Duration::from_secs(2));

/// The oldest tested version.
const OLDEST: (u32, u32) = (3, 4);

/// First release without the bug etcd#15247, for each release line that had the bug at first. With
/// this bug, a leader that resumes after a pause can end leases that its successor keeps alive.
const CAREFUL: [(u32, u32, u32); 2] = [(3, 4, 31), (3, 5, 13)];

/// First release without a limit of 250 streams on a TLS connection (etcd#14169), for each release
/// line that once had this limit. The watch of each waiting key is a stream, and each request
/// needs one, too. At the limit, a heartbeat is not sent, so sessions end.
const UNLIMITED: [(u32, u32, u32); 2] = [(3, 4, 20), (3, 5, 5)];

/// Minimum number of voting members. With fewer members, the loss of one stops the whole cluster.
const FEWEST: usize = 3;

/// Examines the cluster and returns all findings.
pub(super) async fn examine(etcd: &Etcd, options: &Options) -> Result<CheckReport, Failure> {
    let limit = options.io_timeout;
    // Without a connection, the check cannot examine the cluster, so it returns the error.
    etcd.client.connection().await?;
    let mut findings = Vec::new();
    let trial = try_out(etcd, TRIAL, options, failure::garbled);
    if let Err(trouble) = trial.await {
        findings.push(broken(trouble));
    }
    let mut clusters = Vec::new();
    for at in 0..etcd.client.address.members() {
        findings.extend(member(etcd, at, limit, &mut clusters).await);
    }
    findings.extend(apart(&clusters));
    let asking = etcd
        .client
        .ask(|connection| async move { connection.members(limit).await });
    if let Ok(answer) = asking.await {
        let voters = answer.members.iter().filter(|member| !member.is_learner);
        findings.extend(few(voters.count()));
    }
    findings.extend(plain_text(etcd));
    Ok(CheckReport::new(etcd.client.address.to_string(), findings))
}

fn broken(trouble: Trouble) -> Finding {
    match trouble {
        Trouble::Failed(failure) => {
            let text = format!("locks do not work on this cluster: {}", failure.text());
            Finding::error(failure.code(), text)
        }
        Trouble::Ended => Finding::error(
            "session",
            "locks do not work on this cluster: a lease of 2 s ended during the test; the cluster \
             is too slow",
        ),
    }
}

/// Checks one member. Adds the ID of the member's cluster to `clusters`, which `apart` then
/// compares.
async fn member(etcd: &Etcd, at: usize, limit: Duration, clusters: &mut Vec<u64>) -> Vec<Finding> {
    let name = etcd.client.address.member(at);
    let asked = async {
        let connection = Connection::open(&etcd.client.address, at, etcd.client.attempt()).await?;
        let status = connection.status(limit).await;
        status.map_err(|problem| failure::of(&problem))
    };
    let status = match asked.await {
        Ok(status) => status,
        Err(failure) => {
            let text = format!("{name} does not report its state: {}", failure.text());
            return vec![Finding::warning("node", text)];
        }
    };
    clusters.extend(status.header.map(|header| header.cluster_id));
    let mut findings = Vec::new();
    findings.extend(old(name, &status.version));
    if etcd.client.address.is_encrypted() {
        findings.extend(limited(name, &status.version));
    }
    if status.leader == 0 {
        findings.push(Finding::warning(
            "node",
            format!("{name} has no leader; most members of the cluster must reach each other"),
        ));
    }
    for error in &status.errors {
        let text = format!("{name} has an alarm: {error}; locks fail while the database is full");
        findings.push(Finding::warning("node", text));
    }
    findings
}

fn old(name: &str, version: &str) -> Option<Finding> {
    let (major, minor, _) = numbers(version)?;
    if (major, minor) < OLDEST {
        let text = format!("{name} runs version {version}; locks need etcd 3.4 or later");
        return Some(Finding::error("version", text));
    }
    let careful = fixed_in(&CAREFUL, version)?;
    Some(Finding::warning(
        "version",
        format!(
            "{name} runs version {version}, in which a leader may end live sessions after a pause; \
             upgrade to {careful} or later"
        ),
    ))
}

/// Reports a version with a limit of streams on a TLS connection.
fn limited(name: &str, version: &str) -> Option<Finding> {
    let unlimited = fixed_in(&UNLIMITED, version)?;
    Some(Finding::warning(
        "version",
        format!(
            "{name} runs version {version}, which serves at most 250 waiting keys and requests of \
             a pool over TLS; with more, the pool loses its locks; upgrade to {unlimited} or later"
        ),
    ))
}

/// Returns the first release of the same line in `fixed`, if `version` is older.
fn fixed_in(fixed: &[(u32, u32, u32)], version: &str) -> Option<String> {
    let found = numbers(version)?;
    let is_later = |(major, minor, patch): &&(u32, u32, u32)| {
        (*major, *minor) == (found.0, found.1) && found.2 < *patch
    };
    let (major, minor, patch) = fixed.iter().find(is_later)?;
    Some(format!("{major}.{minor}.{patch}"))
}

/// Parses the numbers of a version, such as `3.4.23` or `3.6.0-rc.1`.
fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let release = version.split(['-', '+']).next()?;
    let mut numbers = release.split('.').map(str::parse);
    Some((
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
    ))
}

fn apart(clusters: &[u64]) -> Option<Finding> {
    let is_one = clusters.windows(2).all(|pair| pair[0] == pair[1]);
    (!is_one).then(|| {
        Finding::error(
            "cluster",
            "the servers of the URL belong to different clusters, which would grant the same lock \
             to several calls; name the members of one",
        )
    })
}

fn few(voters: usize) -> Option<Finding> {
    (voters < FEWEST).then(|| {
        let members = if voters == 1 { "member" } else { "members" };
        Finding::warning(
            "quorum",
            format!(
                "the cluster has {voters} {members}, so no lock can be taken while one is down; \
                 run three or five"
            ),
        )
    })
}

fn plain_text(etcd: &Etcd) -> Option<Finding> {
    let member = etcd.client.address.readable()?;
    Some(Finding::warning(
        "plain-text",
        format!(
            "the traffic to {member} is not encrypted; use `etcds://`, or keep the cluster on a \
             network that no other party can read"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_report::Severity;

    #[test]
    fn old_versions_are_reported() {
        let severity = |version| old("m", version).map(|finding| finding.severity);
        assert_eq!(severity("3.3.27"), Some(Severity::Error));
        for version in ["3.4.0", "3.4.23", "3.5.12"] {
            assert_eq!(severity(version), Some(Severity::Warning), "{version}");
        }
        for version in ["3.4.31", "3.5.13", "3.6.0-rc.1", "4.0.0", "unknown"] {
            assert_eq!(severity(version), None, "{version}");
        }
    }

    #[test]
    fn versions_with_a_limit_of_streams_are_reported() {
        for (version, unlimited) in [("3.4.19", "3.4.20"), ("3.5.0", "3.5.5")] {
            let finding = limited("m", version).expect(version);
            assert_eq!(finding.severity, Severity::Warning);
            assert!(finding.text.contains(unlimited), "{}", finding.text);
        }
        for version in ["3.4.20", "3.5.5", "3.6.0-rc.1", "unknown"] {
            assert_eq!(limited("m", version), None, "{version}");
        }
    }
}
