//! Worker processes under every fault, on a PostgreSQL that writes every commit to disk before it
//! answers. (No promise covers a server that loses confirmed commits.)

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::crew::Crew;
use super::ending::end_all;
use super::faults::{Lane as FaultLane, Spans};
use super::ground::Ground;
use super::sheet::Sheet;
use super::site::all_free;
use super::storm::{Storm, TTL, WORKERS, pause};
use crate::postgres::{Database, Postgres};
use crate::proxy::Proxy;

impl Storm<'_> {
    pub(super) fn on_postgres(&self, ground: &Ground, sheet: &Sheet, crew: &Crew) {
        let mut random = ground.random(1);
        let mut server = Postgres::durable();
        let database = server.migrated();
        let proxies: Vec<Proxy> = (0..WORKERS)
            .map(|_| Proxy::start_postgres(database.address()))
            .collect();
        let over = AtomicBool::new(false);
        let hands = std::thread::scope(|scope| {
            let database = &database;
            let lanes = proxies.iter().map(|proxy| {
                let mut lane = FaultLane {
                    crew,
                    proxies: std::slice::from_ref(proxy),
                    spans: Spans::new(random.fork()),
                    ttl: TTL,
                    pause: pause(ground),
                    mortal: true,
                    over: &over,
                };
                let mut seeds = random.fork();
                let url = database.url_over(proxy.address());
                scope.spawn(move || {
                    let mut start =
                        || crew.spawn(&(self.job)(crew, &url, "k", seeds.next_u64()), None);
                    let hand = start();
                    lane.run(hand, start)
                })
            });
            let lanes: Vec<_> = lanes.collect();
            let mut struck = Struck {
                crew,
                server: &mut server,
                database,
                spans: Spans::new(random.fork()),
            };
            let (over, pause) = (&over, pause(ground) * 2);
            scope.spawn(move || struck.run(pause, over));
            self.until_enough(ground.size, crew.history());
            over.store(true, Ordering::Relaxed);
            let lanes = lanes.into_iter();
            lanes
                .map(|lane| lane.join().expect("no panic"))
                .collect::<Vec<_>>()
        });
        end_all(sheet, hands);
        all_free(crew, &database, TTL);
    }
}

/// A server with injected faults.
struct Struck<'a> {
    crew: &'a Crew,
    server: &'a mut Postgres,
    database: &'a Database,
    spans: Spans,
}

impl Struck<'_> {
    /// Injects one fault after another, until `over` is true.
    fn run(&mut self, pause: Duration, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(self.spans.up_to(pause));
            match self.spans.random.below(8) {
                0 | 1 => {
                    self.crew.fault("SIGSTOP of the server");
                    self.server.pause();
                    std::thread::sleep(self.spans.up_to(TTL * 6 / 5));
                    self.server.resume();
                }
                2 | 3 => {
                    self.crew.fault("pg_terminate_backend");
                    self.execute("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'leasehold:%'");
                }
                4 => {
                    // A sweep normally removes the rows of locks that have been free for some time.
                    // This sweep removes the rows of all free locks, but must not remove the row of
                    // a held lock.
                    self.crew.fault("sweep of all idle rows");
                    self.execute("SELECT leasehold.sweep('0 s', 100000)");
                }
                5 => self.block(),
                _ => {
                    self.crew.fault("SIGKILL and restart of the server");
                    self.server.kill();
                    std::thread::sleep(self.spans.up_to(TTL * 3 / 2));
                    self.server.restart();
                }
            }
        }
    }

    /// Locks the rows of all locks for a random time, in a transaction of a client other than
    /// leasehold.
    fn block(&mut self) {
        self.crew.fault("rows locked by another client");
        let span = self.spans.up_to(TTL * 3 / 2).as_secs_f64();
        self.execute(&format!(
            "SELECT count(*), pg_sleep({span}) FROM (SELECT FROM leasehold.locks ORDER BY key FOR UPDATE) l"
        ));
    }

    fn execute(&self, sql: &str) {
        // An error is ignored, because another transaction may block this statement.
        self.database.try_run(sql);
    }
}
