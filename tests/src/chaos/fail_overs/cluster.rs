//! Faults of a Redis Cluster. Masters are killed, stopped, deposed, cut off from other nodes, or
//! lose their connections. Replicas are stopped, and slots move.

use std::time::Duration;

use super::{Failing, Hazard, KEYS, PAUSE};
use crate::chaos::faults::kill_clients;
use crate::cluster::{Cluster, Setup};

/// Number of slots that move in one resharding.
const SLOTS: u64 = 3;

impl Failing for Cluster {
    const KINDS: u64 = 8;

    fn start() -> Self {
        Setup::new().with_replicas().divisible().start()
    }

    fn url(&self) -> String {
        format!("{}/", self.url())
    }

    fn strike(&mut self, kind: u64, hazard: &mut Hazard<'_>) -> u64 {
        let master = hazard.one_of(&self.masters());
        match kind {
            0 => kill_behind(self, master, hazard),
            1 => {
                hazard.fault("SIGKILL of a master");
                let successor = self.replica_of(master);
                self.kill(master);
                self.wait_until_taken_over(successor);
                back(self, master, hazard)
            }
            2 => hang(self, master, hazard),
            3 => {
                hazard.fault("CLUSTER FAILOVER");
                self.depose(master);
                self.wait_until_whole();
                1
            }
            4 => isolate(self, master, hazard),
            5 => stop_a_replica(self, master, hazard),
            6 => {
                hazard.fault("connections of a master cut");
                kill_clients(self.server(master));
                self.connect_probe(master);
                0
            }
            _ => reshard(self, hazard),
        }
    }
}

/// Cuts the master off from its replica, and then kills the master after a random time. So the
/// replica that replaces the master lacks the latest locks.
fn kill_behind(cluster: &mut Cluster, master: usize, hazard: &mut Hazard<'_>) -> u64 {
    hazard.fault("partition of a master from its replica, then SIGKILL");
    let replica = cluster.replica_of(master);
    cluster.pause(replica);
    // The paused replica would still read bytes in flight after it resumes, and would then have the
    // latest locks. So the replica's connection to the master is also closed.
    cluster.cut_replication(master);
    hazard.wait_up_to(Duration::from_millis(900));
    cluster.kill(master);
    cluster.resume(replica);
    cluster.wait_until_taken_over(replica);
    back(cluster, master, hazard)
}

fn back(cluster: &mut Cluster, dead: usize, hazard: &mut Hazard<'_>) -> u64 {
    hazard.wait_up_to(PAUSE / 2);
    cluster.restart(dead);
    cluster.wait_until_whole();
    1
}

/// Stops the master until a replica has replaced it, and then resumes the master. The resumed node
/// acts as a master until another node reports the fail-over to it.
fn hang(cluster: &mut Cluster, master: usize, hazard: &mut Hazard<'_>) -> u64 {
    hazard.fault("SIGSTOP of a master beyond a fail-over");
    let successor = cluster.replica_of(master);
    cluster.pause(master);
    cluster.wait_until_taken_over(successor);
    hazard.wait_up_to(PAUSE / 2);
    cluster.resume(master);
    cluster.wait_until_whole();
    1
}

/// Isolates the master from all other nodes. Until the master detects this, it still grants locks,
/// which no replica receives.
fn isolate(cluster: &Cluster, master: usize, hazard: &mut Hazard<'_>) -> u64 {
    hazard.fault("partition of a master from all other nodes");
    let successor = cluster.replica_of(master);
    cluster.isolate(master);
    cluster.wait_until_given_up(master, successor);
    hazard.wait_up_to(PAUSE / 2);
    cluster.heal(master);
    cluster.wait_until_whole();
    1
}

fn stop_a_replica(cluster: &mut Cluster, master: usize, hazard: &mut Hazard<'_>) -> u64 {
    hazard.fault("SIGSTOP of a replica");
    let replica = cluster.replica_of(master);
    cluster.pause(replica);
    hazard.wait_up_to(PAUSE / 2);
    cluster.resume(replica);
    cluster.wait_until_whole();
    0
}

/// Moves slots of held locks to other masters.
fn reshard(cluster: &Cluster, hazard: &mut Hazard<'_>) -> u64 {
    let masters = cluster.masters();
    for _ in 0..SLOTS {
        hazard.fault("a slot of held locks moves");
        let (kind, keys) = hazard.one_of(&KEYS);
        let key = format!("lock:{kind}{}", hazard.random.below(keys.into()));
        let slot = cluster.slot(&key);
        let owner = cluster.owner(slot);
        let others = masters.iter().copied().filter(|other| *other != owner);
        let to = hazard.one_of(&others.collect::<Vec<_>>());
        cluster.reshard(slot, to);
    }
    cluster.wait_until_whole();
    0
}
