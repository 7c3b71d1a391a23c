//! A task that has nothing to do with locks and shares the runtime with those that do.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::alarm::Alarm;
use super::histogram;
use crate::clock;
use crate::contestants::Fault;

/// How long it sleeps each time.
const SLEEP: Duration = Duration::from_millis(1);

/// How late it ran after each of its sleeps between the two stamps, in nanoseconds.
pub(super) async fn lateness(from: u64, to: u64) -> Result<Histogram<u64>, Fault> {
    let alarm = Alarm::new()?;
    let mut late = histogram()?;
    alarm.until(from).await?;
    loop {
        let due = clock::now() + clock::nanos(SLEEP);
        if due >= to {
            return Ok(late);
        }
        alarm.until(due).await?;
        late.saturating_record(clock::now() - due);
    }
}
