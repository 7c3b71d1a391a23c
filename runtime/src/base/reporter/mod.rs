//! The reporter thread, which passes the engine's reports to the program's subscriber and recorder.
//!
//! A subscriber of `tracing` and a recorder of `metrics` are the program's code. They may block on
//! a full pipe, or panic. The engine renews leases, and every caller needs the mutex of the
//! engine's state. So the engine never calls that code. It sends its reports to this thread, and
//! never waits for it.
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

/// The interval at which counts are passed on while there is traffic.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The interval at which possibly unchanged values are reported to the recorder again.
const TELL_AGAIN: Duration = Duration::from_secs(10);

enum Report {
    /// A log event, with the subscriber of the thread that made it.
    Log(Dispatch, Box<dyn FnOnce() + Send>),
    /// An event was counted, for the first time in a while.
    Counts,
    /// Asks the thread for an answer once every earlier report has been delivered.
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

/// Asks the reporter thread to pass the counts on soon. Returns true if the thread was asked.
#[cfg_attr(
    not(feature = "metrics"),
    expect(dead_code, reason = "nothing is counted")
)]
pub(crate) fn counts_changed() -> bool {
    send(Report::Counts)
}

/// Starts the reporter thread. Only an engine thread calls this: a thread started by a caller would
/// have the caller's priority.
pub(crate) fn begin() {
    let _ = REPORTER.get_or_init(start);
}

/// Returns a receiver that ends when every earlier report has been delivered.
pub(crate) fn delivered() -> oneshot::Receiver<()> {
    let (done, delivered) = oneshot::channel();
    // Without a thread no report waits.
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

/// Starts the thread. A process that cannot start another thread continues without reports.
fn start() -> Option<SyncSender<Report>> {
    let (sender, reports) = sync_channel(MOST);
    std::thread::Builder::new()
        .name("leasehold-log".to_owned())
        .spawn(move || run(&reports))
        .ok()
        .map(|_| sender)
}

/// While there is traffic, the thread checks the counts at intervals, so that no caller must wake
/// it for each count.
fn run(reports: &Receiver<Report>) {
    let mut counting = false;
    // Time of the next repeated report. None before the first count, and while no pool is
    // connected.
    let mut again: Option<Instant> = None;
    loop {
        let wait = again.map(|at| at.saturating_duration_since(Instant::now()));
        let wait = if counting { Some(LOOK_EVERY) } else { wait };
        let report = match wait {
            Some(wait) => reports.recv_timeout(wait),
            None => reports.recv().map_err(RecvTimeoutError::from),
        };
        match report {
            Ok(Report::Counts) => {
                counting = true;
                again = again.or_else(|| Some(Instant::now()));
            }
            Ok(report) => guarded(|| deliver(report)),
            Err(RecvTimeoutError::Timeout) => counting = meters::publish_counts(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if again.is_some_and(|at| at <= Instant::now()) {
            guarded(meters::publish_again);
            again = (counting || meters::are_in_use()).then(|| Instant::now() + TELL_AGAIN);
        }
    }
}

/// A panic of the program's code ends one report, not the thread. The panic hook has already shown
/// it.
fn guarded(deliver: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(deliver));
}

fn deliver(report: Report) {
    match report {
        Report::Log(subscriber, event) => with_default(&subscriber, || {
            report_dropped();
            event();
        }),
        // `run` has handled it.
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
