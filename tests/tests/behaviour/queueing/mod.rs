//! Tests of calls that wait for a held lock, in one process and in several processes.

mod clients_without_a_queue;
mod processes;
mod refusals;
mod release_to_grant;
mod waiting;
