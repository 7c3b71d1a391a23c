//! Inspects the locks of a cluster.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;

use super::address::Address;
use super::nodes::Access;
use super::topology::Topology;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::inspect::info::LockInfo;
use crate::inspect::pattern::Pattern;
use crate::store::options::Options;
use crate::store::redis::commands::hash_slot;
use crate::store::redis::commands::key_names::KeyNames;
use crate::store::redis::commands::redirect::{Endpoint, Redirect};
use crate::store::redis::look::answer::{self, List};
use crate::store::redis::look::{Action, RedisSource};
use crate::store::redis::wire::server::Server;
use crate::store::source::{Asking, Page, Place, Source};
use crate::store::{Failure, Retry};

/// Maximum number of nodes to ask about one lock. While slots move, nodes may redirect to each
/// other without end.
const MOST_HOPS: usize = 4;

/// Inspects the locks of a cluster, over a connection to each master.
pub(crate) struct ClusterSource {
    seeds: Vec<Server>,
    access: Access,
    limit: Duration,
    /// The masters, as last reported by the nodes. `None` if the nodes must be asked again.
    topology: Option<Topology>,
    nodes: HashMap<Endpoint, RedisSource>,
}

impl ClusterSource {
    pub(crate) fn new(address: Address, options: &Options) -> Self {
        Self {
            seeds: address.seeds,
            access: Access {
                like: address.like,
                names: KeyNames::of(options),
                options: options.clone(),
            },
            limit: options.io_timeout,
            topology: None,
            nodes: HashMap::new(),
        }
    }

    async fn topology(&mut self) -> Result<&Topology, Failure> {
        if let Some(topology) = self.topology.take() {
            return Ok(self.topology.insert(topology));
        }
        let topology = Topology::newest(self.seeds.clone(), self.limit).await?;
        let masters = topology.one_slot_each();
        self.nodes
            .retain(|known, _| masters.iter().any(|(master, _)| master == known));
        Ok(self.topology.insert(topology))
    }

    /// Returns the master with `slot`.
    async fn owner(&mut self, slot: u16) -> Result<Endpoint, Failure> {
        let topology = self.topology().await?;
        let mut masters = topology.masters.iter();
        let owner = masters.find(|(slots, _)| slots.contains(&slot));
        let owner = owner.map(|(_, endpoint)| endpoint.clone());
        if owner.is_none() {
            self.topology = None;
        }
        owner.ok_or_else(|| {
            Failure::unavailable(
                "CLUSTERDOWN",
                "no node of the cluster has the key's slot; look at CLUSTER INFO".to_owned(),
                Retry::Later,
                false,
            )
        })
    }

    fn node(&mut self, endpoint: &Endpoint) -> &mut RedisSource {
        let access = &self.access;
        self.nodes.entry(endpoint.clone()).or_insert_with(|| {
            let (master, names, options) = access.master(endpoint, 0);
            RedisSource::of(master, names, &options)
        })
    }

    /// Sends the action to the master of the key's slot, and follows redirects while the slot
    /// moves.
    async fn do_with(&mut self, action: Action, key: &FullKey) -> Result<LockInfo, Failure> {
        let slot = hash_slot::of(key);
        let mut asked = self.owner(slot).await?;
        let mut last = None;
        for _ in 0..MOST_HOPS {
            match self.node(&asked).answer(action, key).await {
                Ok(answer) if is_split(&answer) && action == Action::Inspect => {
                    let alone = self.node(&asked).answer(Action::InspectAlone, key).await?;
                    return answer::read(key.name(), &alone);
                }
                Ok(answer) => {
                    let Some(Redirect { mut to, once, .. }) = Redirect::read(&answer) else {
                        return answer::read(key.name(), &answer);
                    };
                    if to.host.is_empty() {
                        to.host = asked.host;
                    }
                    if !once {
                        self.topology = None;
                    }
                    asked = to;
                }
                Err(failure) if failure.retry == Retry::Never => return Err(failure),
                // A second run could take the lock from its next holder.
                Err(failure)
                    if action == Action::TakeAway
                        && failure.executed
                        && !seeded!(ForcedReleaseRepeated) =>
                {
                    return Err(failure);
                }
                Err(failure) => {
                    // After a failure, another node may have the slot, so the slot map is read
                    // again.
                    self.topology = None;
                    asked = self.owner(slot).await?;
                    last = Some(failure);
                }
            }
        }
        Err(last.unwrap_or_else(|| {
            Failure::unavailable(
                "MOVED",
                "the nodes of the cluster refer to each other for the key's slot; it may be moving"
                    .to_owned(),
                Retry::Later,
                false,
            )
        }))
    }

    /// Returns a page of locks from one master. This is the first master at or after `from`, in the
    /// order of the masters' addresses.
    async fn some(&mut self, pattern: &Pattern, from: From) -> Result<Page, Failure> {
        let masters = self.topology().await?.one_slot_each();
        let mut masters: Vec<_> = masters.into_iter().map(|(master, _)| master).collect();
        masters.sort_by(|a, b| (&a.host, a.port).cmp(&(&b.host, b.port)));
        let mut behind = masters
            .into_iter()
            .filter(|master| from.is_reached_by(master));
        let Some(master) = behind.next() else {
            return Ok(Page::default());
        };
        let cursor = if from.is_at(&master) {
            &*from.cursor
        } else {
            ""
        };
        let scanned = self.node(&master).scan(pattern, cursor).await;
        let (keys, next) = scanned.inspect_err(|_| self.topology = None)?;
        let mut locks = Vec::new();
        if !keys.is_empty() {
            let answers = self.node(&master).answers(Action::Inspect, &keys).await?;
            let list = List::of(&answers);
            for (key, answer) in keys.iter().zip(answers) {
                let moves = is_split(&answer) || Redirect::read(&answer).is_some();
                locks.push(if moves {
                    self.do_with(Action::Inspect, key).await?
                } else {
                    list.read(key.name(), &answer)?
                });
            }
        }
        locks.retain(LockInfo::is_taken);
        let next = match next {
            Some(cursor) => Some(From::at(&master, cursor)),
            None => behind.next().map(|master| From::at(&master, String::new())),
        };
        Ok(Page {
            locks,
            next: next.map(|next| next.place()),
        })
    }
}

/// True if the node answered `TRYAGAIN`: the slot is moving, and the lock's key, queue and shares
/// are not all on the same node.
fn is_split(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "TRYAGAIN")
}

impl Source for ClusterSource {
    fn look<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move {
            let looked = self.do_with(Action::Inspect, key).await;
            looked.map_err(|failure| failure.error)
        })
    }

    fn page<'a>(&'a mut self, pattern: &'a Pattern, place: Place) -> Asking<'a, Page> {
        Box::pin(async move {
            let page = self.some(pattern, From::read(&place)).await;
            page.map_err(|failure| failure.error)
        })
    }

    fn take_away<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move {
            let taken = self.do_with(Action::TakeAway, key).await;
            taken.map_err(|failure| failure.error)
        })
    }
}

/// Position at which a list of locks continues: the node, and the cursor of the scan on this node.
#[derive(Debug, Default, PartialEq, Eq)]
struct From {
    host: String,
    port: u16,
    cursor: String,
}

impl From {
    fn at(master: &Endpoint, cursor: String) -> Self {
        Self {
            host: master.host.clone(),
            port: master.port,
            cursor,
        }
    }

    fn is_at(&self, master: &Endpoint) -> bool {
        (&*self.host, self.port) == (&*master.host, master.port)
    }

    fn is_reached_by(&self, master: &Endpoint) -> bool {
        (&*self.host, self.port) <= (&*master.host, master.port)
    }

    /// Returns `host port cursor`. The cursor is empty at the beginning of a node's scan.
    fn place(&self) -> Place {
        let Self { host, port, cursor } = self;
        Place(format!("{host} {port} {cursor}"))
    }

    fn read(place: &Place) -> Self {
        let mut words = place.0.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (host, port) = (word(), word());
        Self {
            host,
            port: port.parse().unwrap_or_default(),
            cursor: word(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_resumes_at_its_position() {
        let master = Endpoint {
            host: "::1".to_owned(),
            port: 7,
        };
        for cursor in ["", "42"] {
            let from = From::at(&master, cursor.to_owned());
            assert_eq!(From::read(&from.place()), from);
            assert!(from.is_at(&master) && from.is_reached_by(&master));
        }
        assert!(From::read(&Place::default()).is_reached_by(&master));
    }
}
