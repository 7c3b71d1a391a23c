//! Faults for a worker process, its network and its server, chosen from a seed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::cmd;

use super::crew::{Crew, Hand};
use crate::proxy::{After, Mode, Proxy};
use crate::random::Random;
use crate::redis_probe::RedisProbe;
use crate::server::Server;

/// A worker process, and the proxies between it and the store's servers, if there are any.
pub(super) struct Lane<'a> {
    pub(super) crew: &'a Crew,
    /// One proxy for each server. A network fault hits one of the proxies.
    pub(super) proxies: &'a [Proxy],
    pub(super) spans: Spans,
    /// The ttl of the process's locks. Some faults are shorter than the ttl, and others are longer.
    pub(super) ttl: Duration,
    /// The longest pause between two faults.
    pub(super) pause: Duration,
    /// True if the process may be killed.
    pub(super) mortal: bool,
    /// True once the schedule of faults must end.
    pub(super) over: &'a AtomicBool,
}

/// Random durations of faults and pauses.
pub(super) struct Spans {
    pub(super) random: Random,
    /// True if every fault lasts for its longest duration instead of a random one.
    pub(super) longest: bool,
}

impl Spans {
    pub(super) fn new(random: Random) -> Self {
        Self {
            random,
            longest: false,
        }
    }

    pub(super) fn up_to(&mut self, most: Duration) -> Duration {
        let span = self.random.duration(most);
        if self.longest { most } else { span }
    }
}

/// Number of kinds of faults that hit the process. These are the kinds 0 to 3, and kind 2 kills a
/// mortal process. The kinds 4 to 13 hit the network of the process.
const TO_PROCESS: u64 = 4;
const KILL: u64 = 2;
const TO_BOTH: u64 = 14;

impl<'a> Lane<'a> {
    /// Injects one fault after another, with pauses, until `over` is true. `respawn` replaces a
    /// killed or ended process.
    pub(super) fn run(&mut self, mut hand: Hand, mut respawn: impl FnMut() -> Hand) -> Hand {
        while !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(self.spans.up_to(self.pause));
            match self.spans.random.below(self.kinds()) {
                KILL if self.mortal => {
                    self.crew.fault("SIGKILL of a worker");
                    hand.process().kill();
                    hand = respawn();
                }
                kind => self.strike(kind, &mut hand),
            }
            if hand.has_ended() {
                hand = respawn();
            }
        }
        for proxy in self.proxies {
            proxy.pass();
        }
        hand
    }

    /// Injects every fault except the kill once, each for its longest duration. One of the faults
    /// stops the process for longer than all its leases.
    pub(super) fn each(&mut self, hand: &mut Hand) {
        self.spans.longest = true;
        for kind in (0..self.kinds()).filter(|kind| *kind != KILL) {
            self.strike(kind, hand);
        }
        self.spans.longest = false;
    }

    fn kinds(&self) -> u64 {
        if self.proxies.is_empty() {
            TO_PROCESS
        } else {
            TO_BOTH
        }
    }

    fn strike(&mut self, kind: u64, hand: &mut Hand) {
        match kind {
            0 => self.stop(hand, self.ttl / 2),
            1 => self.stop(hand, self.ttl * 5 / 2),
            2 | 3 => self.stop(hand, self.ttl),
            kind => self.network(kind),
        }
    }

    fn stop(&mut self, hand: &mut Hand, most: Duration) {
        self.crew.fault("SIGSTOP of a worker");
        hand.process().pause();
        std::thread::sleep(self.spans.up_to(most));
        hand.process().resume();
    }

    fn any(&mut self) -> Option<&'a Proxy> {
        match self.proxies {
            [] | [_] => self.proxies.first(),
            several => {
                let count = u64::try_from(several.len()).unwrap_or(u64::MAX);
                let index = usize::try_from(self.spans.random.below(count)).unwrap_or(0);
                several.get(index)
            }
        }
    }

    fn network(&mut self, kind: u64) {
        let Some(proxy) = self.any() else { return };
        let jitter = self.spans.up_to(Duration::from_millis(60));
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
                let random = &mut self.spans.random;
                let after = [After::Cut, After::Silence][usize::from(random.below(2) == 0)];
                // On PostgreSQL, the proxy loses replies to the function that takes a lock. On
                // Redis, it loses replies to any script: to take, renew or release a lock.
                let verb = if proxy.speaks_postgres() {
                    "acquire"
                } else {
                    "EVALSHA"
                };
                proxy.lose_replies(verb, 1 + random.below(3), after);
            }
            _ => {
                // The proxy delays messages, and then closes the client's connection. The delayed
                // requests still reach the server after this.
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
        std::thread::sleep(self.spans.up_to(self.ttl * 3 / 2));
        proxy.pass();
    }
}

/// A Redis server into which faults are injected.
pub(super) struct Struck<'a> {
    pub(super) crew: &'a Crew,
    pub(super) server: &'a mut Server,
    pub(super) spans: Spans,
    pub(super) ttl: Duration,
}

impl Struck<'_> {
    /// Injects one fault after another, until `over` is true.
    pub(super) fn run(&mut self, pause: Duration, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(self.spans.up_to(pause));
            let kind = self.spans.random.below(9);
            self.strike(kind);
        }
    }

    /// Injects every fault except full memory once, each for its longest duration, with pauses.
    pub(super) fn each(&mut self, pause: Duration) {
        for kind in [0, 2, 4, 7] {
            self.spans.longest = false;
            std::thread::sleep(self.spans.up_to(pause));
            self.spans.longest = true;
            self.strike(kind);
        }
        self.spans.longest = false;
    }

    fn strike(&mut self, kind: u64) {
        match kind {
            0 | 1 => {
                self.crew.fault("SIGSTOP of the server");
                self.server.pause();
                std::thread::sleep(self.spans.up_to(self.ttl * 6 / 5));
                self.server.resume();
            }
            2 | 3 => {
                self.crew.fault("CLIENT KILL");
                kill_clients(self.server);
            }
            4..=6 => {
                self.crew.fault("SCRIPT FLUSH");
                send(self.server, cmd("SCRIPT").arg("FLUSH"));
            }
            8 => {
                self.crew.fault("memory full");
                let limit = |bytes: u64| {
                    let mut limit = cmd("CONFIG");
                    limit.arg("SET").arg("maxmemory").arg(bytes);
                    send(self.server, &limit);
                };
                limit(1);
                std::thread::sleep(self.spans.up_to(self.ttl * 3 / 2));
                limit(0);
            }
            _ => {
                self.crew.fault("SIGKILL and restart of the server");
                self.server.kill();
                std::thread::sleep(self.spans.up_to(self.ttl * 3 / 2));
                self.server.restart();
            }
        }
    }
}

/// Ends the connections of all clients.
pub(super) fn kill_clients(server: &Server) {
    for kind in ["NORMAL", "PUBSUB"] {
        let mut kill = cmd("CLIENT");
        kill.arg(&["KILL", "TYPE", kind, "SKIPME", "YES"]);
        send(server, &kill);
    }
}

fn send(server: &Server, command: &redis::Cmd) {
    let probe = RedisProbe::connect(&server.url());
    // An error is ignored, because no run depends on a single fault.
    let _ = probe.try_run::<redis::Value>(command);
}
