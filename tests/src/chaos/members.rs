//! Faults of the members of an etcd or ZooKeeper cluster, and of the networks between this cluster
//! and a worker. The faults come one after another, chosen from a seed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::crew::Crew;
use super::ensembles::Ensemble;
use crate::pipe::{Flow, Pipe};
use crate::random::Random;
use crate::wait;

/// Time limit for a cluster to elect a leader after its faults are over.
const ELECTION: Duration = Duration::from_secs(60);

/// A cluster whose members can be made to fail.
pub(super) struct Members<'a> {
    pub(super) crew: &'a Crew,
    pub(super) servers: &'a mut Ensemble,
    pub(super) random: Random,
    /// The longest duration of a fault.
    pub(super) longest: Duration,
}

/// Number of kinds of faults. A fault of kind 0 always replaces the leader.
const KINDS: u64 = 7;

impl Members<'_> {
    /// Injects one fault after another while `goes_on` returns true. Each fault is healed before
    /// the next fault. The argument of `goes_on` is the number of times that another member became
    /// the leader. Returns that number at the end.
    pub(super) fn run(&mut self, pause: Duration, mut goes_on: impl FnMut(u64) -> bool) -> u64 {
        let (mut changes, mut kind) = (0, 0);
        let mut leader = self.leader();
        while goes_on(changes) {
            std::thread::sleep(self.random.duration(pause));
            self.strike(kind, leader);
            kind = self.random.below(KINDS);
            let next = self.leader();
            changes += u64::from(next != leader);
            leader = next;
        }
        changes
    }

    fn leader(&self) -> usize {
        let mut leader = None;
        wait::until("the cluster has a leader", ELECTION, || {
            let mut members = 0..self.servers.members();
            leader = members.find(|member| self.servers.leads(*member));
            leader.is_some()
        });
        leader.expect("one leads")
    }

    fn strike(&mut self, kind: u64, leader: usize) {
        let members = self.servers.members();
        let next = usize::from(self.random.below(2) == 0);
        let follower = (leader + 1 + next) % members;
        match kind {
            0 => self.stop("SIGSTOP of the leader", &[leader], true),
            1 => self.kill("SIGKILL and restart of the leader", &[leader]),
            2 => self.kill("SIGKILL and restart of a member", &[follower]),
            3 => self.stop("SIGSTOP of a member", &[follower], false),
            4 => self.kill("SIGKILL and restart of two members", &[leader, follower]),
            5 => self.stop(
                "SIGSTOP of all members",
                &(0..members).collect::<Vec<_>>(),
                false,
            ),
            _ => self.cut_off(leader),
        }
    }

    fn lasts(&mut self) {
        std::thread::sleep(self.random.duration(self.longest));
    }

    fn kill(&mut self, fault: &str, members: &[usize]) {
        self.crew.fault(fault);
        for member in members {
            self.servers.kill(*member);
        }
        self.lasts();
        self.servers.restart(members);
    }

    /// Stops members for a while. With `until_another_leads`, they stay stopped at least until
    /// another member leads.
    fn stop(&mut self, fault: &str, members: &[usize], until_another_leads: bool) {
        self.crew.fault(fault);
        for member in members {
            self.servers.pause(*member);
        }
        self.lasts();
        if until_another_leads {
            let others = (0..self.servers.members()).filter(|other| !members.contains(other));
            let others: Vec<_> = others.collect();
            let leads = || others.iter().any(|other| self.servers.leads(*other));
            wait::until("another member leads", ELECTION, leads);
        }
        for member in members {
            self.servers.resume(*member);
        }
    }

    fn cut_off(&mut self, leader: usize) {
        self.crew.fault("the leader cut off from the other members");
        self.servers.cut_off(leader);
        self.lasts();
        self.servers.heal(leader);
    }
}

/// The proxies between one worker and each member.
pub(super) struct Wires<'a> {
    pub(super) crew: &'a Crew,
    pub(super) pipes: &'a [Pipe],
    pub(super) random: Random,
    /// The longest duration of a fault.
    pub(super) longest: Duration,
    /// The longest pause between two faults.
    pub(super) pause: Duration,
    /// True once the schedule of faults must end.
    pub(super) over: &'a AtomicBool,
}

impl Wires<'_> {
    /// Injects one fault after another, with pauses, until `over` is true. Heals each fault before
    /// the next one, and the last one before it returns.
    pub(super) fn run(&mut self) {
        while !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(self.random.duration(self.pause));
            let (fault, flow) = match self.random.below(4) {
                0 => ("connections cut", None),
                1 => ("network stall", Some(Flow::Stall)),
                2 => ("black hole", Some(Flow::BlackHole)),
                _ => ("replies swallowed", Some(Flow::LoseAnswers)),
            };
            // Half of the possible indexes have no proxy, and stand for all proxies. So the fault
            // hits the proxy of one member, or the proxies of all members.
            let count = u64::try_from(self.pipes.len()).unwrap_or(u64::MAX);
            let one = usize::try_from(self.random.below(count * 2)).unwrap_or(0);
            let struck = match self.pipes.get(one) {
                Some(pipe) => std::slice::from_ref(pipe),
                None => self.pipes,
            };
            self.crew.fault(fault);
            for pipe in struck {
                match flow {
                    Some(flow) => pipe.set(flow),
                    None => pipe.cut(),
                }
            }
            if flow.is_some() {
                std::thread::sleep(self.random.duration(self.longest));
            }
            for pipe in struck {
                pipe.set(Flow::Pass);
            }
        }
    }
}
