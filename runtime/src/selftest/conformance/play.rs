//! Runs the tests of the suite, called scenes. On a busy machine, a short lease may end between two
//! requests, so a failed scene is repeated.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Maximum number of runs of one scene.
pub(super) const TIMES: u32 = 5;

const TICK: Duration = Duration::from_millis(5);

/// Number of repeats so far.
static AGAIN: AtomicU32 = AtomicU32::new(0);

/// Returns the name of a scene, from which its keys are built. A repeated scene gets a new name,
/// because the keys of its first run may still be locked.
pub(super) fn name(scene: &str) -> String {
    match AGAIN.load(Ordering::Relaxed) {
        0 => scene.to_owned(),
        again => format!("{scene}-{again}"),
    }
}

/// A failed scene.
pub(super) struct Failed {
    pub(super) panic: Box<dyn Any + Send>,
    /// Longest time that the scene's thread may have been suspended.
    pub(super) longest: Duration,
}

/// Runs the scene once.
pub(super) async fn once(scene: impl Future<Output = ()>) -> Result<(), Failed> {
    let longest = Arc::<AtomicU64>::default();
    // Measures the delays in a separate task. In the scene's task, the timer's wake-ups would hide
    // a missing wake-up by the store.
    let watching = tokio::spawn(watch(Arc::clone(&longest)));
    let mut scene = pin!(scene);
    let played = poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| scene.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        },
    );
    let played = played.await;
    // The thread may have been suspended until now. The task `watch` measures this delay at its
    // next tick.
    tokio::time::sleep(TICK).await;
    watching.abort();
    let longest = Duration::from_millis(longest.load(Ordering::Relaxed));
    played.map_err(|panic| Failed { panic, longest })
}

/// Records the longest delay of a wake-up in this runtime, in milliseconds.
async fn watch(longest: Arc<AtomicU64>) {
    loop {
        let slept = Instant::now();
        tokio::time::sleep(TICK).await;
        let late = slept.elapsed().saturating_sub(TICK).as_millis();
        longest.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Marks the next scene as a repeat.
pub(super) fn again() {
    AGAIN.fetch_add(1, Ordering::Relaxed);
}

/// Runs a scene with these clients. Repeats a failed scene if the machine has delayed it for more
/// than a third of the short ttl. A scene that detects a real defect fails each time.
macro_rules! play {
    ($scene:path; $($client:ident),+) => {
        for time in 1.. {
            $($client.slowest = Duration::ZERO;)+
            let played = Box::pin(play::once($scene($(&mut $client),+))).await;
            let Err(failed) = played else { break };
            let held_up = [$($client.was_held_up(failed.longest)),+].contains(&true);
            if !held_up || time == play::TIMES {
                std::panic::resume_unwind(failed.panic);
            }
            play::again();
        }
    };
}
pub(super) use play;
