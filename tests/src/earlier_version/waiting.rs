//! Waiting for a lock as version 0.1.0 did. It asks, queues, and asks again when it is told, or
//! from time to time.

use std::time::Duration;

use leasehold::__test::now;

use super::answer::Answer;
use super::process::{EarlierProcess, Message, random_hex};
use super::want::Want;
use crate::random::Random;

/// The mean pause between two looks of a process that will be told.
const SLOW_POLL: Duration = Duration::from_millis(500);
/// The same for a process that will not be told. It grows from the first to the second.
const FIRST_POLL: Duration = Duration::from_millis(5);
const LONGEST_POLL: Duration = Duration::from_millis(50);

/// A lock or a share that a process has.
#[derive(Debug, Clone)]
pub struct Lease {
    /// Its token.
    pub token: String,
    /// Its fence.
    pub fence: u64,
    /// How many fences after that are reserved for the process.
    pub spare: u32,
    /// Whether another process is known to wait.
    pub wanted: bool,
    /// The stamp of `leasehold::__test::now` that the lease counts from.
    pub sent: u64,
    /// When the lease ends.
    pub deadline: u64,
}

impl Lease {
    /// The lease from an answer to a request that was sent at `sent`.
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

    /// When the process gives the lock up: some time before its end.
    pub fn soft_end(&self, ttl: Duration) -> u64 {
        let margin = Duration::from_millis(50).max(ttl / 20).min(ttl / 4);
        self.deadline - nanos(margin)
    }
}

impl EarlierProcess {
    /// Asks once.
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
    /// When the server fails, or there may be more shares than are asked for.
    #[track_caller]
    pub fn take(&mut self, want: &Want, patience: Duration) -> Option<Lease> {
        let token = random_hex();
        let answered = self.asked(want, &token);
        self.queue_for(want, &token, answered, patience)
    }

    /// Releases `released` and queues for the next lease, for `patience` at most. Returns whether
    /// the lock was still this token's, and the next lease.
    ///
    /// # Panics
    ///
    /// When the server fails.
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

    /// Queues with `token`, which has had the answer `answered`.
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
            // A late answer leaves hardly any time. When it is asked again, the server gives the
            // full ttl.
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

    /// Waits until the process is told to look, or for `pause`.
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

    /// Whether the process has been told meanwhile that another one waits for `key`. Messages about
    /// its own turns are dropped: it has had them.
    #[track_caller]
    pub fn is_wanted(&mut self, key: &str) -> bool {
        let mut wanted = false;
        while let Some(message) = self.heard(Duration::ZERO) {
            wanted |= message == Message::Wanted(key.to_owned());
        }
        wanted
    }
}

/// When a request was sent, and its answer.
type Answered = (u64, Answer);

/// The pauses between two looks at a lock that another token has.
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
        // The server's ttl counts whole milliseconds, so one more.
        left.map_or(pause, |left| pause.min(left + Duration::from_millis(1)))
    }

    fn growing(&mut self) -> Duration {
        let pause = FIRST_POLL.saturating_mul(1 << self.tries.min(10));
        self.tries += 1;
        pause.min(LONGEST_POLL)
    }
}

/// How long after its request a lease of this ttl ends.
fn lease(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(2))
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
