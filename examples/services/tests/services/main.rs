//! Runs the services as processes, with a separate Redis for each test, and checks their answers.

#![allow(
    missing_docs,
    reason = "a test program has no interface, and its tests are named for what they show"
)]

mod harness;

mod actix_orders;
mod axum_orders;
mod cron_job;
mod operations;
mod page;
mod queued_job;
mod repositories;
mod tonic_orders;
mod traced_orders;
