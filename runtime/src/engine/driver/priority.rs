//! A thread's priority, beside that of the keeper.
//!
//! The system may keep a thread of low priority from running for seconds while other threads want
//! the processors. If it had the engine's mutex then, no lease would be renewed meanwhile. So a
//! thread of lower priority than the keeper never takes that mutex: see [`deferred`].
//!
//! [`deferred`]: super::deferred

#[cfg(target_os = "linux")]
use std::cell::Cell;
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

/// For so long a thread's priority is taken to be what it was. To ask for it takes about 10 us.
#[cfg(target_os = "linux")]
const KNOWN: Duration = Duration::from_millis(100);

/// How late a thread gets a processor, as the kernel orders threads: a greater one runs later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Priority {
    /// Whether it runs only when no other thread wants to (`SCHED_IDLE`).
    idle: bool,
    /// From -20 to 19.
    nice: i8,
}

impl Priority {
    /// That of the present thread. Nothing is known of it on systems other than Linux, or where
    /// `/proc` cannot be read.
    pub(super) fn of_this_thread() -> Option<Self> {
        #[cfg(target_os = "linux")]
        return recent();
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Whether the present thread has a lower one than this.
    pub(super) fn outranks_this_thread(self) -> bool {
        Self::of_this_thread().is_some_and(|other| self < other)
    }
}

#[cfg(target_os = "linux")]
fn recent() -> Option<Priority> {
    thread_local! {
        static SEEN: Cell<Option<(Instant, Option<Priority>)>> = const { Cell::new(None) };
    }
    let recent = |seen: &Cell<Option<(Instant, Option<Priority>)>>| {
        let now = Instant::now();
        if let Some((at, priority)) = seen.get()
            && now.duration_since(at) < KNOWN
        {
            return priority;
        }
        let priority = read();
        seen.set(Some((now, priority)));
        priority
    };
    SEEN.try_with(recent).unwrap_or_else(|_| read())
}

#[cfg(target_os = "linux")]
fn read() -> Option<Priority> {
    parse(&std::fs::read_to_string("/proc/thread-self/stat").ok()?)
}

/// See `proc_pid_stat(5)`: fields 19 and 41.
#[cfg(target_os = "linux")]
fn parse(stat: &str) -> Option<Priority> {
    const SCHED_IDLE: &str = "5";
    // The second field is the thread's name, which may hold anything, `)` too.
    let (_, third_on) = stat.rsplit_once(')')?;
    let mut fields = third_on.split_ascii_whitespace();
    let nice = fields.nth(19 - 3)?.parse().ok()?;
    let idle = fields.nth(41 - 20)? == SCHED_IDLE;
    Some(Priority { idle, nice })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const USUAL: Priority = Priority {
        idle: false,
        nice: 0,
    };

    #[test]
    fn a_nicer_thread_and_an_idle_one_run_later() {
        let nice = Priority { nice: 1, ..USUAL };
        let idle = Priority {
            idle: true,
            nice: -20,
        };
        assert!(USUAL < nice && nice < idle);
    }

    /// The line of a thread as Linux 6.12 writes it.
    #[test]
    fn the_line_of_a_thread_is_understood() {
        let line = |nice: &str, policy: &str| {
            format!(
                "7 (a) b) R 1 7 7 0 -1 4194304 99 0 0 0 1 2 0 0 39 {nice} 1 0 8 9 10 11 12 13 14 15 16 17 \
                 0 0 0 0 0 0 17 1 0 {policy} 0 0 0 24 25 26 27 28 29 30 0"
            )
        };
        assert_eq!(parse(&line("0", "0")), Some(USUAL));
        let nice = Priority {
            idle: false,
            nice: 19,
        };
        assert_eq!(parse(&line("19", "3")), Some(nice));
        let idle = Priority {
            idle: true,
            nice: 0,
        };
        assert_eq!(parse(&line("0", "5")), Some(idle));
        assert_eq!(parse("7 (a) R 1"), None);
    }

    #[test]
    fn this_thread_has_one() {
        let priority = Priority::of_this_thread().expect("Linux has /proc");
        assert!(!priority.outranks_this_thread());
    }
}
