//! Leasehold's callers on a key that they share with other clients.

use std::time::Duration;

use super::crew::{Crew, Hand};
use super::job::{Job, Lane, Work};
use super::r26_visit::{STAY, TTL};

pub(super) const KEY: &str = "hot";

/// Tasks in one or more processes, which take the key again and again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ours {
    pub(super) name: &'static str,
    processes: u32,
    tasks: u32,
}

pub(super) const OURS: [Ours; 2] = [
    Ours {
        name: "two processes",
        processes: 2,
        tasks: 2,
    },
    Ours {
        name: "one process of four tasks",
        processes: 1,
        tasks: 4,
    },
];

impl Ours {
    pub(super) fn folder(self) -> String {
        self.name.replace(' ', "-")
    }

    /// Starts the processes. `make_way` replaces the default of `Fairness::make_way_after`.
    pub(super) fn start(self, crew: &Crew, url: &str, make_way: Option<Duration>) -> Vec<Hand> {
        let job = Job {
            make_way_ms: make_way.map(millis),
            ..crew.job(url, vec![self.lane()])
        };
        (0..self.processes)
            .map(|_| crew.spawn(&job, None))
            .collect()
    }

    fn lane(self) -> Lane {
        let work = Work::Stay {
            ms: millis(STAY),
            slow_drop_ms: 0,
        };
        Lane {
            copies: self.tasks,
            times: 0,
            work,
            ..Lane::stays(KEY, millis(TTL), 0).waits(600_000)
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
