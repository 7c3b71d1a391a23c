//! The metrics of leasehold for operators, in the format of Prometheus.

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// The upper bounds of the histograms' buckets, in seconds. From buckets, Prometheus can compute
/// quantiles over all processes. The bounds are close together around the functions' ttls, so that
/// an alert can detect a body that needs most of its ttl.
const BUCKETS: [f64; 22] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0,
    3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0, 60.0,
];

/// Installs the recorder. Call this before the pool connects, because counts from before the
/// installation are lost.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    let durations = Matcher::Suffix("_seconds".to_owned());
    PrometheusBuilder::new()
        .set_buckets_for_metric(durations, &BUCKETS)?
        .install_recorder()
}
