//! Checks an ensemble for errors and risks.
//!
//! The check takes and releases a trial lock, and requests a session from each server in the URL.
//! It runs for `LockPool::check`, and when a pool connects. The pool then logs the findings.

use std::time::Duration;

use super::service::ZooKeeper;
use super::{failure, handshake};
use crate::check_report::{CheckReport, Finding};
use crate::error::millis;
use crate::store::Failure;
use crate::store::options::Options;
use crate::store::session::service::{Timeout, Trouble};
use crate::store::session::trial::try_out;

/// Least number of servers without a warning. With fewer, the loss of one server stops the whole
/// ensemble.
const FEWEST: usize = 3;

/// Returns all findings on the ensemble.
pub(super) async fn examine(
    ensemble: &ZooKeeper,
    options: &Options,
) -> Result<CheckReport, Failure> {
    let mut findings = Vec::new();
    let shortest = Timeout(ensemble.servers.classes().shortest);
    let trial = try_out(ensemble, shortest, options, failure::garbled);
    if let Err(trouble) = trial.await {
        findings.push(broken(trouble));
    }
    for server in ensemble.servers.address.servers() {
        findings.extend(answers(ensemble, server, options.io_timeout).await);
    }
    findings.extend(few(ensemble.servers.address.servers().len()));
    findings.extend(plain_text(ensemble));
    Ok(CheckReport::new(
        ensemble.servers.address.to_string(),
        findings,
    ))
}

fn broken(trouble: Trouble) -> Finding {
    match trouble {
        Trouble::Failed(failure) => {
            let text = format!("locks do not work on this ensemble: {}", failure.text());
            Finding::error(failure.code(), text)
        }
        Trouble::Ended => Finding::error(
            "session",
            "locks do not work on this ensemble: a session ended during the test; the ensemble is \
             too slow",
        ),
    }
}

/// Checks that one server grants sessions, and allows the same lifetimes as all servers in the URL
/// together.
async fn answers(ensemble: &ZooKeeper, server: &str, limit: Duration) -> Option<Finding> {
    let classes = ensemble.servers.classes();
    let known = (classes.shortest, classes.longest);
    match handshake::bounds(server, limit).await {
        Ok(bounds) if bounds == known => None,
        Ok((shortest, longest)) => Some(Finding::error(
            "session",
            format!(
                "{server} allows sessions of {} to {}, but the servers of the URL together allow \
                 {} to {}; a session may end early when it changes servers; give all the same \
                 `tickTime`, `minSessionTimeout` and `maxSessionTimeout`",
                millis(shortest),
                millis(longest),
                millis(known.0),
                millis(known.1)
            ),
        )),
        Err(error) => {
            let text = failure::of(&error);
            let text = format!("{server} does not open a session: {}", text.text());
            Some(Finding::warning("node", text))
        }
    }
}

fn few(servers: usize) -> Option<Finding> {
    (servers < FEWEST).then(|| {
        let text = if servers == 1 {
            "one server"
        } else {
            "two servers"
        };
        Finding::warning(
            "quorum",
            format!(
                "the URL names {text}, so no lock can be taken while one is down; run three or \
                 five, and name each"
            ),
        )
    })
}

fn plain_text(ensemble: &ZooKeeper) -> Option<Finding> {
    let server = ensemble.servers.address.readable()?;
    Some(Finding::warning(
        "plain-text",
        format!(
            "the traffic to {server} is not encrypted; keep the ensemble on a network that no \
             other party can read"
        ),
    ))
}
