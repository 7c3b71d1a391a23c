//! Tests that a lease is kept while its body runs, and that it ends when it should.

mod blocked_workers;
mod full_server;
mod hand_over;
mod killed_processes;
mod leadership;
mod lost_answers;
mod neighbours;
mod orphans;
mod paused_time;
pub(crate) mod stopped_servers;
mod watchdog;
