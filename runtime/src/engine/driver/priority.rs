//! A thread's priority, compared with the keeper's.
//!
//! The system may keep a thread of low priority from running for seconds while other threads want
//! the processors. If that thread had the engine's mutex, no lease would be renewed meanwhile. So
//! a thread of lower priority than the keeper never takes that mutex: see [`deferred`].
//!
//! [`deferred`]: super::deferred

#[cfg(target_os = "linux")]
use std::cell::Cell;
use std::sync::atomic::{AtomicI32, Ordering};

#[cfg(target_os = "linux")]
use rustix::time::{ClockId, clock_gettime};

/// For how long, in milliseconds, a thread's priority is taken to be unchanged. Asking for it means
/// reading a file.
#[cfg(target_os = "linux")]
const KNOWN: i64 = 100;

/// How late the kernel gives a thread a processor: the greater value runs later.
///
/// It is the nice value (-20 to 19), except for two kinds of threads. [`IDLE`] is a thread that
/// runs only when no other thread wants to. [`REAL_TIME`] is a thread that runs before all other
/// threads.
type Lateness = i32;

#[cfg(target_os = "linux")]
const IDLE: Lateness = 100;
#[cfg(target_os = "linux")]
const REAL_TIME: Lateness = -100;

/// The priority of the keeper's thread.
pub(super) struct KeptPriority(AtomicI32);

/// The keeper has no thread of its own, or the priority of its thread is not known.
const NONE: Lateness = Lateness::MAX;

impl Default for KeptPriority {
    fn default() -> Self {
        Self(AtomicI32::new(NONE))
    }
}

impl KeptPriority {
    /// Records the priority of this thread, which runs the keeper.
    pub(super) fn is_of_this_thread(&self) {
        self.0.store(recent().unwrap_or(NONE), Ordering::Relaxed);
    }

    /// Whether the present thread runs later than the keeper's. `false` on systems other than
    /// Linux, and where `/proc` cannot be read.
    pub(super) fn outranks_this_thread(&self) -> bool {
        let kept = self.0.load(Ordering::Relaxed);
        kept != NONE && recent().is_some_and(|lateness| kept < lateness)
    }
}

#[cfg(not(target_os = "linux"))]
fn recent() -> Option<Lateness> {
    None
}

/// The lateness of the present thread, as it was at most [`KNOWN`] ago.
#[cfg(target_os = "linux")]
fn recent() -> Option<Lateness> {
    type Seen = Cell<Option<(i64, Option<Lateness>)>>;
    thread_local! {
        static SEEN: Seen = const { Cell::new(None) };
    }
    let recent = |seen: &Seen| {
        let now = millis();
        let before = seen.get();
        if let Some((at, lateness)) = before
            && now - at < KNOWN
        {
            return lateness;
        }
        // The file cannot be read while the process has too many open files.
        let lateness = read().or(before.and_then(|(_, lateness)| lateness));
        seen.set(Some((now, lateness)));
        lateness
    };
    SEEN.try_with(recent).unwrap_or_else(|_| read())
}

/// The time to the tick of the system, a few milliseconds, which is cheap to read.
#[cfg(target_os = "linux")]
fn millis() -> i64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

#[cfg(target_os = "linux")]
fn read() -> Option<Lateness> {
    // A thread's name need not be UTF-8.
    let stat = std::fs::read("/proc/thread-self/stat").ok()?;
    parse(&String::from_utf8_lossy(&stat))
}

/// Reads fields 19 and 41; see `proc_pid_stat(5)`.
#[cfg(target_os = "linux")]
fn parse(stat: &str) -> Option<Lateness> {
    // The second field is the thread's name, which may contain `)`.
    let (_, third_on) = stat.rsplit_once(')')?;
    let mut fields = third_on.split_ascii_whitespace();
    let nice = fields.nth(19 - 3)?.parse().ok()?;
    // See `sched(7)`.
    Some(match fields.nth(41 - 20)? {
        "1" | "2" | "6" => REAL_TIME,
        "5" => IDLE,
        _ => nice,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The line of a thread as Linux 6.12 writes it.
    #[test]
    fn the_line_of_a_thread_is_understood() {
        let line = |nice: &str, policy: &str| {
            format!(
                "7 (a) b) R 1 7 7 0 -1 4194304 99 0 0 0 1 2 0 0 39 {nice} 1 0 8 9 10 11 12 13 14 15 16 17 \
                 0 0 0 0 0 0 17 1 0 {policy} 0 0 0 24 25 26 27 28 29 30 0"
            )
        };
        assert_eq!(parse(&line("0", "0")), Some(0));
        assert_eq!(parse(&line("19", "3")), Some(19));
        assert_eq!(parse(&line("-20", "5")), Some(IDLE));
        assert_eq!(parse(&line("0", "1")), Some(REAL_TIME));
        assert_eq!(parse("7 (a) R 1"), None);
    }

    #[test]
    fn a_keeper_outranks_threads_that_run_later() {
        let here = recent().expect("Linux has /proc");
        for (kept, outranks) in [(here - 1, true), (here, false), (NONE, false)] {
            let kept = KeptPriority(AtomicI32::new(kept));
            assert_eq!(kept.outranks_this_thread(), outranks);
        }
        let kept = KeptPriority::default();
        kept.is_of_this_thread();
        assert_eq!(kept.0.into_inner(), here);
    }
}
