//! `leasehold run`.

mod cron;
mod exit_codes;
mod gone_in_time;
mod inherited_signals;
mod inherited_state;
mod left_processes;
mod sentinel;
mod signals;
mod surroundings;
