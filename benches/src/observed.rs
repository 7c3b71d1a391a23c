//! A recorder of metrics and a subscriber of spans, like those of a service.

use crate::contestants::Fault;

/// Installs the recorder and the subscriber. The metrics go to an exporter for Prometheus, which is
/// read every second. The subscriber formats a line for each ended span, and discards it.
#[cfg(feature = "observed")]
pub(crate) fn install() -> Result<(), Fault> {
    use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
    use tracing_subscriber::fmt::format::FmtSpan;

    const BUCKETS: [f64; 8] = [0.0001, 0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0];
    let durations = Matcher::Suffix("_seconds".to_owned());
    let metrics = PrometheusBuilder::new()
        .set_buckets_for_metric(durations, &BUCKETS)?
        .install_recorder()?;
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
            std::hint::black_box(metrics.render());
        }
    });
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::sink)
        .with_span_events(FmtSpan::CLOSE);
    log.try_init()
}

#[cfg(not(feature = "observed"))]
pub(crate) fn install() -> Result<(), Fault> {
    Err("this build has no metrics; `scripts/bench --observed` makes one that has".into())
}
