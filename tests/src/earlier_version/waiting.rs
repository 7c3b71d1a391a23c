//! Waiting for a lock as version 0.1.0 did: it asks, queues, and asks again when it is told, or from time to time.

use std::time::Duration;

use leasehold::__test::now;

use super::answer::Answer;
use super::process::{EarlierProcess, Message, random_hex};
use crate::random::Random;

/// The mean pause between two looks of a process that will be told.
const SLOW_POLL: Duration = Duration::from_millis(500);
/// The same for one that will not be told: it grows from the first to the second.
const FIRST_POLL: Duration = Duration::from_millis(5);
const LONGEST_POLL: Duration = Duration::from_millis(50);

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Want {
    /// The key, as it is on the wire.
    pub key: String,
    /// The ttl.
    pub ttl: Duration,
    /// For a share: how many there may be at most, 0 for no bound.
    pub most: Option<u32>,
    /// How many fences are to be kept for further calls of the process.
    pub spare: u32,
}

impl Want {
    /// The lock alone, for one call.
    pub fn alone(key: &str, ttl: Duration) -> Self {
        Self {
            key: key.to_owned(),
            ttl,
            most: None,
            spare: 0,
        }
    }

    /// A share, of so many at most; 0 for no bound.
    pub fn share(key: &str, ttl: Duration, most: u32) -> Self {
        Self {
            most: Some(most),
            ..Self::alone(key, ttl)
        }
    }
}

/// A lock or a share that a process has.
#[derive(Debug, Clone)]
pub struct Lease {
    /// Its token.
    pub token: String,
    /// Its fence.
    pub fence: u64,
    /// So many fences after that are the process's.
    pub spare: u32,
    /// Whether another process is known to wait.
    pub wanted: bool,
    /// What it counts from: a stamp of `leasehold::__test::now`.
    pub sent: u64,
    /// Its end.
    pub deadline: u64,
}

impl Lease {
    /// Of an answer to a request that was sent at `sent`.
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

    /// When the process gives it up: some time before its end.
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

    /// Queues for it, at most so long.
    #[track_caller]
    pub fn take(&mut self, want: &Want, wait: Duration) -> Option<Lease> {
        let token = random_hex();
        self.queue_for(want, &token, None, wait)
    }

    /// Ends the turn that `released` has and queues for the next, at most `wait`: whether the lock was still its own, and the next
    /// lease.
    #[track_caller]
    pub fn take_again(
        &mut self,
        want: &Want,
        released: &str,
        wait: Duration,
    ) -> (bool, Option<Lease>) {
        let (token, sent) = (random_hex(), now());
        let (found, answer) = self.turn(want, released, &token);
        (
            found,
            self.queue_for(want, &token, Some((sent, answer)), wait),
        )
    }

    /// Queues with `token` until the lock is had; `answered` is what the server has said to it already.
    #[track_caller]
    fn queue_for(
        &mut self,
        want: &Want,
        token: &str,
        mut answered: Option<(u64, Answer)>,
        wait: Duration,
    ) -> Option<Lease> {
        let end = now() + nanos(wait);
        let mut random = Random::new(now());
        let mut tries = 0;
        loop {
            let (sent, answer) = answered.take().unwrap_or_else(|| {
                let sent = now();
                (sent, self.ask(want, token, true))
            });
            let pause = match answer {
                Answer::Granted { .. } => {
                    let lease = Lease::granted(want, token, sent, answer)?;
                    if now() < lease.soft_end(want.ttl) {
                        return Some(lease);
                    }
                    // Hardly anything is left of it: asked again, the server gives the full ttl.
                    Duration::ZERO
                }
                Answer::Held { left, queued } => {
                    pause_before(left, queued, &mut tries, &mut random)
                }
                Answer::Limited(most) => panic!("there are {most} places"),
            };
            if now() >= end {
                self.leave(&want.key);
                return None;
            }
            let left = Duration::from_nanos(end.saturating_sub(now()));
            self.wait_for_turn(&want.key, pause.min(left));
        }
    }

    /// Until the process is told to look, or for `pause`.
    #[track_caller]
    fn wait_for_turn(&mut self, key: &str, pause: Duration) {
        let until = now() + nanos(pause);
        while now() < until {
            let left = Duration::from_nanos(until.saturating_sub(now()));
            match self.heard(left) {
                Some(Message::Turn(called)) if called == key => return,
                _ => {}
            }
        }
    }

    /// Whether the process has been told meanwhile that another one waits for `key`. What it was told of its own turns is
    /// forgotten: it has had them.
    #[track_caller]
    pub fn is_wanted(&mut self, key: &str) -> bool {
        let mut wanted = false;
        while let Some(message) = self.heard(Duration::ZERO) {
            wanted |= message == Message::Wanted(key.to_owned());
        }
        wanted
    }
}

fn pause_before(
    left: Option<Duration>,
    queued: bool,
    tries: &mut u32,
    random: &mut Random,
) -> Duration {
    let mean = if queued {
        SLOW_POLL
    } else {
        *tries += 1;
        FIRST_POLL
            .saturating_mul(1 << (*tries - 1).min(10))
            .min(LONGEST_POLL)
    };
    let pause = mean / 2 + random.duration(mean);
    // The server's ttl counts whole milliseconds, so one more.
    left.map_or(pause, |left| pause.min(left + Duration::from_millis(1)))
}

/// How long after its request a lease of this ttl ends.
fn lease(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(2))
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
