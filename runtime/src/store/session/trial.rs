//! Checks that locks work at a server, with a trial lock in a dedicated session.

use super::service::{Answer, Entered, First, Node, Service, Timeout, Trouble};
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::key::RESERVED;
use crate::store::Failure;
use crate::store::options::Options;

/// Takes a trial lock in a session with the lifetime `timeout`, checks that a second node finds the
/// lock held, and releases it. `garbled` returns the error for an impossible answer.
pub(crate) async fn try_out<S: Service>(
    service: &S,
    timeout: Timeout,
    options: &Options,
    garbled: fn() -> Failure,
) -> Answer<()> {
    let limit = options.io_timeout;
    let nonce = Nonce::new();
    let name = format!("{RESERVED}:trial:{}", Token::random(nonce).hex());
    let key = FullKey::new(&options.namespace, &name);
    let (session, _) = service.open(timeout, limit).await?;
    let node = |number| {
        let name = service.name(&session, &key, number);
        Node {
            key: key.clone(),
            name: name.unwrap_or_else(|| Token::random(nonce)),
            number,
        }
    };
    let (mine, other) = (node(0), node(1));
    let tried = async {
        let first = service.enter(&session, &mine, false, "check", limit);
        let first = first.await?;
        let second = service.enter(&session, &other, false, "check", limit);
        let second = second.await?;
        let Entered::First(First { fence, .. }) = first else {
            return Err(garbled().into());
        };
        // Skipped if a heartbeat has a pause between its requests, because this pause would delay
        // each pool that connects.
        if service.confirmed_within().is_zero() {
            service.heartbeat(&session, limit).await?;
        }
        let made = [(mine.clone(), fence)];
        let there = service.present(&session, &made, limit).await?;
        let removed = service.remove(&session, &mine, limit).await?;
        if matches!(second, Entered::Held(_)) && there == [true] && removed {
            return Ok(());
        }
        Err(Trouble::Failed(garbled()))
    };
    let tried = tried.await;
    service.close(&session, limit).await?;
    tried
}
