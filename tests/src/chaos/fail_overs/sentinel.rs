//! Faults of a deployment with Sentinels. The master is killed, sometimes after it was cut off from
//! its replicas. At other times the master is stopped and resumed, or replaced by a forced
//! fail-over, or a replica is stopped.

use std::time::Duration;

use redis::cmd;

use super::{Failing, Hazard, PAUSE};
use crate::redis_probe::RedisProbe;
use crate::sentinel::{Deployment, MASTER};
use crate::server::Server;
use crate::wait;

const LIMIT: Duration = Duration::from_secs(60);

impl Failing for Deployment {
    const KINDS: u64 = 5;

    fn start() -> Self {
        Self::start()
    }

    fn url(&self) -> String {
        self.url()
    }

    fn strike(&mut self, kind: u64, hazard: &mut Hazard<'_>) -> u64 {
        match kind {
            0 => kill_behind(self, hazard),
            1 => {
                hazard.fault("SIGKILL of the master");
                let dead = self.fail_over();
                back(self, dead, hazard)
            }
            2 => hang(self, hazard),
            3 => depose(self, hazard),
            _ => stop_a_replica(self, hazard),
        }
    }
}

/// Cuts the master off from its replicas, and then kills the master after a random time. So the
/// replica that replaces the master lacks the latest locks.
fn kill_behind(deployment: &mut Deployment, hazard: &mut Hazard<'_>) -> u64 {
    hazard.fault("partition of the master from its replicas, then SIGKILL");
    for replica in deployment.replicas() {
        replica.pause();
    }
    // The paused replicas would still read bytes in flight after they resume, and would then have
    // the latest locks. So their connections to the master are also closed.
    let mut cut = cmd("CLIENT");
    cut.arg("KILL").arg("TYPE").arg("REPLICA");
    deployment.master().probe().run::<u32>(&cut);
    hazard.wait_up_to(Duration::from_millis(900));
    let dead = deployment.kill_master();
    for replica in deployment.replicas() {
        replica.resume();
    }
    deployment.wait_for_fail_over(dead.port());
    back(deployment, dead, hazard)
}

fn back(deployment: &mut Deployment, dead: Server, hazard: &mut Hazard<'_>) -> u64 {
    hazard.wait_up_to(PAUSE / 2);
    deployment.bring_back(dead);
    1
}

/// Stops the master until a replica has replaced it, and then resumes the master. The resumed
/// server acts as a master until a Sentinel makes it a replica.
fn hang(deployment: &Deployment, hazard: &mut Hazard<'_>) -> u64 {
    hazard.fault("SIGSTOP of the master beyond a fail-over");
    let old = deployment.named();
    deployment.pause(old);
    deployment.wait_for_fail_over(old);
    hazard.wait_up_to(PAUSE / 2);
    deployment.resume(old);
    deployment.wait_until_complete();
    1
}

fn depose(deployment: &Deployment, hazard: &mut Hazard<'_>) -> u64 {
    hazard.fault("SENTINEL FAILOVER");
    let old = deployment.named();
    let sentinel = deployment.ports().next().expect("a Sentinel runs");
    let sentinel = RedisProbe::connect(&format!("redis://127.0.0.1:{sentinel}/"));
    // The Sentinel refuses a forced fail-over soon after the previous fail-over, so the command is
    // repeated.
    let asked = wait::try_until(LIMIT, || {
        let mut order = cmd("SENTINEL");
        let order = order.arg("FAILOVER").arg(MASTER);
        sentinel.try_run::<redis::Value>(order).is_ok()
    });
    if asked.is_none() {
        return 0;
    }
    deployment.wait_for_fail_over(old);
    deployment.wait_until_complete();
    1
}

fn stop_a_replica(deployment: &Deployment, hazard: &mut Hazard<'_>) -> u64 {
    hazard.fault("SIGSTOP of a replica");
    let replica = deployment.replicas().next().expect("there are two");
    replica.pause();
    hazard.wait_up_to(PAUSE / 2);
    replica.resume();
    0
}
