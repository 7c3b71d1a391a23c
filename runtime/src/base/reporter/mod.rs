//! The reporter thread, which passes log events and metrics to the program's subscriber and
//! recorder.
//!
//! A subscriber of `tracing` and a recorder of `metrics` are the program's code. They may block,
//! for example on a full pipe, or panic. If that happened under the engine's mutex, all renewals
//! and callers would stop. So the engine does not call them, but sends its reports to this thread,
//! and never waits for the thread.
//!
//! Reports keep their order. While [`MOST`] reports wait, further reports are dropped. The thread
//! logs the number of dropped reports.

#[cfg(feature = "metrics")]
pub(crate) mod meters;
#[cfg(not(feature = "metrics"))]
pub(crate) mod unmetered;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tracing::Dispatch;
use tracing::dispatcher::{get_default, with_default};
use tracing::level_filters::LevelFilter;

#[cfg(not(feature = "metrics"))]
pub(crate) use self::unmetered as meters;

/// Maximum number of waiting reports.
const MOST: usize = 1024;

/// Interval at which the reporter thread checks for new counts and passes them on, while calls are
/// made.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Interval at which all gauges and descriptions are reported to the recorder again, even if they
/// have not changed, because a recorder may be installed late.
const TELL_AGAIN: Duration = Duration::from_secs(10);

enum Report {
    /// A log event, with the subscriber of the thread that created the event.
    Log(Dispatch, Box<dyn FnOnce() + Send>),
    /// Something was counted, so the thread must check the counts at intervals.
    Counts,
    /// A request for an answer after all earlier reports are delivered.
    Flush(oneshot::Sender<()>),
}

static REPORTER: OnceLock<Option<SyncSender<Report>>> = OnceLock::new();

/// Number of dropped reports not logged yet.
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// Logs `event` on the reporter thread. Never blocks, and never runs code of the program.
pub(crate) fn log(event: impl FnOnce() + Send + 'static) {
    if LevelFilter::current() == LevelFilter::OFF {
        return;
    }
    let subscriber = get_default(Dispatch::clone);
    if !send(Report::Log(subscriber, Box::new(event))) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes the reporter thread pass the counts on soon. Returns false if the thread could not be
/// notified.
#[cfg_attr(
    not(feature = "metrics"),
    expect(dead_code, reason = "nothing is counted")
)]
pub(crate) fn counts_changed() -> bool {
    send(Report::Counts)
}

/// Starts the reporter thread. Called on the engine's thread, because a thread inherits the
/// priority of the thread that starts it, and a caller's priority may be low.
pub(crate) fn begin() {
    let _ = REPORTER.get_or_init(start);
}

/// Returns a receiver that completes when all earlier reports are delivered.
pub(crate) fn delivered() -> oneshot::Receiver<()> {
    let (done, delivered) = oneshot::channel();
    // If there is no thread, there are no reports. The dropped sender then ends the receiver.
    if REPORTER.get().is_some() {
        send(Report::Flush(done));
    }
    delivered
}

fn send(report: Report) -> bool {
    let reporter = REPORTER.get_or_init(start);
    reporter
        .as_ref()
        .is_some_and(|reporter| reporter.try_send(report).is_ok())
}

/// Starts the thread. None if the process cannot start another thread. The process then continues
/// without reports.
fn start() -> Option<SyncSender<Report>> {
    let (sender, reports) = sync_channel(MOST);
    std::thread::Builder::new()
        .name("leasehold-log".to_owned())
        .spawn(move || run(&reports))
        .ok()
        .map(|_| sender)
}

/// Runs the reporter thread. After something was counted, the thread checks the counts at
/// intervals, so that callers need not wake it for each count.
fn run(reports: &Receiver<Report>) {
    // Time of the next check for new counts. None while the next count notifies this thread.
    let mut look: Option<Instant> = None;
    // Time at which unchanged values are reported again. None before the first count, and while no
    // pool is connected.
    let mut again: Option<Instant> = None;
    loop {
        let report = match [look, again].into_iter().flatten().min() {
            Some(at) => reports.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => reports.recv().map_err(RecvTimeoutError::from),
        };
        let has_waited = report.is_err();
        match report {
            Ok(Report::Counts) => {
                let now = Instant::now();
                look = look.or(Some(now + LOOK_EVERY));
                again = again.or(Some(now));
            }
            Ok(report) => guarded(|| deliver(report)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(look) || is_due(again) {
            // While reports wait, a further `Counts` would come after them.
            let more = meters::publish_counts() || !has_waited;
            look = more.then(|| now + LOOK_EVERY);
        }
        if is_due(again) {
            guarded(meters::publish_again);
            let in_use = look.is_some() || meters::are_in_use();
            again = in_use.then(|| now + TELL_AGAIN);
        }
    }
}

/// Runs `deliver`, which calls the program's code. If that code panics, only this report is lost.
/// The panic is not logged, because the panic hook has already printed it.
fn guarded(deliver: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(deliver));
}

fn deliver(report: Report) {
    match report {
        Report::Log(subscriber, event) => with_default(&subscriber, || {
            report_dropped();
            event();
        }),
        // Already handled in `run`.
        Report::Counts => {}
        Report::Flush(done) => {
            report_dropped();
            meters::publish_counts();
            // The receiver may be gone.
            let _ = done.send(());
        }
    }
}

fn report_dropped() {
    let dropped = DROPPED.swap(0, Ordering::Relaxed);
    if 0 < dropped {
        tracing::warn!(
            dropped,
            "reports were dropped because the log did not take them in time"
        );
    }
}
