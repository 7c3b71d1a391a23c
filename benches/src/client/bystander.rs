//! A task that has nothing to do with locks and shares the runtime with those that do.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::alarm::Alarm;
use super::histogram;
use crate::clock;
use crate::contestants::Fault;

/// How long it sleeps each time.
const SLEEP: Duration = Duration::from_millis(1);

/// How late it ran whenever it had slept, in nanoseconds: at first until `from`, then again and
/// again until `to`. On a runtime that never gets to it the first sleep is the only one, and its
/// lateness the answer.
pub(super) async fn lateness(from: u64, to: u64) -> Result<Histogram<u64>, Fault> {
    let alarm = Alarm::new()?;
    let mut late = histogram()?;
    let mut due = from;
    while due < to {
        alarm.until(due).await?;
        let woken = clock::now();
        late.saturating_record(woken - due);
        due = woken + clock::nanos(SLEEP);
    }
    Ok(late)
}
