//! The reporter thread: it tells the program's subscriber and recorder what the engine reports.
//!
//! A subscriber of `tracing` and a recorder of `metrics` are the program's code. They may block on a full
//! pipe, or panic. The engine renews leases, and its state's mutex is what every caller needs. So the engine
//! never calls them: it hands its reports to this thread, and never waits for it.
//!
//! Reports are told in the order in which they were made. Where [`MOST`] of them wait already, a further one
//! is dropped; the thread logs how many were.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(feature = "metrics")]
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
#[cfg(feature = "metrics")]
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::Dispatch;
use tracing::dispatcher::{get_default, with_default};
use tracing::level_filters::LevelFilter;

#[cfg(feature = "metrics")]
use super::counts::tell_counts;

/// So many reports may wait.
const MOST: usize = 1024;

/// While there is traffic, counts are told each time that this has passed.
#[cfg(feature = "metrics")]
const LOOK_EVERY: Duration = Duration::from_millis(5);

enum Report {
    /// A log event, with the subscriber of the thread that made it.
    Log(Dispatch, Box<dyn FnOnce() + Send>),
    /// Something has been counted, for the first time in a while.
    #[cfg(feature = "metrics")]
    Counts,
    /// Everything before this has been told.
    Told(oneshot::Sender<()>),
}

static REPORTER: OnceLock<Option<SyncSender<Report>>> = OnceLock::new();

/// Reports that were dropped and are not logged yet.
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

/// Tells the recorder what has been counted, soon. Whether the reporter thread will.
#[cfg(feature = "metrics")]
pub(crate) fn counts_changed() -> bool {
    send(Report::Counts)
}

/// Starts the reporter thread, on a thread of the engine's: one that is started by a caller would have the caller's priority.
pub(crate) fn begin() {
    let _ = REPORTER.get_or_init(start);
}

/// Ends when everything that was reported before has been told.
pub(crate) fn told() -> oneshot::Receiver<()> {
    let (done, told) = oneshot::channel();
    // Without a thread nothing waits to be told.
    if REPORTER.get().is_some() {
        send(Report::Told(done));
    }
    told
}

fn send(report: Report) -> bool {
    let reporter = REPORTER.get_or_init(start);
    reporter
        .as_ref()
        .is_some_and(|reporter| reporter.try_send(report).is_ok())
}

/// A process that may have no further thread goes on without its reports.
fn start() -> Option<SyncSender<Report>> {
    let (sender, reports) = sync_channel(MOST);
    std::thread::Builder::new()
        .name("leasehold-log".to_owned())
        .spawn(move || run(&reports))
        .ok()
        .map(|_| sender)
}

#[cfg(not(feature = "metrics"))]
fn run(reports: &Receiver<Report>) {
    for report in reports {
        guarded(|| tell(report));
    }
}

/// While there is traffic the thread looks for counts from time to time. To wake it for each would cost
/// the callers a wake-up of a thread.
#[cfg(feature = "metrics")]
fn run(reports: &Receiver<Report>) {
    let mut counting = false;
    loop {
        let report = if counting {
            reports.recv_timeout(LOOK_EVERY)
        } else {
            reports.recv().map_err(RecvTimeoutError::from)
        };
        match report {
            Ok(Report::Counts) => counting = true,
            Ok(report) => guarded(|| tell(report)),
            Err(RecvTimeoutError::Timeout) => counting = tell_counts(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// A panic of the program's code ends one report, not the thread; the panic hook has shown it.
fn guarded(tell: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(tell));
}

fn tell(report: Report) {
    match report {
        Report::Log(subscriber, event) => with_default(&subscriber, || {
            tell_dropped();
            event();
        }),
        // The thread knows already.
        #[cfg(feature = "metrics")]
        Report::Counts => {}
        Report::Told(done) => {
            tell_dropped();
            #[cfg(feature = "metrics")]
            tell_counts();
            // The asker may have stopped waiting.
            let _ = done.send(());
        }
    }
}

fn tell_dropped() {
    let dropped = DROPPED.swap(0, Ordering::Relaxed);
    if 0 < dropped {
        tracing::warn!(
            dropped,
            "reports were dropped because the log did not take them in time"
        );
    }
}
