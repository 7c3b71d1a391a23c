//! A lease is kept while its body runs, and ends when it should.

mod full_server;
mod hand_over;
mod orphans;
mod paused_time;
mod watchdog;
