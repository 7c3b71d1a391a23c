//! A bystander: a task without locks that shares the runtime with the tasks that take locks. If
//! those tasks keep the runtime's threads busy, the bystander wakes up late.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::alarm::Alarm;
use super::histogram;
use crate::clock;
use crate::contestants::Fault;

/// Length of each sleep of the bystander.
const SLEEP: Duration = Duration::from_millis(1);

/// Measures the lateness of each wake-up of the bystander, in nanoseconds. The bystander first
/// sleeps until `from`, and then for `SLEEP` again and again until `to`. If the bystander's first
/// sleep ends only after `to`, no further wake-up is measured.
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
