//! Random interleavings of the requests of many clients, compared with a model.

use std::collections::HashMap;
use std::future::poll_fn;
use std::time::Duration;

use crate::base::clock::Clock;
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::store::{
    Give, GiveKind, LockStore, Op, OpId, Renewal, Reply, Request, StoreEvent, Take,
};

/// A ttl so long that no lock expires during a run.
const TTL: Duration = Duration::from_secs(3600);
const KEYS: u64 = 64;
const CLIENTS: u64 = 16;
const BATCH: u64 = 128;

/// Number of requests that a run has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// All requests.
    pub requests: u64,
    /// Requests for a lock that another client had.
    pub foreign: u64,
}

/// Model of the store: the owner of each key, and its fence.
struct Model {
    keys: Vec<FullKey>,
    clients: Vec<Token>,
    owners: HashMap<usize, (usize, Option<Fence>)>,
    seed: u64,
    counts: Counts,
}

/// Sends `requests` random requests to the store. Fails with a description of the first answer that
/// differs from the model.
pub(crate) async fn run(
    mut store: Box<dyn LockStore>,
    seed: u64,
    requests: u64,
) -> Result<Counts, String> {
    let run = Clock::System.now().as_nanos();
    let key = |number| format!("interleaved:{run}:{number}").into();
    let mut model = Model {
        keys: (0..KEYS).map(key).collect(),
        clients: (0..CLIENTS).map(|_| Token::random(Nonce::new())).collect(),
        owners: HashMap::new(),
        seed,
        counts: Counts::default(),
    };
    while model.counts.requests < requests {
        model.batch(store.as_mut()).await?;
    }
    Ok(model.counts)
}

impl Model {
    /// Sends a batch of random requests. The store must answer as if it had received the requests
    /// one by one.
    async fn batch(&mut self, store: &mut dyn LockStore) -> Result<(), String> {
        let mut asked = HashMap::new();
        let mut order = Vec::new();
        let mut batch = Vec::new();
        for _ in 0..BATCH {
            self.counts.requests += 1;
            let id = OpId(self.counts.requests);
            let (key, client) = (self.below(KEYS), self.below(CLIENTS));
            let op = self.op(key, client);
            asked.insert(id, op.clone());
            order.push((id, key, client));
            batch.push(Request {
                id,
                op,
                patience: TTL,
            });
        }
        store.submit(&mut batch);
        let mut replies = HashMap::new();
        while replies.len() < order.len() {
            match poll_fn(|cx| store.poll_event(cx)).await {
                StoreEvent::Reply(id, Ok(reply)) => drop(replies.insert(id, reply)),
                StoreEvent::Reply(id, Err(failure)) => {
                    return Err(format!("request {}: {}", id.0, failure.error));
                }
                StoreEvent::Connected
                | StoreEvent::Away
                | StoreEvent::Turn(_)
                | StoreEvent::Wanted(_)
                | StoreEvent::Revoked { .. } => {}
                #[cfg(feature = "__session")]
                StoreEvent::Lost(_) => {}
            }
        }
        for (id, key, client) in order {
            let (op, reply) = (&asked[&id], &replies[&id]);
            if !self.agrees(op, reply, key, client) {
                return Err(format!(
                    "request {} of client {client}: {op:?} was answered {reply:?}, and the key's owner is {:?}",
                    id.0,
                    self.owners.get(&key)
                ));
            }
        }
        Ok(())
    }

    fn op(&mut self, key: usize, client: usize) -> Op {
        let (key, token) = (self.keys[key].clone(), self.clients[client]);
        match self.below(3) {
            0 => Op::Take(Take::lock(key, token, TTL, "interleaved")),
            1 => Op::Keep {
                renewals: vec![Renewal {
                    key,
                    token,
                    ttl: TTL,
                }],
                shares: false,
            },
            _ => Op::Give(Give::now(key, token, GiveKind::Lock)),
        }
    }

    /// Returns true if the reply agrees with the model. Also applies the request to the model.
    fn agrees(&mut self, op: &Op, reply: &Reply, key: usize, client: usize) -> bool {
        let owner = self.owners.get(&key).copied();
        let mine = owner.is_some_and(|(owner, _)| owner == client);
        self.counts.foreign += u64::from(owner.is_some() && !mine);
        match (op, reply) {
            (Op::Take(_), Reply::Acquired { fence, .. }) => {
                let (_, known) = *self.owners.entry(key).or_insert((client, *fence));
                (mine || owner.is_none()) && known == *fence
            }
            (Op::Take(_), Reply::Held { .. }) => owner.is_some() && !mine,
            (Op::Keep { .. }, Reply::Renewed(kept)) => *kept == [mine],
            (Op::Give(_), Reply::Released { found, .. }) => {
                if mine {
                    self.owners.remove(&key);
                }
                *found == mine
            }
            _ => false,
        }
    }

    /// Returns a pseudorandom number below `limit` (`SplitMix64`).
    fn below(&mut self, limit: u64) -> usize {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % limit).unwrap_or(0)
    }
}
