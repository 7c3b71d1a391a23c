//! What happens to a master: it dies, with and without what its replicas have missed, it hangs and comes back, it is deposed.

use std::time::{Duration, Instant};

use redis::cmd;

use super::crew::Crew;
use crate::random::Random;
use crate::redis_probe::RedisProbe;
use crate::sentinel::{Deployment, MASTER};
use crate::server::Server;
use crate::wait;

/// At most so long between two faults: locks are taken and lost leases end.
const PAUSE: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_secs(60);

/// Faults from a seed, for a deployment with Sentinels.
pub(super) struct FailOvers<'a> {
    crew: &'a Crew,
    deployment: Deployment,
    random: Random,
    count: u64,
}

impl<'a> FailOvers<'a> {
    pub(super) fn new(crew: &'a Crew, deployment: Deployment, random: Random) -> Self {
        Self {
            crew,
            deployment,
            random,
            count: 0,
        }
    }

    /// How many times there was another master.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// One fault after the other for `time`; the last is over when this returns. The first is the one that loses most.
    pub(super) fn run(&mut self, time: Duration) {
        let started = Instant::now();
        let mut next = 0;
        while started.elapsed() < time {
            std::thread::sleep(Duration::from_secs(1) + self.random.duration(PAUSE));
            self.strike(next);
            next = self.random.below(5);
        }
    }

    fn strike(&mut self, kind: u64) {
        match kind {
            0 => self.kill_behind(),
            1 => {
                self.fault("SIGKILL of the master");
                let dead = self.deployment.fail_over();
                self.back(dead);
            }
            2 => self.hang(),
            3 => self.depose(),
            _ => self.stop_a_replica(),
        }
    }

    /// The master is cut off from its replicas, goes on for a while, and dies.
    fn kill_behind(&mut self) {
        self.fault("partition of the master from its replicas, then SIGKILL");
        for replica in self.deployment.replicas() {
            replica.pause();
        }
        // What is under way to a stopped process waits for it; so its connections go too.
        let mut cut = cmd("CLIENT");
        cut.arg("KILL").arg("TYPE").arg("REPLICA");
        self.deployment.master().probe().run::<u32>(&cut);
        std::thread::sleep(self.random.duration(Duration::from_millis(900)));
        let dead = self.deployment.kill_master();
        for replica in self.deployment.replicas() {
            replica.resume();
        }
        self.deployment.wait_for_fail_over(dead.port());
        self.back(dead);
    }

    fn back(&mut self, dead: Server) {
        self.count += 1;
        std::thread::sleep(self.random.duration(PAUSE / 2));
        self.deployment.bring_back(dead);
    }

    /// The old master takes itself for the master when it goes on, until it is told.
    fn hang(&mut self) {
        self.fault("SIGSTOP of the master beyond a fail-over");
        let old = self.deployment.named();
        let hung = self.deployment.master();
        hung.pause();
        self.deployment.wait_for_fail_over(old);
        let late = self.random.duration(PAUSE / 2);
        std::thread::sleep(late);
        self.deployment.resume(old);
        self.count += 1;
        self.deployment.wait_until_complete();
    }

    fn depose(&mut self) {
        self.fault("SENTINEL FAILOVER");
        let old = self.deployment.named();
        let sentinel = self.deployment.ports().next().expect("a Sentinel runs");
        let sentinel = RedisProbe::connect(&format!("redis://127.0.0.1:{sentinel}/"));
        // Too soon after the last one it refuses.
        let asked = wait::try_until(LIMIT, || {
            let mut order = cmd("SENTINEL");
            let order = order.arg("FAILOVER").arg(MASTER);
            sentinel.try_run::<redis::Value>(order).is_ok()
        });
        if asked.is_some() {
            self.deployment.wait_for_fail_over(old);
            self.count += 1;
            self.deployment.wait_until_complete();
        }
    }

    fn stop_a_replica(&mut self) {
        self.fault("SIGSTOP of a replica");
        let span = self.random.duration(PAUSE / 2);
        let replica = self.deployment.replicas().next().expect("there are two");
        replica.pause();
        std::thread::sleep(span);
        replica.resume();
    }

    fn fault(&self, kind: &str) {
        self.crew.fault(kind);
    }
}
