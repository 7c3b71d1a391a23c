//! Masters and replicas of a Redis Cluster, all of them real processes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redis::{Cmd, cmd};

use crate::redis_probe::RedisProbe;
use crate::server::{Server, ServerOptions};
use crate::wait;

mod bus;
mod key_probe;
mod standing;

use bus::Bus;
pub use key_probe::ClusterProbe;

/// Number of masters. The slots are divided evenly among them.
pub const MASTERS: usize = 3;
const SLOTS: usize = 16_384;

/// Time limit for a change on which several nodes must agree, such as a fail-over.
const PATIENCE: Duration = Duration::from_secs(60);

/// Silence after which a node counts as down, in milliseconds.
const NODE_TIMEOUT_MS: &str = "2000";

/// Configuration of the nodes.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Setup {
    replicas: usize,
    spares: usize,
    password: Option<String>,
    divisible: bool,
    program: Option<PathBuf>,
}

impl Setup {
    /// Creates a configuration with masters only, without a password.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a replica for each master.
    pub fn with_replicas(mut self) -> Self {
        self.replicas = MASTERS;
        self
    }

    /// Adds one master without slots, as the last node.
    pub fn with_a_spare(mut self) -> Self {
        self.spares = 1;
        self
    }

    /// Requires this password from clients.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Runs `program` as each node, instead of `redis-server`.
    pub fn program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// Allows tests to [cut nodes off](Cluster::isolate) from each other. Each node then connects
    /// from a different address of 127.0.0.0/8, and the system must have these addresses.
    pub fn divisible(mut self) -> Self {
        self.divisible = true;
        self
    }

    /// Starts the nodes, and waits until each of them reports that the cluster serves all slots.
    ///
    /// # Panics
    ///
    /// Panics if the nodes do not find each other.
    pub fn start(self) -> Cluster {
        let count = MASTERS + self.replicas + self.spares;
        let nodes = (0..count).map(|index| self.node(index));
        let nodes: Vec<_> = nodes.collect();
        let cluster = Cluster { nodes };
        for (index, node) in cluster.running() {
            let mut epoch = cmd("CLUSTER");
            node.run::<()>(epoch.arg("SET-CONFIG-EPOCH").arg(index + 1));
        }
        for index in 0..MASTERS {
            let (first, last) = slots_of(index);
            let mut add = cmd("CLUSTER");
            add.arg("ADDSLOTSRANGE").arg(first).arg(last);
            cluster.node(index).run::<()>(&add);
        }
        cluster.introduce();
        for index in MASTERS..MASTERS + self.replicas {
            let mut replicate = cmd("CLUSTER");
            replicate.arg("REPLICATE").arg(cluster.id(index - MASTERS));
            cluster.node(index).run::<()>(&replicate);
        }
        cluster.wait_until_complete(self.replicas);
        cluster
    }

    fn node(&self, index: usize) -> Node {
        let (options, port) = ServerOptions::new().cluster_node();
        let bus = self.divisible.then(|| Bus::start(port));
        let options = match &bus {
            Some(bus) => options
                .option("cluster-announce-ip", &["127.0.0.1"])
                // In protected mode a server accepts only clients at 127.0.0.1. These nodes connect
                // to each other from other addresses.
                .option("protected-mode", &["no"])
                .option("cluster-announce-bus-port", &[&bus.port().to_string()])
                .option("bind-source-addr", &[&standing::address(index).to_string()]),
            None => options,
        };
        let options = options
            .option("cluster-node-timeout", &[NODE_TIMEOUT_MS])
            .option("cluster-replica-validity-factor", &["0"])
            .option("repl-diskless-sync-delay", &["0"])
            .option("repl-ping-replica-period", &["1"]);
        let options = match &self.password {
            Some(password) => options.password(password).option("masterauth", &[password]),
            None => options,
        };
        let options = match &self.program {
            Some(program) => options.program(program),
            None => options,
        };
        let server = options.start();
        Node {
            probe: server.probe(),
            server,
            bus_port: bus.as_ref().map_or(port, Bus::port),
            bus,
            runs: true,
        }
    }
}

/// Returns the first and the last slot that a master has at the start.
fn slots_of(master: usize) -> (usize, usize) {
    (master * SLOTS / MASTERS, (master + 1) * SLOTS / MASTERS - 1)
}

/// The process of one node.
#[derive(Debug)]
struct Node {
    server: Server,
    probe: RedisProbe,
    /// Port to which the other nodes connect: the port of `bus`, or the bus port of the node itself
    /// if there is no `bus`.
    bus_port: u16,
    bus: Option<Bus>,
    runs: bool,
}

impl Node {
    fn run<T: redis::FromRedisValue>(&self, command: &Cmd) -> T {
        self.probe.run(command)
    }

    fn state(&self) -> String {
        self.run(cmd("CLUSTER").arg("INFO"))
    }
}

/// A running cluster. The nodes keep their order from the start: first the masters with slots, then
/// the replica of each, then the spare master.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

impl Cluster {
    /// Returns the URL for a pool, with all running nodes.
    pub fn url(&self) -> String {
        let hosts = self
            .running()
            .map(|(_, node)| format!("127.0.0.1:{}", node.server.port()));
        format!("redis-cluster://{}", hosts.collect::<Vec<_>>().join(","))
    }

    /// Returns a node's process.
    pub fn server(&self, node: usize) -> &Server {
        &self.node(node).server
    }

    /// Returns a probe of a node. The probe is a client outside leasehold.
    pub fn probe(&self, node: usize) -> &RedisProbe {
        &self.node(node).probe
    }

    /// Runs a command on every node.
    pub fn run_everywhere(&self, command: &Cmd) {
        for (_, node) in self.running() {
            node.run::<()>(command);
        }
    }

    /// Returns the probe of a key's master.
    pub fn probe_of(&self, key: &str) -> &RedisProbe {
        self.probe(self.owner(self.slot(key)))
    }

    /// Returns the slot of a key. The key must be passed as it is on the server.
    ///
    /// # Panics
    ///
    /// Panics if no node runs.
    pub fn slot(&self, key: &str) -> usize {
        let (_, any) = self.running().next().expect("a node runs");
        any.run(cmd("CLUSTER").arg("KEYSLOT").arg(key))
    }

    /// Returns the index of the node that reports the slot as its own.
    ///
    /// # Panics
    ///
    /// Panics if no node has the slot.
    pub fn owner(&self, slot: usize) -> usize {
        let owner = self.running().find(|(_, node)| has(node, slot));
        owner.expect("a node has the slot").0
    }

    /// Returns all keys of all masters, with their namespace.
    pub fn keys(&self) -> Vec<String> {
        let masters = self
            .running()
            .filter(|(_, node)| node.server.role().as_deref() == Some("master"));
        masters.flat_map(|(_, node)| node.probe.keys("*")).collect()
    }

    /// Begins to move a slot, the first of three steps. After this step, if the old node does not
    /// have a requested key, it redirects the request to the new node.
    pub fn begin_move(&self, slot: usize, to: usize) {
        let from = self.owner(slot);
        self.set_slot(to, slot, "IMPORTING", &self.id(from));
        self.set_slot(from, slot, "MIGRATING", &self.id(to));
    }

    /// Moves up to `count` keys of the slot, the second of three steps. Returns the number of moved
    /// keys.
    pub fn move_keys(&self, slot: usize, to: usize, count: usize) -> usize {
        let from = self.node(self.owner(slot));
        let mut list = cmd("CLUSTER");
        list.arg("GETKEYSINSLOT").arg(slot).arg(count);
        let keys: Vec<String> = from.run(&list);
        for key in &keys {
            self.move_key(key, to);
        }
        keys.len()
    }

    /// Moves one key of a moving slot.
    pub fn move_key(&self, key: &str, to: usize) {
        let from = self.node(self.owner(self.slot(key)));
        let mut migrate = cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(self.server(to).port());
        // The answer is ignored, because a key may expire before it is moved.
        from.run::<String>(migrate.arg(key).arg(0).arg(5_000));
    }

    /// Assigns the slot to its new node on all masters, the last of three steps. A master that
    /// receives the assignment late could take the slot back, so the command is repeated until all
    /// masters agree.
    pub fn finish_move(&self, slot: usize, to: usize) {
        let id = self.id(to);
        self.set_slot(to, slot, "NODE", &id);
        let is_master = |node: &Node| node.server.role().as_deref() == Some("master");
        let mut unpublished: Vec<_> = self.running().filter(|(_, node)| is_master(node)).collect();
        wait::until("the masters agree on a slot", PATIENCE, || {
            // The first pass sends the command to all masters, even to those that report the new
            // owner. The old owner may be one of them, and still treat the slot as moving.
            for (index, _) in &unpublished {
                self.set_slot(*index, slot, "NODE", &id);
            }
            let masters = self.running().filter(|(_, node)| is_master(node));
            let disagrees = |node: &Node| owner_seen_by(node, slot).as_deref() != Some(&*id);
            unpublished = masters.filter(|(_, node)| disagrees(node)).collect();
            unpublished.is_empty() && self.epochs() == 1
        });
    }

    /// Moves a slot with all its keys, in all three steps.
    pub fn reshard(&self, slot: usize, to: usize) {
        self.begin_move(slot, to);
        while self.move_keys(slot, to, 10) > 0 {}
        self.finish_move(slot, to);
    }

    /// Kills a node (SIGKILL).
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].server.kill();
        self.nodes[node].runs = false;
    }

    /// Starts a killed node again. It has its cluster's configuration on disk, but no locks.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].server.restart();
        self.nodes[node].runs = true;
        self.connect_probe(node);
    }

    /// Connects the probe of a node again, for example after a restart.
    pub fn connect_probe(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        node.probe = node.server.probe();
    }

    /// Waits until the original replica of the killed master `dead` is a master. Also waits until
    /// the running nodes report that the cluster serves all slots.
    pub fn wait_until_it_serves_without(&self, dead: usize) {
        self.wait_until_taken_over(dead + MASTERS);
    }

    /// Waits until the running nodes report that the cluster does not serve all slots.
    pub fn wait_until_it_is_down(&self) {
        wait::until("the cluster is down", PATIENCE, || {
            self.running()
                .all(|(_, node)| node.state().contains("cluster_state:fail"))
        });
    }

    /// Returns the number of different values of `current_epoch` that the running nodes report.
    fn epochs(&self) -> usize {
        let epoch = |state: String| {
            let line = state.lines().find(|line| line.contains("current_epoch"));
            line.map(str::to_owned)
        };
        let epochs: BTreeSet<_> = self
            .running()
            .map(|(_, node)| epoch(node.state()))
            .collect();
        epochs.len()
    }

    /// Introduces the first node to all other nodes, which makes them a cluster. Waits until each
    /// node knows all others.
    fn introduce(&self) {
        let first = self.node(0);
        for (_, node) in self.running().skip(1) {
            let mut meet = cmd("CLUSTER");
            meet.arg("MEET")
                .arg("127.0.0.1")
                .arg(node.server.port())
                .arg(node.bus_port);
            first.run::<()>(&meet);
        }
        let all = format!("cluster_known_nodes:{}\r", self.nodes.len());
        wait::until("the nodes know each other", PATIENCE, || {
            self.running().all(|(_, node)| node.state().contains(&all))
        });
    }

    fn wait_until_complete(&self, replicas: usize) {
        wait::until("the cluster serves", PATIENCE, || {
            let in_step = |index: usize| {
                let info: String = self.node(index).run(cmd("INFO").arg("replication"));
                info.contains("state=online")
            };
            self.serves()
                && (0..replicas).all(in_step)
                && self.running().all(|(_, node)| is_complete(node))
        });
    }

    fn set_slot(&self, node: usize, slot: usize, state: &str, id: &str) {
        let mut set = cmd("CLUSTER");
        set.arg("SETSLOT").arg(slot).arg(state).arg(id);
        self.node(node).run::<()>(&set);
    }

    fn id(&self, node: usize) -> String {
        self.node(node).run(cmd("CLUSTER").arg("MYID"))
    }

    fn node(&self, index: usize) -> &Node {
        let node = &self.nodes[index];
        assert!(node.runs, "the node runs");
        node
    }

    fn buses(&self) -> impl Iterator<Item = (usize, &Bus)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(index, node)| Some((index, node.bus.as_ref()?)))
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Node)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.runs)
    }
}

/// True if the node reports an owner for every slot.
fn is_complete(node: &Node) -> bool {
    let info = node.state();
    info.contains("cluster_slots_ok:16384\r")
}

/// True if the node reports the slot as its own.
fn has(node: &Node, slot: usize) -> bool {
    let own: String = node.run(cmd("CLUSTER").arg("MYID"));
    owner_seen_by(node, slot) == Some(own)
}

/// Returns the id of the owner of the slot, as `node` reports it.
fn owner_seen_by(node: &Node, slot: usize) -> Option<String> {
    let table: String = node.run(cmd("CLUSTER").arg("NODES"));
    let mut lines = table.lines();
    let line = lines.find(|line| line.split(' ').skip(8).any(|range| covers(range, slot)))?;
    line.split(' ').next().map(str::to_owned)
}

/// True if `range` (`7`, `7-9`) covers the slot. `[7->-…]` is a moving slot, and covers none.
fn covers(range: &str, slot: usize) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let bounds = first.parse().ok().zip(last.parse().ok());
    bounds.is_some_and(|(first, last): (usize, usize)| (first..=last).contains(&slot))
}
