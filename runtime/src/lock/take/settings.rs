//! The settings of a call, and the plan: the same settings, checked and completed with the pool's
//! defaults.

use std::time::Duration;

use super::blocking::Parks;
use crate::base::label::Label;
use crate::base::lease_terms::{self, Terms};
use crate::engine::core::ticket::{Replay, Share, Watchdog};
use crate::error::LockError;
use crate::lock::nest::call_site::At;
use crate::pool::LockPool;
use crate::store::kept::Fingerprint;

/// The options of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) ttl: Option<Duration>,
    pub(crate) watchdog: Option<Beat>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) on_lost: OnLost,
    pub(crate) share: Option<Share>,
    pub(crate) reentrant: bool,
    pub(crate) cooldown: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    /// Label that the program sets with [`LockRequest::label`](crate::LockRequest::label). The
    /// attribute sets none, because its label is its key template.
    pub(crate) label: Option<Label>,
    /// Time for which the store keeps the result of a `replay` call. None for other calls.
    pub(crate) replay: Option<Duration>,
    /// Set for a blocking call, which parks its thread.
    pub(crate) parks: Option<Parks>,
    /// True for a leader: a call by [`LockRequest::lead`](crate::LockRequest::lead).
    pub(crate) leads: bool,
    /// Fingerprint of the call's parameters, or the reason why there is none. Boxed to keep the
    /// type small.
    pub(crate) fingerprint: Option<Box<Result<Fingerprint, LockError>>>,
}

/// Treatment of a body whose lease is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OnLost {
    /// The body is dropped at its next poll.
    #[default]
    Cancel,
    /// The body continues, and can detect the loss through its [`LockHandle`](crate::LockHandle).
    Continue,
}

/// Durations that a lock keeps when it is handed over to another process.
#[derive(Clone, Copy)]
pub(crate) struct Lasts {
    pub(crate) ttl: Duration,
    /// Renewal interval, if the lock is renewed.
    pub(crate) watchdog: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
}

impl Lasts {
    /// Returns the durations of locks taken with these settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        let ttl = settings.ttl.unwrap_or_default();
        let interval = |beat| match beat {
            Beat::Default => ttl / 3,
            Beat::Every(interval) => interval,
        };
        Self {
            ttl,
            watchdog: settings.watchdog.map(interval),
            max_hold: settings.max_hold,
        }
    }
}

/// The settings, checked and complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) terms: Terms,
    pub(crate) watchdog: Option<Watchdog>,
    pub(crate) wait: Duration,
    /// Maximum time for which a nested call waits for the permit to run inside the enclosing call's
    /// lock. None: as long as the lease of that lock lasts.
    pub(crate) nested_wait: Option<Duration>,
    /// Time for which the lock stays taken after the body has succeeded.
    pub(crate) cooldown: Duration,
    pub(crate) share: Option<Share>,
    /// Minimum time for which the lock stays at the store, counted from the moment when the call
    /// has all its locks.
    pub(crate) min_hold: Option<Duration>,
    /// Parameters of a `replay` call.
    pub(crate) replay: Option<Replay>,
    /// True if the call parks its thread.
    pub(crate) parks: bool,
}

/// The interval at which a watchdog renews.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Beat {
    /// Renews when a third of the ttl has passed since the last renewal.
    Default,
    Every(Duration),
}

impl Settings {
    /// Returns the label for spans and metrics, set by the program or else by the call site.
    pub(crate) fn label(&self, at: At) -> Label {
        self.label.unwrap_or_else(|| at.label())
    }

    /// Checks and completes the settings.
    pub(crate) fn plan(&self, pool: &LockPool) -> Result<Plan, LockError> {
        let ttl = self.ttl.ok_or_else(|| {
            LockError::config("the lock has no ttl; add `.ttl(Duration::from_secs(10))`")
        })?;
        let terms = Terms::new(ttl)?;
        self.parks.map_or(Ok(()), |parks| parks.check(pool))?;
        if self.cooldown.is_some() || self.min_hold.is_some() {
            pool.can_keep()?;
        }
        if self
            .cooldown
            .map(|cooldown| lease_terms::check_stay("cooldown", cooldown))
            .transpose()?
            .is_some()
            && self.share.is_some()
        {
            return Err(LockError::config(
                "a share of a lock cannot be kept with `cooldown`; take the lock without `shared` and `permits`",
            ));
        }
        if self.share == Some(Share::Permit(0)) {
            return Err(LockError::config(
                "`permits` must be at least 1: with zero, no call could ever enter",
            ));
        }
        let pools = pool.default_wait();
        Ok(Plan {
            terms,
            watchdog: self.watchdog(terms)?,
            wait: self.wait.unwrap_or(pools),
            // If neither the call nor the pool sets a `wait`, the call tries once for a lock that
            // an unrelated call holds. For a lock of an enclosing call, `nested_wait` is then none:
            // while the lease lasts, the call waits for other calls nested in the same body.
            nested_wait: self.wait.or((!pools.is_zero()).then_some(pools)),
            cooldown: self.cooldown.unwrap_or_default(),
            share: self.share,
            min_hold: self.min_hold(terms)?,
            replay: self.replay()?,
            parks: self.parks.is_some(),
        })
    }

    /// Checks the options of a `replay` call. A kept result belongs to one key. The call must take
    /// this key's lock itself, and exclusively.
    fn replay(&self) -> Result<Option<Replay>, LockError> {
        let Some(replay) = self.replay else {
            return match self.fingerprint {
                None => Ok(None),
                Some(_) => Err(LockError::config(
                    "a `fingerprint` belongs to a kept result; call `run_replayed`, or leave it out",
                )),
            };
        };
        lease_terms::check_replay(replay)?;
        for (set, option, instead) in [
            (
                self.share.is_some(),
                "shared` and `permits",
                "take an exclusive lock",
            ),
            (
                self.cooldown.is_some(),
                "cooldown",
                "a later call gets the result instead of a refusal",
            ),
            (
                self.reentrant,
                "reentrant",
                "a nested call runs in the lock of its caller, which keeps one result",
            ),
        ] {
            if set {
                return Err(LockError::config(format!(
                    "`replay` cannot be combined with `{option}`: {instead}; leave one of them out"
                )));
            }
        }
        let fingerprint = self.fingerprint.as_deref().cloned().transpose()?;
        Ok(Some(Replay { fingerprint }))
    }

    /// Checks `min_hold`. Without a watchdog, it must not exceed the ttl, so that the key's ttl
    /// keeps the lock for this time even if the process dies.
    fn min_hold(&self, terms: Terms) -> Result<Option<Duration>, LockError> {
        let Some(min_hold) = self.min_hold else {
            return Ok(None);
        };
        lease_terms::check_stay("min_hold", min_hold)?;
        if self.watchdog.is_none() && terms.ttl() < min_hold {
            return Err(LockError::config(format!(
                "a `min_hold` of {min_hold:?} is longer than the ttl of {:?}; raise the ttl to it, so that the lock \
                 stays even if the process dies, or add a watchdog",
                terms.ttl()
            )));
        }
        Ok(Some(min_hold))
    }

    fn watchdog(&self, terms: Terms) -> Result<Option<Watchdog>, LockError> {
        let interval = match self.watchdog {
            Some(Beat::Default) => terms.interval(),
            Some(Beat::Every(interval)) => {
                terms.check_interval(interval)?;
                interval
            }
            None if self.max_hold.is_some() => {
                return Err(LockError::config(
                    "`max_hold` limits a watchdog, but there is none; add `.watchdog()`, or leave \
                     `max_hold` out: without a watchdog the ttl is the limit",
                ));
            }
            None => return Ok(None),
        };
        if self.max_hold.is_some_and(|limit| limit < terms.ttl()) {
            return Err(LockError::config(format!(
                "a `max_hold` of {:?} is shorter than the ttl of {:?}; leave the watchdog out and use a shorter ttl",
                self.max_hold.unwrap_or_default(),
                terms.ttl()
            )));
        }
        Ok(Some(Watchdog {
            interval,
            max_hold: self.max_hold,
        }))
    }
}
