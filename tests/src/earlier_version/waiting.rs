//! Waiting for a lock as in version 0.1.0: the process requests it, queues, and requests it again
//! when notified, or from time to time.

use std::time::Duration;

use leasehold::__test::now;

use super::answer::Answer;
use super::process::{EarlierProcess, Message, random_hex};
use super::want::Want;
use crate::random::Random;

/// Mean pause between two requests of a process that will be notified.
const SLOW_POLL: Duration = Duration::from_millis(500);
/// Mean pauses of a process that will not be notified. They grow from the first to the second.
const FIRST_POLL: Duration = Duration::from_millis(5);
const LONGEST_POLL: Duration = Duration::from_millis(50);

/// A lock or a share of a process.
#[derive(Debug, Clone)]
pub struct Lease {
    /// Its token.
    pub token: String,
    /// Its fence.
    pub fence: u64,
    /// Number of fences after that, reserved for the process.
    pub spare: u32,
    /// True if another process is known to wait.
    pub wanted: bool,
    /// Timestamp of `leasehold::__test::now` from which the lease counts.
    pub sent: u64,
    /// End of the lease.
    pub deadline: u64,
}

impl Lease {
    /// Reads the lease from the answer to a request sent at `sent`; `None` if it was not granted.
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

    /// Time at which the process gives the lock up, some time before the end of the lease.
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

    /// Queues for the lock for `patience` at most.
    ///
    /// # Panics
    ///
    /// Panics if the server fails, or if there may be more shares than requested.
    #[track_caller]
    pub fn take(&mut self, want: &Want, patience: Duration) -> Option<Lease> {
        let token = random_hex();
        let answered = self.asked(want, &token);
        self.queue_for(want, &token, answered, patience)
    }

    /// Releases `released` and queues for the next lease, for `patience` at most. Returns `true` if
    /// the lock was still this token's, and the next lease.
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

    /// Queues with `token`, whose last request has the answer `answered`.
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
            // A late answer leaves hardly any time. A repeated request gets the full ttl from the
            // server.
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

    /// Waits until the process is notified of its turn, or for `pause`.
    #[track_caller]
    fn wait_for_turn(&mut self, key: &str, pause: Duration) {
        let until = now() + nanos(pause);
        while now() < until {
            let left = Duration::from_nanos(until.saturating_sub(now()));
            if self.heard(left) == Some(Message::Turn(key.to_owned())) {
                return;
            }
        }
    }

    /// True if the process has been notified that another one waits for `key`. Drops messages about
    /// its own turns, which are over.
    #[track_caller]
    pub fn is_wanted(&mut self, key: &str) -> bool {
        let mut wanted = false;
        while let Some(message) = self.heard(Duration::ZERO) {
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
        // The server counts the ttl in whole milliseconds, so one more.
        left.map_or(pause, |left| pause.min(left + Duration::from_millis(1)))
    }

    fn growing(&mut self) -> Duration {
        let pause = FIRST_POLL.saturating_mul(1 << self.tries.min(10));
        self.tries += 1;
        pause.min(LONGEST_POLL)
    }
}

/// Length of a lease with this ttl, counted from its request.
fn lease(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(2))
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
