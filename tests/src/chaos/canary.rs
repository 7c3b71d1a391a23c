//! Collects all texts of the log and the metrics, and searches them for secrets.

use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use metrics::{Counter, Gauge, Histogram, KeyName, Metadata as MetricMetadata, SharedString, Unit};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};

/// All texts collected so far.
static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());
const KEPT: usize = 1_000_000;

/// Starts to collect the log and metric texts of the whole process.
pub(super) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that another subscriber or recorder is already installed, so its texts are
        // not collected. Requirement 22 fails if no text at all is collected.
        let _ = tracing::subscriber::set_global_default(Ear);
        let _ = metrics::set_global_recorder(Ear);
    });
}

/// Returns the number of collected texts, and the texts that contain one of `words`.
pub(super) fn scan(words: &[String]) -> (usize, Vec<String>) {
    let recorded = recorded();
    let hits = recorded
        .iter()
        .filter(|text| words.iter().any(|word| text.contains(word)));
    (recorded.len(), hits.cloned().collect())
}

fn recorded() -> MutexGuard<'static, Vec<String>> {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn record(text: String) {
    let mut recorded = recorded();
    if recorded.len() < KEPT {
        recorded.push(text);
    }
}

struct Ear;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl tracing::Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        target.starts_with("leasehold") || target.starts_with("redis")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut text = Text(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        record(text.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut text = Text(String::new());
        values.record(&mut text);
        record(text.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(event.metadata().target().to_owned());
        event.record(&mut text);
        record(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl metrics::Recorder for Ear {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &metrics::Key, _: &MetricMetadata<'_>) -> Counter {
        record(format!("{key:?}"));
        Counter::noop()
    }

    fn register_gauge(&self, key: &metrics::Key, _: &MetricMetadata<'_>) -> Gauge {
        record(format!("{key:?}"));
        Gauge::noop()
    }

    fn register_histogram(&self, key: &metrics::Key, _: &MetricMetadata<'_>) -> Histogram {
        record(format!("{key:?}"));
        Histogram::noop()
    }
}
