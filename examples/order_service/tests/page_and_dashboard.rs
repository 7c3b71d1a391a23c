//! The page of the order service in a browser, and its metrics in a Prometheus.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod harness;
mod monitoring;
mod page;
