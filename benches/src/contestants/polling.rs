//! The hand-written lock, with a new attempt every 50 ms.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::hand_written::HandWritten;
use super::{Fault, Locks};
use crate::plan::Plan;

/// The pause between two attempts.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// The hand-written lock, and the time limit of its attempts.
pub(crate) struct Polling {
    locks: HandWritten,
    patience: Duration,
}

impl Polling {
    pub(crate) async fn connect(plan: &Plan) -> Result<Self, Fault> {
        Ok(Self {
            locks: HandWritten::connect(plan).await?,
            patience: plan.patience(),
        })
    }
}

impl Locks for Polling {
    async fn inside<B>(&self, key: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let asked = Instant::now();
        let token = loop {
            if let Some(token) = self.locks.take(key).await? {
                break token;
            }
            if asked.elapsed() >= self.patience {
                return Err(format!("{key} was not free within {:?}", self.patience).into());
            }
            sleep(PAUSE).await;
        };
        let output = body.await;
        self.locks.give_back(key, &token).await?;
        Ok(output)
    }
}
