//! Attempts to reach the server again in an outage.
//!
//! A request or a heartbeat also shows that the server is back. But there may be none: while the
//! server is away, calls that try only once are refused without a request. So a task of the store
//! makes attempts.

use std::sync::Arc;
use std::time::Duration;

use super::service::Service;
use super::shared::Shared;

/// Pauses after an attempt: the short one in the first seconds of an outage, and then the long one.
/// Without pauses, a server that comes back would be flooded.
const SHORT_RETRY: Duration = Duration::from_millis(200);
const LONG_RETRY: Duration = Duration::from_secs(1);
const SHORT_RETRIES: u32 = 30;

/// Tries to reach the server while it is out, until the store is dropped.
pub(super) async fn reach_again<S: Service>(shared: Arc<Shared<S>>) {
    let outage = shared.service.outage();
    loop {
        outage.begins().await;
        let mut attempts = 0_u32;
        loop {
            shared.service.reach_again().await;
            attempts = attempts.saturating_add(1);
            let early = attempts < SHORT_RETRIES;
            // Sleeps even after a success. Otherwise, the next attempt would begin at once if a
            // request fails nevertheless.
            tokio::time::sleep(if early { SHORT_RETRY } else { LONG_RETRY }).await;
            if outage.absence().is_none() {
                break;
            }
        }
    }
}
