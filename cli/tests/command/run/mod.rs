//! `leasehold run`.

mod cron;
mod exit_codes;
mod inherited_signals;
mod inherited_state;
mod left_processes;
mod named;
mod sentinel;
mod signals;
mod stopped_in_time;
mod surroundings;
mod terminal;
