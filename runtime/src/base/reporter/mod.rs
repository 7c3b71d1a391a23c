//! The reporter thread: it hands the engine's reports to the program's subscriber and recorder.
//!
//! A subscriber of `tracing` and a recorder of `metrics` are the program's code. They may block on
//! a full pipe, or panic. The engine renews leases, and every caller needs the mutex of the
//! engine's state. So the engine never calls that code. It sends its reports to this thread, and
//! never waits for it.
//!
//! Reports keep their order. While [`MOST`] reports wait, a further report is dropped. The thread
//! logs how many were dropped.

#[cfg(feature = "metrics")]
pub(crate) mod meters;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(feature = "metrics")]
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
#[cfg(feature = "metrics")]
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tracing::Dispatch;
use tracing::dispatcher::{get_default, with_default};
use tracing::level_filters::LevelFilter;

#[cfg(feature = "metrics")]
use self::meters::counts::tell_counts;

/// How many reports may wait.
const MOST: usize = 1024;

/// The interval at which counts are handed on while there is traffic.
#[cfg(feature = "metrics")]
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The interval at which the recorder is told again what may not have changed.
#[cfg(feature = "metrics")]
const TELL_AGAIN: Duration = Duration::from_secs(10);

enum Report {
    /// A log event, with the subscriber of the thread that made it.
    Log(Dispatch, Box<dyn FnOnce() + Send>),
    /// An event was counted, for the first time in a while.
    #[cfg(feature = "metrics")]
    Counts,
    /// Asks for an answer when every earlier report has been told.
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

/// Asks the reporter thread to hand the counts on soon. Returns whether the thread was asked.
#[cfg(feature = "metrics")]
pub(crate) fn counts_changed() -> bool {
    send(Report::Counts)
}

/// Starts the reporter thread. Only an engine thread calls this: a thread that a caller starts
/// would have the caller's priority.
pub(crate) fn begin() {
    let _ = REPORTER.get_or_init(start);
}

/// The receiver ends when every report made before this call has been told.
pub(crate) fn told() -> oneshot::Receiver<()> {
    let (done, told) = oneshot::channel();
    // Without a thread no report waits.
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

/// Starts the thread. A process that may have no further thread goes on without reports.
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

/// While there is traffic the thread looks for counts at intervals. Otherwise each count would cost
/// its caller the wake-up of this thread.
#[cfg(feature = "metrics")]
fn run(reports: &Receiver<Report>) {
    let mut counting = false;
    // None before the first count, and while no pool is connected.
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
            Ok(report) => guarded(|| tell(report)),
            Err(RecvTimeoutError::Timeout) => counting = tell_counts(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if again.is_some_and(|at| at <= Instant::now()) {
            guarded(meters::tell_again);
            again = (counting || meters::are_in_use()).then(|| Instant::now() + TELL_AGAIN);
        }
    }
}

/// A panic of the program's code ends one report, not the thread. The panic hook has shown it.
fn guarded(tell: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(tell));
}

fn tell(report: Report) {
    match report {
        Report::Log(subscriber, event) => with_default(&subscriber, || {
            tell_dropped();
            event();
        }),
        // `run` has noted it.
        #[cfg(feature = "metrics")]
        Report::Counts => {}
        Report::Told(done) => {
            tell_dropped();
            #[cfg(feature = "metrics")]
            tell_counts();
            // The receiver may be gone.
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
