//! No lock: the cost of passing the right to run (the turn) from process to process in a ring, with
//! the crate redis.
//!
//! After a bounded number of critical sections, a process publishes a message for the next process.
//! The next process confirms the message with one request to the server. There is no lease, no ttl,
//! no detection of a loss and no fence. If a process ends, there is no guarantee.
//!
//! A lock needs all of these, so this cost is a reference for locks. It is not a lower bound: a
//! client that reads its socket itself may need less time than the crate redis, which has a task
//! for this.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, PushInfo, PushKind, Value, cmd};
use tokio::sync::{OnceCell, mpsc, oneshot};

use super::{Fault, Locks};
use crate::plan::Plan;

/// Redis key of the list of processes, in the order of their start.
const RING: &str = "ring:processes";

/// Number of critical sections that a process runs in one turn: the first, and 16 more, as in
/// leasehold by default (`max_passes`).
const TURN: u32 = 17;

/// One process of the ring.
pub(crate) struct Ring {
    shared: Arc<Shared>,
    begun: OnceCell<()>,
}

struct Shared {
    connection: MultiplexedConnection,
    name: String,
    /// The other processes, beginning with the next one. The flag is true if this process is the
    /// first of the ring.
    ring: OnceCell<(Vec<String>, bool)>,
    place: Mutex<Place>,
}

#[derive(Default)]
struct Place {
    /// Number of critical sections that this process may still begin in its turn.
    left: u32,
    waiting: VecDeque<oneshot::Sender<()>>,
    /// True while this process keeps the turn, although none of its tasks uses it. The process
    /// keeps the turn if no other process runs.
    idle: bool,
}

impl Ring {
    pub(crate) async fn connect(plan: &Plan) -> Result<Self, Fault> {
        let client = redis::Client::open(format!("{}?protocol=resp3", plan.url))?;
        let (sender, pushes) = mpsc::unbounded_channel();
        let config = redis::AsyncConnectionConfig::new()
            .set_response_timeout(Some(plan.patience()))
            .set_push_sender(sender);
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let name = format!("ring:{:032x}", rand::random::<u128>());
        connection.subscribe(&name).await?;
        let () = connection.rpush(RING, &name).await?;
        let shared = Arc::new(Shared {
            connection,
            name,
            ring: OnceCell::new(),
            place: Mutex::default(),
        });
        tokio::spawn(listen(Arc::clone(&shared), pushes));
        Ok(Self {
            shared,
            begun: OnceCell::new(),
        })
    }
}

/// Takes the turn whenever another process passes it to this process.
async fn listen(shared: Arc<Shared>, mut pushes: mpsc::UnboundedReceiver<PushInfo>) {
    while let Some(push) = pushes.recv().await {
        if push.kind == PushKind::Message && shared.confirm().await.is_ok() {
            // An error ends the passing of the turn. The harness then reports lost waiters.
            let _ = shared.take_turn().await;
        }
    }
}

impl Shared {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the other processes of the ring, and true if this process is the first. Reads them
    /// from the server after the work has begun, because all processes have registered by then.
    async fn ring(&self) -> Result<&(Vec<String>, bool), Fault> {
        let load = async || {
            let mut connection = self.connection.clone();
            let ring: Vec<String> = connection.lrange(RING, 0, -1).await?;
            let at = ring.iter().position(|name| *name == self.name);
            let at = at.ok_or("the ring has been emptied")?;
            let others = ring[at + 1..].iter().chain(&ring[..at]);
            Ok((others.cloned().collect(), at == 0))
        };
        self.ring.get_or_try_init(load).await
    }

    /// Takes the first turn of the run, if this process is the first of the ring.
    async fn begin(&self) -> Result<(), Fault> {
        if self.ring().await?.1 {
            self.take_turn().await?;
        }
        Ok(())
    }

    /// Confirms the turn with a request to the server. A real lock would also need such a request,
    /// and would count its lease from then.
    async fn confirm(&self) -> Result<Value, redis::RedisError> {
        let mut connection = self.connection.clone();
        cmd("PING").query_async(&mut connection).await
    }

    async fn take_turn(&self) -> Result<(), Fault> {
        self.place().left = TURN;
        self.go_on().await
    }

    /// Wakes the next task of this process. If no task waits, or the turn is over, passes the turn
    /// to the next process.
    async fn go_on(&self) -> Result<(), Fault> {
        if self.next_of_own() {
            return Ok(());
        }
        let mut connection = self.connection.clone();
        for other in &self.ring().await?.0 {
            // An ended process receives no message, so the next one is tried.
            let received: u32 = connection.publish(other, "").await?;
            if received > 0 {
                return Ok(());
            }
        }
        let mut place = self.place();
        (place.left, place.idle) = (u32::MAX, true);
        drop(place);
        self.wake();
        Ok(())
    }

    fn next_of_own(&self) -> bool {
        let mut place = self.place();
        while place.left > 0
            && let Some(next) = place.waiting.pop_front()
        {
            place.left -= 1;
            if next.send(()).is_ok() {
                return true;
            }
        }
        place.left = 0;
        false
    }

    /// Passes a kept turn (`idle`) to the next waiting task, if there is one.
    fn wake(&self) {
        let mut place = self.place();
        if place.idle
            && let Some(next) = place.waiting.pop_front()
        {
            place.idle = next.send(()).is_err();
        }
    }
}

impl Locks for Ring {
    async fn inside<B>(&self, _: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let (sender, turn) = oneshot::channel();
        self.shared.place().waiting.push_back(sender);
        self.shared.wake();
        self.begun.get_or_try_init(|| self.shared.begin()).await?;
        turn.await?;
        let output = body.await;
        self.shared.go_on().await?;
        Ok(output)
    }
}
