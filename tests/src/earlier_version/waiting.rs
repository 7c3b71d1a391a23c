//! The wait for a lock as in version 0.1.0: the process requests the lock and queues. It requests
//! the lock again when notified, and from time to time.

use std::time::Duration;

use leasehold::__test::now;

use super::answer::Answer;
use super::process::{EarlierProcess, Message, random_hex};
use super::want::Want;
use crate::random::Random;

/// Mean pause between two requests of a process in the queue, which the store will also notify.
const SLOW_POLL: Duration = Duration::from_millis(500);
/// Mean pauses between two requests of a process without a place in the queue, which the store does
/// not notify. They grow from `FIRST_POLL` to `LONGEST_POLL`.
const FIRST_POLL: Duration = Duration::from_millis(5);
const LONGEST_POLL: Duration = Duration::from_millis(50);

/// An exclusive or a shared lock of a process.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The token of the lock.
    pub token: String,
    /// The fence of the lock.
    pub fence: u64,
    /// Number of further fences after `fence`, reserved for other calls of the process.
    pub spare: u32,
    /// True if another process waited in the queue at the time of the grant.
    pub wanted: bool,
    /// Start of the lease, as a timestamp of `leasehold::__test::now`.
    pub sent: u64,
    /// End of the lease, as a timestamp of `leasehold::__test::now`.
    pub deadline: u64,
}

impl Lease {
    /// Returns the lease from the answer to a request sent at `sent`, or `None` if the lock was not
    /// granted.
    fn granted(want: &Want, token: &str, sent: u64, answer: Answer) -> Option<Self> {
        let Answer::Granted {
            fence,
            spare,
            wanted,
        } = answer
        else {
            return None;
        };
        Some(Self {
            token: token.to_owned(),
            fence,
            spare,
            wanted,
            sent,
            deadline: sent + nanos(lease(want.ttl)),
        })
    }

    /// Returns the time at which the process gives the lock up, shortly before the end of the
    /// lease.
    pub fn soft_end(&self, ttl: Duration) -> u64 {
        let margin = Duration::from_millis(50).max(ttl / 20).min(ttl / 4);
        self.deadline - nanos(margin)
    }
}

impl EarlierProcess {
    /// Requests the lock once.
    #[track_caller]
    pub fn try_take(&mut self, want: &Want) -> Option<Lease> {
        let (token, sent) = (random_hex(), now());
        let answer = self.ask(want, &token, false);
        Lease::granted(want, &token, sent, answer)
    }

    /// Waits for the lock for at most `patience`.
    ///
    /// # Panics
    ///
    /// Panics if the server fails, or if the lock is shared with a greater limit than requested.
    #[track_caller]
    pub fn take(&mut self, want: &Want, patience: Duration) -> Option<Lease> {
        let token = random_hex();
        let answered = self.asked(want, &token);
        self.queue_for(want, &token, answered, patience)
    }

    /// Releases the lock of the token `released`, and waits for the next lease for at most
    /// `patience`. Returns `true` if `released` still had the lock, and the next lease.
    ///
    /// # Panics
    ///
    /// Panics if the server fails.
    #[track_caller]
    pub fn take_again(
        &mut self,
        want: &Want,
        released: &str,
        patience: Duration,
    ) -> (bool, Option<Lease>) {
        let (token, sent) = (random_hex(), now());
        let (found, answer) = self.turn(want, released, &token);
        (
            found,
            self.queue_for(want, &token, (sent, answer), patience),
        )
    }

    /// Waits in the queue for a lock with this token. `answered` is the time of the last request
    /// with this token, and its answer.
    #[track_caller]
    fn queue_for(
        &mut self,
        want: &Want,
        token: &str,
        mut answered: Answered,
        patience: Duration,
    ) -> Option<Lease> {
        let end = now() + nanos(patience);
        let mut looks = Looks::new();
        loop {
            let (sent, answer) = answered;
            let lease = Lease::granted(want, token, sent, answer);
            // If the answer is late, hardly any time of the granted lease is left. The process then
            // requests the lock again, for the full ttl.
            let live = lease.filter(|lease| now() < lease.soft_end(want.ttl));
            if live.is_some() {
                return live;
            }
            let left = Duration::from_nanos(end.saturating_sub(now()));
            if left.is_zero() {
                self.leave(&want.key);
                return None;
            }
            self.wait_for_turn(&want.key, looks.pause(answer).min(left));
            answered = self.asked(want, token);
        }
    }

    fn asked(&mut self, want: &Want, token: &str) -> Answered {
        let sent = now();
        (sent, self.ask(want, token, true))
    }

    /// Waits until the process is notified that the lock is free for it, but not longer than
    /// `pause`.
    #[track_caller]
    fn wait_for_turn(&mut self, key: &str, pause: Duration) {
        let until = now() + nanos(pause);
        while now() < until {
            let left = Duration::from_nanos(until.saturating_sub(now()));
            if self.receive(left) == Some(Message::Turn(key.to_owned())) {
                return;
            }
        }
    }

    /// True if the process has been notified that another process waits for `key`. Drops all other
    /// messages, such as turns, because this process already has the lock.
    #[track_caller]
    pub fn is_wanted(&mut self, key: &str) -> bool {
        let mut wanted = false;
        while let Some(message) = self.receive(Duration::ZERO) {
            wanted |= message == Message::Wanted(key.to_owned());
        }
        wanted
    }
}

/// Time of a request, and its answer.
type Answered = (u64, Answer);

/// Computes the pauses between two requests for a lock that another token has.
struct Looks {
    tries: u32,
    random: Random,
}

impl Looks {
    fn new() -> Self {
        Self {
            tries: 0,
            random: Random::new(now()),
        }
    }

    fn pause(&mut self, answer: Answer) -> Duration {
        let (left, queued) = match answer {
            Answer::Granted { .. } => return Duration::ZERO,
            Answer::Held { left, queued } => (left, queued),
            Answer::Limited(most) => panic!("there are {most} places"),
        };
        let mean = if queued { SLOW_POLL } else { self.growing() };
        let pause = mean / 2 + self.random.duration(mean);
        // The server counts the ttl in whole milliseconds, so the lock may last one millisecond
        // longer than `left`.
        left.map_or(pause, |left| pause.min(left + Duration::from_millis(1)))
    }

    fn growing(&mut self) -> Duration {
        let pause = FIRST_POLL.saturating_mul(1 << self.tries.min(10));
        self.tries += 1;
        pause.min(LONGEST_POLL)
    }
}

/// Returns the length of a lease with this ttl, counted from its request. A lease is shorter than
/// its ttl by a hundredth and 2 ms, because the clocks of server and client may drift.
fn lease(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(2))
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
