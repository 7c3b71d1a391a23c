//! Faults from a seed: what happens to a worker process, its network and its server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::cmd;

use super::crew::{Crew, Hand};
use crate::proxy::{After, Mode, Proxy};
use crate::random::Random;
use crate::redis_probe::RedisProbe;
use crate::server::Server;

/// A worker process, and the network between it and the store if there is one.
pub(super) struct Lane<'a> {
    pub(super) crew: &'a Crew,
    pub(super) proxy: Option<&'a Proxy>,
    pub(super) random: Random,
    /// The ttl of its locks: faults are shorter and longer than this.
    pub(super) ttl: Duration,
    /// At most so long between two faults.
    pub(super) pause: Duration,
    /// Ends the schedule.
    pub(super) over: &'a AtomicBool,
}

impl Lane<'_> {
    /// Faults, one after the other, with pauses.
    pub(super) fn run(mut self, mut hand: Hand, mut respawn: impl FnMut() -> Hand) -> Hand {
        while !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(self.random.duration(self.pause));
            let kinds = if self.proxy.is_some() { 14 } else { 4 };
            match self.random.below(kinds) {
                0 => self.stop(&mut hand, self.ttl / 2),
                1 => self.stop(&mut hand, self.ttl * 5 / 2),
                2 => {
                    self.crew.fault("SIGKILL of a worker");
                    hand.process().kill();
                    hand = respawn();
                }
                3 => self.stop(&mut hand, self.ttl),
                kind => self.network(kind),
            }
            if hand.has_ended() {
                hand = respawn();
            }
        }
        if let Some(proxy) = self.proxy {
            proxy.pass();
        }
        hand
    }

    fn stop(&mut self, hand: &mut Hand, most: Duration) {
        self.crew.fault("SIGSTOP of a worker");
        hand.process().pause();
        std::thread::sleep(self.random.duration(most));
        hand.process().resume();
    }

    fn network(&mut self, kind: u64) {
        let Some(proxy) = self.proxy else { return };
        let jitter = self.random.duration(Duration::from_millis(60));
        let delay = Mode::Delay {
            least: jitter / 4,
            jitter,
        };
        match kind {
            4 => self.mode(proxy, "network delay", delay),
            5 => self.mode(proxy, "network stall", Mode::Stall),
            6 => self.mode(proxy, "black hole", Mode::BlackHole),
            7 => self.mode(proxy, "replies swallowed", Mode::SwallowReplies),
            8 => self.mode(proxy, "requests swallowed", Mode::SwallowRequests),
            9 => self.mode(proxy, "garbled replies", Mode::Garble),
            10 => {
                self.crew.fault("connections cut");
                proxy.cut();
            }
            11 => {
                self.crew.fault("connections half open");
                proxy.half_open();
            }
            12 => {
                self.crew.fault("reply lost after execution");
                let after = [After::Cut, After::Silence][usize::from(self.random.below(2) == 0)];
                proxy.lose_replies("EVALSHA", 1 + self.random.below(3), after);
            }
            _ => {
                // Requests that arrive after their client has gone.
                proxy.set(delay);
                std::thread::sleep(jitter);
                self.crew.fault("requests outlive their connection");
                proxy.pass();
                proxy.hang_up(jitter);
            }
        }
    }

    fn mode(&mut self, proxy: &Proxy, kind: &str, mode: Mode) {
        self.crew.fault(kind);
        proxy.set(mode);
        std::thread::sleep(self.random.duration(self.ttl * 3 / 2));
        proxy.pass();
    }
}

/// Faults of the server, until `over`.
pub(super) fn of_server(
    crew: &Crew,
    server: &mut Server,
    mut random: Random,
    ttl: Duration,
    pause: Duration,
    over: &AtomicBool,
) {
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(random.duration(pause));
        match random.below(8) {
            0 | 1 => {
                crew.fault("SIGSTOP of the server");
                server.pause();
                std::thread::sleep(random.duration(ttl * 6 / 5));
                server.resume();
            }
            2 | 3 => {
                crew.fault("CLIENT KILL");
                let mut kill = cmd("CLIENT");
                kill.arg(&["KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
                tell(server, &kill);
            }
            4..=6 => {
                crew.fault("SCRIPT FLUSH");
                tell(server, cmd("SCRIPT").arg("FLUSH"));
            }
            _ => {
                crew.fault("SIGKILL and restart of the server");
                server.restart();
            }
        }
    }
}

fn tell(server: &Server, command: &redis::Cmd) {
    let probe = RedisProbe::connect(&server.url());
    // The command may close the connection that it came over.
    let _ = probe.try_run::<redis::Value>(command);
}
