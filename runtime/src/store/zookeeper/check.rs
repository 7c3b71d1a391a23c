//! Looks for what is wrong with an ensemble, or would go wrong later.
//!
//! The check takes a lock of its own and gives it back, and asks each server that the URL names for
//! a session. It runs when a pool connects, which logs the findings, and for `LockPool::check`.

use std::time::Duration;

use super::service::ZooKeeper;
use super::{failure, handshake};
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::check_report::{CheckReport, Finding};
use crate::error::millis;
use crate::key::RESERVED;
use crate::store::Failure;
use crate::store::options::Options;
use crate::store::session::service::{Answer, Entered, Entering, Node, Service, Timeout, Trouble};

/// With fewer servers the loss of one is the loss of all.
const FEWEST: usize = 3;

/// All findings on the ensemble.
pub(super) async fn examine(
    ensemble: &ZooKeeper,
    options: &Options,
) -> Result<CheckReport, Failure> {
    let mut findings = Vec::new();
    if let Err(trouble) = try_out(ensemble, options).await {
        findings.push(broken(trouble));
    }
    for server in ensemble.address.servers() {
        findings.extend(answers(ensemble, server, options.io_timeout).await);
    }
    findings.extend(few(ensemble.address.servers().len()));
    findings.extend(plain_text(ensemble));
    Ok(CheckReport::new(ensemble.address.to_string(), findings))
}

/// A lock's whole life, with another node that finds it held.
async fn try_out(ensemble: &ZooKeeper, options: &Options) -> Answer<()> {
    let limit = options.io_timeout;
    let nonce = Nonce::new();
    let name = format!("{RESERVED}:trial:{}", Token::random(nonce).hex());
    let key = FullKey::new(&options.namespace, &name);
    let node = || Node {
        key: key.clone(),
        name: Token::random(nonce),
    };
    let (mine, other) = (node(), node());
    let (session, _) = ensemble
        .open(Timeout(ensemble.classes.shortest), limit)
        .await?;
    let tried = async {
        let first = ensemble.enter(&session, &mine, Entering::NEW, "check", limit);
        let first = first.await?;
        let second = ensemble.enter(&session, &other, Entering::NEW, "check", limit);
        let second = second.await?;
        let Entered::First { fence, .. } = first else {
            return Err(failure::garbled().into());
        };
        let made = [(mine.clone(), fence)];
        let there = ensemble.present(&session, &made, limit).await?;
        let removed = ensemble.remove(&session, &mine, Some(fence), limit).await?;
        if matches!(second, Entered::Held(_)) && there == [true] && removed {
            return Ok(());
        }
        Err(Trouble::Failed(failure::garbled()))
    };
    let tried = tried.await;
    ensemble.close(&session, limit).await?;
    tried
}

fn broken(trouble: Trouble) -> Finding {
    match trouble {
        Trouble::Failed(failure) => {
            let text = format!("locks do not work on this ensemble: {}", failure.text());
            Finding::error(failure.code(), text)
        }
        Trouble::Ended => Finding::error(
            "session",
            "locks do not work on this ensemble: a session ended while it was tried; the ensemble is too slow",
        ),
    }
}

/// Whether one server gives sessions, within the bounds that all servers of the URL have in common.
async fn answers(ensemble: &ZooKeeper, server: &str, limit: Duration) -> Option<Finding> {
    let known = (ensemble.classes.shortest, ensemble.classes.longest);
    match handshake::bounds(server, limit).await {
        Ok(bounds) if bounds == known => None,
        Ok((shortest, longest)) => Some(Finding::error(
            "session",
            format!(
                "{server} allows sessions of {} to {}, and all of the URL those of {} to {}, so a session may end early when it changes servers; give all the same `tickTime`, `minSessionTimeout` and `maxSessionTimeout`",
                millis(shortest),
                millis(longest),
                millis(known.0),
                millis(known.1)
            ),
        )),
        Err(failure) => {
            let text = format!("{server} gives no session: {}", failure.text());
            Some(Finding::warning("node", text))
        }
    }
}

fn few(servers: usize) -> Option<Finding> {
    (servers < FEWEST).then(|| {
        let text = if servers == 1 { "one server" } else { "two servers" };
        Finding::warning(
            "quorum",
            format!(
                "the URL names {text}, so no lock can be taken while one is away; run three or five, and name each"
            ),
        )
    })
}

fn plain_text(ensemble: &ZooKeeper) -> Option<Finding> {
    let server = ensemble.address.readable()?;
    Some(Finding::warning(
        "plain-text",
        format!(
            "what is sent to {server} is not encrypted; keep the ensemble on a network that no other party can read"
        ),
    ))
}
