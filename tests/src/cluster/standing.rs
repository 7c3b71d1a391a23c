//! The current roles of the nodes, master or replica, and methods that change them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use redis::cmd;

use super::{Cluster, MASTERS, Node, PATIENCE};
use crate::proxy::Proxy;
use crate::wait;

/// Time limit for one attempt of a replica to take over from a living master.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Returns the address from which a node connects to other nodes.
pub(super) fn address(node: usize) -> IpAddr {
    let last = u8::try_from(node + 1).expect("there are few nodes");
    Ipv4Addr::new(127, 0, 1, last).into()
}

impl Cluster {
    /// Returns the masters. Call this only while all nodes run and the cluster serves all slots.
    pub fn masters(&self) -> Vec<usize> {
        let running = self.running();
        let masters = running.filter(|(_, node)| reports(node, "role:master"));
        masters.map(|(index, _)| index).collect()
    }

    /// Returns the replica of a master.
    ///
    /// # Panics
    ///
    /// Panics if the master has no replica.
    pub fn replica_of(&self, master: usize) -> usize {
        let id = self.id(master);
        let is_its = |node: &Node| {
            let table: String = node.run(cmd("CLUSTER").arg("NODES"));
            let own = table.lines().find(|line| line.contains("myself"));
            own.and_then(|line| line.split(' ').nth(3)) == Some(&*id)
        };
        let mut running = self.running();
        let replica = running.find(|(_, node)| is_its(node));
        replica.expect("the master has a replica").0
    }

    /// Stops a node's process (SIGSTOP).
    pub fn pause(&mut self, node: usize) {
        self.nodes[node].server.pause();
        self.nodes[node].runs = false;
    }

    /// Lets a stopped node run again.
    pub fn resume(&mut self, node: usize) {
        self.nodes[node].server.resume();
        self.nodes[node].runs = true;
    }

    /// Ends the connections of a master to its replicas.
    pub fn cut_replication(&self, master: usize) {
        let mut cut = cmd("CLIENT");
        cut.arg("KILL").arg("TYPE").arg("REPLICA");
        self.node(master).run::<u32>(&cut);
    }

    /// Lets a replica take over from a living master, with the master's help.
    ///
    /// # Panics
    ///
    /// Panics if the replica does not take over.
    pub fn depose(&self, master: usize) {
        let successor = self.replica_of(master);
        // The replica may not be in sync yet, and may then abandon the attempt. So the command is
        // repeated.
        wait::until("the replica takes over", PATIENCE, || {
            let successor = self.node(successor);
            let asked = successor
                .probe
                .try_run::<()>(cmd("CLUSTER").arg("FAILOVER"));
            let taken = || reports(successor, "role:master");
            asked.is_ok() && wait::try_until(ATTEMPT, taken).is_some()
        });
        self.wait_until_taken_over(successor);
    }

    /// Cuts a node off from all other nodes. Clients still reach the node.
    pub fn isolate(&self, node: usize) {
        let others = (0..self.nodes.len()).filter(|other| *other != node);
        for (index, bus) in self.buses() {
            if index == node {
                bus.bar(others.clone().map(address));
            } else {
                bus.bar([address(node)]);
            }
        }
        // Replication uses the port for clients, which stays open. So the node must refuse the
        // commands of replicas.
        self.permit_replication(node, false);
        self.cut_replication(node);
    }

    /// Undoes [`isolate`](Self::isolate).
    pub fn heal(&self, node: usize) {
        for (_, bus) in self.buses() {
            bus.bar([]);
        }
        self.permit_replication(node, true);
    }

    fn permit_replication(&self, node: usize, permitted: bool) {
        let sign = if permitted { '+' } else { '-' };
        let mut acl = cmd("ACL");
        acl.arg("SETUSER").arg("default");
        for command in ["psync", "sync", "replconf"] {
            acl.arg(format!("{sign}{command}"));
        }
        self.node(node).run::<()>(&acl);
    }

    /// Starts a proxy in front of each node, and makes all nodes redirect their clients to the
    /// proxies.
    ///
    /// # Panics
    ///
    /// Panics if the nodes do not list the proxies in time.
    pub fn proxies(&self) -> Vec<Proxy> {
        let nodes = self.running();
        let proxies: Vec<_> = nodes
            .map(|(_, node)| {
                let proxy = Proxy::start(node.server.address());
                let mut announce = cmd("CONFIG");
                announce.arg("SET").arg("cluster-announce-port");
                node.run::<()>(announce.arg(proxy.address().port()));
                proxy
            })
            .collect();
        wait::until("all know of the networks", PATIENCE, || {
            self.running().all(|(_, node)| {
                let table: String = node.run(cmd("CLUSTER").arg("NODES"));
                let mut addresses = proxies.iter().map(Proxy::address);
                addresses.all(|address| table.contains(&format!("{address}@")))
            })
        });
        proxies
    }

    /// Waits until a node is a master, and the running nodes report that the cluster serves all
    /// slots.
    ///
    /// # Panics
    ///
    /// Panics if the node does not become a master.
    pub fn wait_until_taken_over(&self, successor: usize) {
        wait::until("the replica takes over", PATIENCE, || {
            reports(self.node(successor), "role:master") && self.serves()
        });
    }

    /// Waits until the node `isolated` no longer serves clients, and its replica `successor` is a
    /// master.
    ///
    /// # Panics
    ///
    /// Panics if one of these does not happen in time.
    pub fn wait_until_given_up(&self, isolated: usize, successor: usize) {
        wait::until("the replica of the isolated takes over", PATIENCE, || {
            reports(self.node(successor), "role:master") && !serves(self.node(isolated))
        });
    }

    /// Waits until all nodes run and report that the cluster serves all slots, and until each
    /// master has a replica in sync.
    ///
    /// # Panics
    ///
    /// Panics if that does not happen in time.
    pub fn wait_until_whole(&self) {
        let paired = |node: &Node| {
            let info = replication(node);
            info.contains("role:master\r") && info.contains("state=online")
                || info.contains("master_link_status:up\r")
        };
        wait::until("all nodes are in step", PATIENCE, || {
            self.nodes.iter().all(|node| node.runs && paired(node))
                && self.masters().len() == MASTERS
                && self.serves()
                && self.running().all(|(_, node)| super::is_complete(node))
                && self.epochs() == 1
        });
    }

    pub(super) fn serves(&self) -> bool {
        self.running().all(|(_, node)| serves(node))
    }
}

fn serves(node: &Node) -> bool {
    node.state().contains("cluster_state:ok")
}

fn reports(node: &Node, line: &str) -> bool {
    replication(node).contains(&format!("{line}\r"))
}

fn replication(node: &Node) -> String {
    node.run(cmd("INFO").arg("replication"))
}
