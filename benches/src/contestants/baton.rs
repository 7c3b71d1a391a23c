//! No lock, but the least that one among processes takes: it is passed on in turn, by a message of the server that is confirmed by
//! one request, after as many sections as a process may have in a row. There is no lease, no ttl, no loss and no fence, and
//! nothing is promised when a process ends. How often this changes hands is a bound for every lock that keeps those rules.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, PushInfo, PushKind, Value, cmd};
use tokio::sync::{OnceCell, mpsc, oneshot};

use super::{Fault, Locks};
use crate::plan::Plan;

/// The processes, in the order in which they came.
const RING: &str = "baton:ring";

/// The sections of a turn: one, and 16 to which the lock is passed on.
const TURN: u32 = 17;

/// One process's place in the ring.
pub(crate) struct Baton {
    shared: Arc<Shared>,
    begun: OnceCell<()>,
}

struct Shared {
    connection: MultiplexedConnection,
    name: String,
    place: Mutex<Place>,
}

#[derive(Default)]
struct Place {
    /// What is left of this process's turn.
    left: u32,
    waiting: VecDeque<oneshot::Sender<()>>,
    /// The others, beginning with the next.
    others: Vec<String>,
}

impl Baton {
    pub(crate) async fn connect(plan: &Plan) -> Result<Self, Fault> {
        let client = redis::Client::open(format!("{}?protocol=resp3", plan.url))?;
        let (sender, pushes) = mpsc::unbounded_channel();
        let config = redis::AsyncConnectionConfig::new()
            .set_response_timeout(Some(plan.patience()))
            .set_push_sender(sender);
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let name = format!("baton:{:032x}", rand::random::<u128>());
        connection.subscribe(&name).await?;
        let () = connection.rpush(RING, &name).await?;
        let shared = Arc::new(Shared {
            connection,
            name,
            place: Mutex::default(),
        });
        tokio::spawn(listen(Arc::clone(&shared), pushes));
        Ok(Self {
            shared,
            begun: OnceCell::new(),
        })
    }

    /// By now all processes have come; the first of them begins.
    async fn begin(&self) -> Result<(), Fault> {
        let mut connection = self.shared.connection.clone();
        let ring: Vec<String> = connection.lrange(RING, 0, -1).await?;
        let at = ring.iter().position(|name| *name == self.shared.name);
        let at = at.ok_or("the ring has been emptied")?;
        let (before, after) = (&ring[..at], &ring[at + 1..]);
        self.shared.place().others = after.iter().chain(before).cloned().collect();
        if at == 0 {
            self.shared.take_turn().await;
        }
        Ok(())
    }
}

/// Takes the turns of this process.
async fn listen(shared: Arc<Shared>, mut pushes: mpsc::UnboundedReceiver<PushInfo>) {
    while let Some(push) = pushes.recv().await {
        if push.kind == PushKind::Message && shared.confirm().await.is_ok() {
            shared.take_turn().await;
        }
    }
}

impl Shared {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request that a lease would be counted from.
    async fn confirm(&self) -> Result<Value, redis::RedisError> {
        let mut connection = self.connection.clone();
        cmd("PING").query_async(&mut connection).await
    }

    async fn take_turn(&self) {
        self.place().left = TURN;
        self.go_on().await;
    }

    /// The next of this process; where there is none, or the turn is over, the next process.
    async fn go_on(&self) {
        let others = {
            let mut place = self.place();
            while place.left > 0
                && let Some(next) = place.waiting.pop_front()
            {
                place.left -= 1;
                if next.send(()).is_ok() {
                    return;
                }
            }
            place.left = 0;
            place.others.clone()
        };
        let mut connection = self.connection.clone();
        for other in others {
            // Nobody hears where a process has ended.
            let heard: Result<u32, _> = connection.publish(other, "").await;
            if heard.is_ok_and(|heard| heard > 0) {
                return;
            }
        }
        // The last one is alone.
        self.place().left = u32::MAX;
    }
}

impl Locks for Baton {
    async fn inside<B>(&self, _: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let (sender, turn) = oneshot::channel();
        self.shared.place().waiting.push_back(sender);
        self.begun.get_or_try_init(|| self.begin()).await?;
        turn.await?;
        let output = body.await;
        self.shared.go_on().await;
        Ok(output)
    }
}
