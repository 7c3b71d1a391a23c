//! The slots and nodes of a cluster, as its nodes report them.

use std::ops::RangeInclusive;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{Pipeline, Value, cmd};
use tokio::time::{Instant, timeout_at};

use crate::store::redis::commands::failure;
use crate::store::redis::commands::hash_slot::SLOTS;
use crate::store::redis::commands::redirect::Endpoint;
use crate::store::redis::server_info::Info;
use crate::store::redis::wire::server::Server;
use crate::store::{Failure, Retry};

/// Time to wait for further answers after the first, because a slower node may report a newer
/// fail-over.
const GRACE: Duration = Duration::from_millis(50);

/// The cluster, as one node reports it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Topology {
    /// The masters, each with a range of its slots.
    pub(crate) masters: Vec<(RangeInclusive<u16>, Endpoint)>,
    pub(super) replicas: Vec<Endpoint>,
    /// True if the cluster announces a master without a host at which clients can reach it.
    pub(super) has_unnamed: bool,
    /// True if the node reports the cluster's state as ok. `None` if the user may not read the
    /// state.
    pub(super) serves: Option<bool>,
    /// The cluster's current epoch, which grows with each fail-over. Zero if unknown.
    generation: u64,
}

impl Topology {
    /// Asks `server` how it sees the cluster.
    pub(super) async fn ask(server: Server, limit: Duration) -> Result<Self, Failure> {
        let mut questions = Pipeline::new();
        for question in ["SLOTS", "INFO"] {
            questions.add_command(cmd("CLUSTER").arg(question).to_owned());
        }
        let host = server.endpoint().map_or_else(String::new, |own| own.host);
        let name = server.to_string();
        let mut answers = server.ask(&questions, limit).await?.into_iter();
        let slots = match answers.next() {
            Some(Value::ServerError(error)) if is_single(error.details()) => {
                return Err(single_server(&name));
            }
            Some(Value::ServerError(error)) => return Err(failure::broken(&error.into())),
            slots => slots
                .as_ref()
                .and_then(|slots| Self::of_slots(slots, &host)),
        };
        let Some(topology) = slots else {
            return Err(failure::garbage("an unexpected reply to CLUSTER SLOTS"));
        };
        let info = Info::read(answers.next().as_ref());
        let info = info.as_ref();
        Ok(Self {
            serves: info
                .and_then(|info| info.field("cluster_state"))
                .map(|state| state == "ok"),
            generation: info
                .and_then(|info| info.number("cluster_current_epoch"))
                .unwrap_or(0),
            ..topology
        })
    }

    /// Parses `[[first, last, [host, port, …], replica, …], …]`. `asked` is the host of the node
    /// that answered. It is used for a node whose host and address the answer leaves out.
    pub(crate) fn of_slots(slots: &Value, asked: &str) -> Option<Self> {
        let mut read = Self::default();
        for range in array(slots)? {
            let [first, last, master, replicas @ ..] = array(range)? else {
                return None;
            };
            let slots = number(first)?..=number(last)?;
            if slots.is_empty() || SLOTS <= *slots.end() {
                return None;
            }
            read.has_unnamed |= announced(master)?.is_empty();
            read.masters.push((slots, endpoint(master, asked)?));
            let replicas = replicas.iter().filter_map(|one| endpoint(one, asked));
            read.replicas.extend(replicas);
        }
        read.replicas
            .sort_by(|a, b| (&a.host, a.port).cmp(&(&b.host, b.port)));
        read.replicas.dedup();
        Some(read)
    }

    /// Asks all servers at once, and returns the newest answer that arrives in time. Prefers nodes
    /// that report the cluster's state as ok. A node that was cut off together with an old master
    /// still reports that master, but with an older epoch.
    pub(super) async fn newest(servers: Vec<Server>, limit: Duration) -> Result<Self, Failure> {
        let mut until = Instant::now() + limit;
        let asking = servers.into_iter().map(|server| Self::ask(server, limit));
        let mut asking: FuturesUnordered<_> = asking.collect();
        let mut newest: Option<Self> = None;
        let mut failed = no_answer();
        while let Ok(Some(answer)) = timeout_at(until, asking.next()).await {
            match answer {
                Ok(answer) => {
                    until = until.min(Instant::now() + GRACE);
                    if newest
                        .as_ref()
                        .is_none_or(|best| best.rank() < answer.rank())
                    {
                        newest = Some(answer);
                    }
                }
                // An error that an operator must fix takes precedence over other failures.
                Err(failure) if failed.retry != Retry::Never => failed = failure,
                Err(_) => {}
            }
        }
        newest.ok_or(failed)
    }

    fn rank(&self) -> (bool, u64) {
        (self.serves == Some(true), self.generation)
    }

    /// True if this answer is from an older epoch than `generation`: its node has missed a
    /// fail-over.
    pub(super) fn is_older_than(&self, generation: u64) -> bool {
        self.generation != 0 && self.generation < generation
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the number of slots without a master.
    pub(crate) fn uncovered(&self) -> u16 {
        let covered = |slot: &u16| self.masters.iter().any(|(range, _)| range.contains(slot));
        let covered = (0..SLOTS).filter(covered).count();
        SLOTS - u16::try_from(covered).unwrap_or(SLOTS)
    }

    /// Returns all masters, each with one of its slots.
    pub(crate) fn one_slot_each(&self) -> Vec<(Endpoint, u16)> {
        let mut masters: Vec<(Endpoint, u16)> = Vec::new();
        for (range, endpoint) in &self.masters {
            if masters.iter().all(|(known, _)| known != endpoint) {
                masters.push((endpoint.clone(), *range.start()));
            }
        }
        masters
    }
}

/// Returns the host that the cluster announces for a node, or an empty text if it announces none. A
/// node announces `?` if its host name is not set, and a null host if clients must use the host
/// that they asked.
fn announced(node: &Value) -> Option<&str> {
    match array(node)?.first()? {
        Value::Nil => Some(""),
        host => text(host).map(|host| if host == "?" { "" } else { host }),
    }
}

fn endpoint(node: &Value, asked: &str) -> Option<Endpoint> {
    let [host, port, more @ ..] = array(node)? else {
        return None;
    };
    let by_address = || match host {
        Value::Nil => None,
        _ => more.get(1).and_then(address),
    };
    let host = match announced(node)? {
        "" => by_address().unwrap_or(asked),
        host => host,
    };
    Some(Endpoint {
        host: host.to_owned(),
        port: number(port)?,
    })
}

/// Returns `ip` from a node's metadata (Redis 7 and later). The field is missing if the announced
/// host is already this address.
fn address(metadata: &Value) -> Option<&str> {
    let mut pairs = array(metadata)?.chunks_exact(2);
    let pair = pairs.find(|pair| text(&pair[0]) == Some("ip"))?;
    text(&pair[1]).filter(|address| !address.is_empty())
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

fn array(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u16> {
    match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}

fn is_single(details: Option<&str>) -> bool {
    details.is_some_and(|details| details.contains("cluster support disabled"))
}

fn single_server(server: &str) -> Failure {
    Failure::unavailable(
        "cluster",
        format!("{server} is not a cluster node; write redis://host:port for a single server"),
        Retry::Never,
        false,
    )
}

fn no_answer() -> Failure {
    Failure::unavailable(
        "timeout",
        "no node of the cluster answered in time; check that they are up and reachable".to_owned(),
        Retry::Later,
        false,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Endpoint {
        Endpoint {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn slot_ranges_masters_and_replicas_are_read() {
        let node = |host: Value, port| Value::Array(vec![host, Value::Int(port), Value::Nil]);
        let named = |host: &str| Value::BulkString(host.into());
        let range = |first, last, nodes: Vec<Value>| {
            Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
        };
        let slots = Value::Array(vec![
            range(0, 99, vec![node(named("a"), 1), node(named("b"), 2)]),
            range(101, 16_383, vec![node(Value::Nil, 3), node(named("b"), 2)]),
        ]);
        let topology = Topology::of_slots(&slots, "asked").expect("it is right");
        assert!(topology.has_unnamed);
        assert_eq!(
            topology.masters,
            [(0..=99, at("a", 1)), (101..=16_383, at("asked", 3))]
        );
        assert_eq!(topology.replicas, [at("b", 2)]);
        assert_eq!(topology.uncovered(), 1);
        assert_eq!(
            topology.one_slot_each(),
            [(at("a", 1), 0), (at("asked", 3), 101)]
        );
        assert_eq!(Topology::of_slots(&Value::Int(1), ""), None);
        for (first, last) in [(2, 1), (0, 16_384), (-1, 1), (0, 65_536)] {
            let slots = Value::Array(vec![range(first, last, vec![node(named("a"), 1)])]);
            assert_eq!(Topology::of_slots(&slots, ""), None, "{first} to {last}");
        }
    }

    /// A node may be announced without a host. Fails if `?` does not lead to the node's IP address,
    /// or a null host to the host that the client asked.
    #[test]
    fn a_node_without_a_name_is_reached_by_its_address() {
        let named = |text: &str| Value::BulkString(text.into());
        let at_host = |host: Value, ip: &str| {
            let metadata = Value::Array(vec![named("ip"), named(ip)]);
            let node = Value::Array(vec![host, Value::Int(1), Value::Nil, metadata]);
            let range = Value::Array(vec![Value::Int(0), Value::Int(9), node]);
            let read = Topology::of_slots(&Value::Array(vec![range]), "asked");
            let read = read.expect("it is right");
            (read.masters[0].1.host.clone(), read.has_unnamed)
        };
        for (host, ip, reached) in [
            (named("?"), "10.0.0.7", ("10.0.0.7", true)),
            (named("?"), "", ("asked", true)),
            (Value::Nil, "10.0.0.7", ("asked", true)),
            (named("a"), "10.0.0.7", ("a", false)),
        ] {
            let (host, is_unnamed) = at_host(host, ip);
            assert_eq!((&*host, is_unnamed), reached);
        }
    }

    #[test]
    fn newer_topologies_of_serving_nodes_win() {
        let answer = |serves, generation| Topology {
            serves,
            generation,
            ..Topology::default()
        };
        assert!(answer(Some(true), 1).rank() > answer(Some(false), 2).rank());
        assert!(answer(Some(true), 2).rank() > answer(Some(true), 1).rank());
    }
}
