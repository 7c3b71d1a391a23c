//! The log and the metrics recorder of a worker process. Both stand for user code. One of them
//! blocks for a while or panics once.

use std::io::{PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::__test::now;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, KeyName, SharedString, Unit,
};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};

use super::job::{Outlet, Telemetry, Trouble};
use super::span::nanos;
use crate::oracle::{History, Note};

/// More bytes than fit into a pipe without a reader.
const MORE_THAN_FULL: usize = 1 << 21;

static SINK: OnceLock<Arc<Sink>> = OnceLock::new();

/// Installs the log or the recorder in this process. Until [`begin`], the log or the recorder works
/// normally.
///
/// # Panics
///
/// Panics if this process already has a log or a recorder.
pub(super) fn install(telemetry: Telemetry, history: History) {
    let sink = Arc::new(Sink::new(telemetry, history));
    match telemetry.outlet {
        Outlet::Log => {
            let subscriber = Log(Arc::clone(&sink));
            tracing::subscriber::set_global_default(subscriber).expect("there is no other log");
        }
        Outlet::Metrics => {
            let recorder = Recorder(Arc::clone(&sink));
            metrics::set_global_recorder(recorder).expect("there is no other recorder");
        }
    }
    assert!(SINK.set(sink).is_ok(), "installed once");
}

/// Starts the countdown (`after_ms`) to the fault of the log or the recorder, if the job has such a
/// fault.
pub(super) fn begin() {
    if let Some(sink) = SINK.get() {
        sink.begin();
    }
}

/// The destination of all log events or of all metric updates.
struct Sink {
    telemetry: Telemetry,
    history: History,
    /// The writing end of a pipe that another thread keeps full, so that a write to it blocks.
    pipe: PipeWriter,
    /// Time at which the fault starts, in nanoseconds; `u64::MAX` before `begin`.
    from: AtomicU64,
    hit: AtomicBool,
}

impl Sink {
    fn new(telemetry: Telemetry, history: History) -> Self {
        let (mut reader, writer) = std::io::pipe().expect("a pipe can be made");
        let mut filler = writer.try_clone().expect("a pipe has several writers");
        std::thread::spawn(move || filler.write_all(&vec![0; MORE_THAN_FULL]));
        if let Trouble::Blocks { for_ms } = telemetry.trouble {
            let time = Duration::from_millis(telemetry.after_ms + for_ms);
            std::thread::spawn(move || {
                while SINK.get().is_none_or(|sink| sink.from() == u64::MAX) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                std::thread::sleep(time);
                // The fault ends here: the pipe is read, so writes no longer block.
                let mut taken = [0; 4096];
                while reader.read(&mut taken).is_ok_and(|count| count > 0) {}
            });
        }
        Self {
            telemetry,
            history,
            pipe: writer,
            from: AtomicU64::new(u64::MAX),
            hit: AtomicBool::new(false),
        }
    }

    fn begin(&self) {
        let after = Duration::from_millis(self.telemetry.after_ms);
        self.from.store(now() + nanos(after), Ordering::Relaxed);
    }

    fn from(&self) -> u64 {
        self.from.load(Ordering::Relaxed)
    }

    /// Receives a log event or a metric update.
    fn take(&self) {
        if now() < self.from() {
            return;
        }
        let first = !self.hit.swap(true, Ordering::Relaxed);
        if first {
            self.history.note(&Note::Fault {
                kind: self.telemetry.name(),
                at: now(),
            });
        }
        match self.telemetry.trouble {
            Trouble::Blocks { .. } => (&self.pipe).write_all(b"x").expect("the pipe is open"),
            Trouble::Panics if first => panic!("the user's log or recorder panics"),
            Trouble::Panics => {}
        }
    }
}

struct Log(Arc<Sink>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.take();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Recorder(Arc<Sink>);

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(Counts(Arc::clone(&self.0))))
    }

    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(Counts(Arc::clone(&self.0))))
    }

    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Counts(Arc::clone(&self.0))))
    }
}

struct Counts(Arc<Sink>);

impl CounterFn for Counts {
    fn increment(&self, _: u64) {
        self.0.take();
    }

    fn absolute(&self, _: u64) {
        self.0.take();
    }
}

impl GaugeFn for Counts {
    fn increment(&self, _: f64) {
        self.0.take();
    }

    fn decrement(&self, _: f64) {
        self.0.take();
    }

    fn set(&self, _: f64) {
        self.0.take();
    }
}

impl HistogramFn for Counts {
    fn record(&self, _: f64) {
        self.0.take();
    }
}
