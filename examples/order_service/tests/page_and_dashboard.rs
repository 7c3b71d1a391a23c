//! Tests of the order service's page in a browser, and of its metrics in a Prometheus.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod harness;
mod monitoring;
mod page;
