//! Attempts to reach the server again in an outage.
//!
//! An answer to a request or a heartbeat also shows that the server is back. But perhaps neither is
//! sent. Without a session there are no heartbeats. While the server is away, calls that try only
//! once are refused without a request. So a task of the store repeatedly tries to reach the server.

use std::sync::Arc;
use std::time::Duration;

use super::service::Service;
use super::shared::Shared;
use crate::base::reporter;
use crate::store::StoreEvent;

/// Pauses after an attempt: the short pause in the first seconds of an outage, and then the long
/// one. Without pauses, the attempts would flood a returning server.
const SHORT_RETRY: Duration = Duration::from_millis(200);
const LONG_RETRY: Duration = Duration::from_secs(1);
const SHORT_RETRIES: u32 = 30;

/// Minimum time without a lost request after which an answer ends an outage. Longer than the time
/// between two failures of heartbeats.
const QUIET: Duration = Duration::from_secs(5);

/// Tries to reach the server while it is out, until the store is dropped.
pub(super) async fn reach_again<S: Service>(shared: Arc<Shared<S>>) {
    let outage = shared.service.outage();
    let quiet = QUIET.max(2 * shared.io_timeout);
    loop {
        outage.begins().await;
        let mut attempts = 0_u32;
        loop {
            let answered = shared.service.reach_again().await;
            if answered && outage.may_end(quiet) && outage.back() {
                reporter::log(|| tracing::info!(store = S::NAME, "connected again"));
                shared.emit(StoreEvent::Connected);
            }
            attempts = attempts.saturating_add(1);
            let early = attempts < SHORT_RETRIES;
            // Sleeps even after a success. Otherwise, a request that fails at once would start the
            // next attempt without a pause.
            tokio::time::sleep(if early { SHORT_RETRY } else { LONG_RETRY }).await;
            if !outage.is_out() {
                break;
            }
        }
    }
}
