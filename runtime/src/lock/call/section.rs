//! The life of one call, from its options to the release of its locks.

use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread;

use super::body::Body;
use super::gate::Gate;
use crate::base::outcome::End;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::lock::nest::call_site::At;
use crate::lock::nest::leases::Locks;
use crate::lock::take::acquire::{Acquisition, begin};
use crate::lock::take::held::HeldLocks;
use crate::lock::take::observed;
use crate::lock::take::settings::Settings;
use crate::pool::{LockPool, installed};
use crate::store::kept::{Kept, Record};

/// One run of a body inside the locks of one call. No field's type depends on the body, so this
/// code is compiled once for all bodies.
pub(crate) struct Section {
    at: At,
    /// None for the pool of the current scope or, outside of all scopes, the installed pool.
    pool: Option<LockPool>,
    locks: Locks,
    /// The error of invalid keys or of a missing pool. Boxed to keep the type small.
    invalid: Option<Box<LockError>>,
    pub(crate) settings: Settings,
    stage: Stage,
}

/// A section whose type is hidden from the crates with annotated functions. Otherwise each of their
/// codegen units would compile the drop code of a section, including that of its pool.
pub(crate) type HiddenSection = Box<dyn Hidden + Send>;

pub(crate) trait Hidden {
    fn section(&self) -> &Section;
    fn section_mut(&mut self) -> &mut Section;
}

impl Hidden for Section {
    fn section(&self) -> &Section {
        self
    }

    fn section_mut(&mut self) -> &mut Section {
        self
    }
}

/// Progress of a call. Each stage owns the locks and requests that a dropped call gives up.
enum Stage {
    /// Nothing is requested yet.
    New,
    Taking(Acquisition),
    Inside(Gate),
    /// A kept result answers the call, and no lock was taken.
    Recalled(
        #[cfg_attr(
            not(feature = "replay"),
            expect(dead_code, reason = "without replay no call has one")
        )]
        Arc<Kept>,
    ),
    /// The body is dropped, and the release is requested. The second field is the result of the
    /// call.
    Releasing(HeldLocks, Result<thread::Result<()>, LockError>),
    Over,
}

impl Section {
    /// Creates a call for these locks. Nothing is sent yet.
    pub(crate) fn new(at: At, locks: Result<Locks, LockError>, settings: Settings) -> Self {
        let (locks, invalid) = match locks {
            Ok(locks) => (locks, None),
            Err(error) => (Locks::one(String::new()), Some(Box::new(error))),
        };
        Self {
            at,
            pool: None,
            locks,
            invalid,
            settings,
            stage: Stage::New,
        }
    }

    /// Uses this pool instead of that of the scope or the installed one. If this is an error, the
    /// call fails with it at its first poll.
    pub(crate) fn set_pool(&mut self, pool: Result<LockPool, LockError>) {
        match pool {
            Ok(pool) => self.pool = Some(pool),
            Err(error) => self.invalid = self.invalid.take().or(Some(Box::new(error))),
        }
    }

    pub(crate) fn at(&self) -> At {
        self.at
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    /// True if an enclosing call holds one of the call's locks, or a kept result answers the call.
    /// Such a call does not start a task for its body, even with `detach`.
    pub(crate) fn is_nested_or_recalled(&self) -> bool {
        match &self.stage {
            Stage::Inside(gate) => gate.held().is_nested(),
            Stage::Recalled(_) => true,
            _ => false,
        }
    }

    /// Builds the record that the release stores. None without `replay`, and after `Err`. Also none
    /// if the result exceeds the pool's size limit, or if its JSON cannot be read back.
    #[cfg(feature = "replay")]
    fn record(&self, body: &mut dyn Body) -> Option<Arc<Record>> {
        let stays = self.settings.replay?;
        let (key, json) = (self.locks.first_name(), body.take_json()?);
        let limit = match &self.stage {
            Stage::Inside(gate) => gate.held().replay_limit(),
            _ => 0,
        };
        let print = self.settings.fingerprint.as_deref();
        let kept = Kept {
            fingerprint: print.and_then(|print| print.as_ref().ok().copied()),
            json: super::replay::within(key, json, limit)?,
        };
        let kept = Arc::new(kept);
        let function = self.at.path();
        Some(Arc::new(Record {
            function,
            kept,
            stays,
        }))
    }

    /// Sets the kept value as the result of the body.
    #[cfg(feature = "replay")]
    fn fill(&mut self, body: &mut dyn Body) -> Result<(), LockError> {
        let Stage::Recalled(kept) = mem::replace(&mut self.stage, Stage::Over) else {
            return Ok(());
        };
        let filled = body.fill(&kept.json);
        filled.map_err(|why| super::replay::unreadable(self.locks.first_name(), &why))?;
        super::observe::replayed();
        Ok(())
    }

    /// Takes the locks, runs the body inside them, and releases them. Ready with `Ok` when the body
    /// has returned and the wait for the release is over, or when a kept result answers the call. A
    /// panic of the body continues after the release.
    ///
    /// This method drops the body before it requests the release, however the body ends. If the
    /// call is dropped, its owner must drop the body before this section, because dropping the
    /// section releases the locks.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut dyn Body,
    ) -> Poll<Result<(), LockError>> {
        ready!(self.poll_taken(cx))?;
        #[cfg(feature = "replay")]
        if matches!(self.stage, Stage::Recalled(_)) {
            body.clear();
            return Poll::Ready(self.fill(body));
        }
        if let Stage::Inside(gate) = &mut self.stage {
            let end = ready!(gate.poll(cx, body));
            #[cfg(feature = "replay")]
            let record = match &end {
                Ok(Ok(_)) => self.record(body),
                _ => None,
            };
            #[cfg(not(feature = "replay"))]
            let record = None;
            if !seeded!(ReleasedBeforeDrop) {
                body.clear();
            }
            self.begin_release(end, record)?;
        }
        self.poll_released(cx)
    }

    /// Takes the locks. Ready when the call holds them, or when a kept result answers the call.
    ///
    /// Cancel safety: a dropped [`Acquisition`] gives up its locks and requests.
    pub(crate) fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        if !matches!(self.stage, Stage::New | Stage::Taking(_)) {
            return Poll::Ready(Ok(()));
        }
        // The acquisition is moved out of the stage. So if the program's `tracing` subscriber
        // panics in this poll, the unwinding drops the acquisition, which gives up the locks.
        let mut taking = match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Taking(taking) => taking,
            _ => self.begin()?,
        };
        match taking.poll(cx)? {
            Poll::Ready(()) => {
                let held = taking.into_held();
                self.stage = match self.settings.replay.and_then(|_| held.kept()) {
                    None => {
                        let late_is_lost = self.settings.parks.is_some() || self.settings.leads;
                        Stage::Inside(Gate::new(held, self.settings.on_lost, late_is_lost))
                    }
                    Some(kept) => Stage::Recalled(kept),
                };
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                self.stage = Stage::Taking(taking);
                Poll::Pending
            }
        }
    }

    fn begin(&mut self) -> Result<Acquisition, LockError> {
        let valid = self.invalid.take().map_or(Ok(()), |error| Err(*error));
        let pool = valid.and_then(|()| self.pool.take().map_or_else(installed::current, Ok));
        let label = self.settings.label(self.at);
        let pool = pool.inspect_err(|error| observed::refused(label, error))?;
        begin(pool, self.locks.clone(), &self.settings, self.at)
    }

    /// Requests the release. After a loss, there is no answer to wait for, so this only drops the
    /// locks and returns the error.
    fn begin_release(
        &mut self,
        end: Result<thread::Result<bool>, LockError>,
        record: Option<Arc<Record>>,
    ) -> Result<(), LockError> {
        let Stage::Inside(gate) = mem::replace(&mut self.stage, Stage::Over) else {
            return Ok(());
        };
        let mut held = gate.into_held();
        let (keep, end) = match end {
            Ok(Ok(good)) => {
                let keeps = good || seeded!(KeptAfterErr);
                (self.settings.cooldown.filter(|_| keeps), Ok(Ok(())))
            }
            // The gate has caught the panic, which continues after the wait for the release. If it
            // continued at once, it could end the runtime before the release is sent.
            Ok(Err(panic)) => {
                held.ends(End::Panicked);
                (None, Ok(Err(panic)))
            }
            Err(lost) if seeded!(ReleasedBeforeDrop) => (None, Err(lost)),
            Err(lost) => {
                held.ends(End::Lost);
                return Err(lost);
            }
        };
        match record {
            None => held.begin_release(keep),
            Some(record) => held.begin_release_with(keep, record),
        }
        self.stage = Stage::Releasing(held, end);
        Ok(())
    }

    fn poll_released(&mut self, cx: &Context<'_>) -> Poll<Result<(), LockError>> {
        let Stage::Releasing(held, _) = &mut self.stage else {
            // Panics like a compiler-generated future: `Future::poll` allows no poll after the end.
            panic!("a call was polled after its end");
        };
        // The body has ended, so its result does not change if the release finds the lease lost.
        // The engine logs and counts that loss.
        let _ = ready!(held.poll_released(cx));
        match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Releasing(_, Ok(Err(panic))) => resume_unwind(panic),
            Stage::Releasing(_, Err(lost)) => Poll::Ready(Err(lost)),
            _ => Poll::Ready(Ok(())),
        }
    }
}
