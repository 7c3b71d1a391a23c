//! Tests of the pool's connection, and of the threads and runtimes that read its answers.

mod client_list;
mod engine_panic;
mod foreign_executors;
mod forgotten_scripts;
mod late_answers;
pub(crate) mod listening_runtimes;
mod reconnect;
mod supervision;
