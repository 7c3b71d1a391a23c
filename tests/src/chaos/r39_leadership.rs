//! Requirement 39: one of three processes leads, and another one follows soon after it fails.

use std::time::Duration;

use leasehold::__test::now;

use super::crew::{Crew, Hand, Watch};
use super::ground::{Ground, Place, Requirement};
use super::job::{Form, Lane};
use super::sheet::Sheet;
use super::span::nanos;
use super::store::Store;
use crate::lateness;
use crate::oracle::Note;
use crate::pipe::{Flow, Pipe};

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 39,
    what: "one leader at a time, and a new one within ttl + 1 s of a failure",
    stores: &[Store::Redis, Store::Postgres, Store::Etcd, Store::Zookeeper],
    run,
};

const KEY: &str = "leader";
const TTL: Duration = Duration::from_secs(1);
/// The longest session for `TTL`, with the time until the server detects the session's end. See
/// requirement 12.
const SESSION: Duration = Duration::from_millis(3_500);
/// Time from the end of the old leader's lock to the start of the next leader's body.
const SUCCESSION: Duration = Duration::from_secs(1);
/// Time limit for a process to lead. Exceeded only if no process ever leads.
const LIMIT: Duration = Duration::from_secs(30);

/// A process that leads or waits to lead, and its network.
struct Member<'a> {
    crew: &'a Crew,
    pipe: Pipe,
    url: String,
    hand: Hand,
}

impl<'a> Member<'a> {
    fn join(crew: &'a Crew, place: &Place) -> Self {
        let (pipe, url) = place.piped();
        let hand = begin(crew, &url);
        Self {
            crew,
            pipe,
            url,
            hand,
        }
    }

    /// Makes the process fail. Every kind of failure lasts until `repair`.
    fn strike(&mut self, kind: u64) {
        match kind {
            0 => {
                self.crew.fault("SIGKILL of the leader");
                self.hand.process().kill();
            }
            1 => {
                self.crew.fault("SIGSTOP of the leader");
                self.hand.process().pause();
            }
            2 => {
                self.crew.fault("the leader's network stalls");
                self.pipe.set(Flow::Stall);
            }
            _ => {
                self.crew.fault("the leader's network loses everything");
                self.pipe.set(Flow::BlackHole);
            }
        }
    }

    fn repair(&mut self, kind: u64) {
        match kind {
            0 => self.hand = begin(self.crew, &self.url),
            1 => self.hand.process().resume(),
            2 => self.pipe.set(Flow::Pass),
            _ => {
                self.pipe.set(Flow::Pass);
                // A connection that has lost bytes would lose all later bytes, too.
                self.pipe.cut();
            }
        }
    }
}

fn begin(crew: &Crew, url: &str) -> Hand {
    let mut lane = Lane::stays(KEY, 1_000, 3_600_000).as_form(Form::Leading);
    lane.times = 0;
    crew.spawn(&crew.job(url, vec![lane]), None)
}

/// Waits for a body that begins after `since`. Returns its process and its start.
fn next_leader(watch: &mut Watch, since: u64) -> Option<(u32, u64)> {
    let begins = |note: &Note| matches!(note, Note::Enter { at, .. } if since < *at);
    let note = watch.wait_for(LIMIT, begins);
    let Some(Note::Enter { holder, at, .. }) = note else {
        return None;
    };
    Some((process_of(holder), at))
}

/// Returns the process of a body with this number.
fn process_of(holder: u64) -> u32 {
    u32::try_from(holder >> 32).unwrap_or(0)
}

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(150, 4);
    let within = match ground.store {
        Store::Etcd | Store::Zookeeper => SESSION,
        _ => TTL,
    } + SUCCESSION;
    let mut random = ground.random(39);
    let place = ground.place("leadership");
    let crew = ground.crew("leadership");
    let mut watch = crew.watch();
    let mut members: Vec<_> = (0..3).map(|_| Member::join(&crew, &place)).collect();
    let mut leader = next_leader(&mut watch, 0);
    let mut worst = Duration::ZERO;
    for number in 0..total {
        std::thread::sleep(random.duration(TTL * 2));
        let mut leads = leader.map(|(process, _)| process);
        while let Some(note) = watch.next_note() {
            if let Note::Enter { holder, .. } = note {
                leads = Some(process_of(holder));
            }
        }
        let struck = members
            .iter_mut()
            .find(|member| Some(member.hand.process().id()) == leads);
        let Some(struck) = struck else {
            sheet.fail(format!("no process leads, after {number} failures"));
            break;
        };
        let due = now();
        struck.strike(number % 4);
        leader = next_leader(&mut watch, due);
        let at = leader.map_or_else(now, |(_, at)| at);
        let took = Duration::from_nanos(at - due);
        worst = worst.max(took);
        crew.note(&Note::Free {
            key: KEY.to_owned(),
            due,
            at,
            within: nanos(within + lateness::worst_since(due) * 4),
        });
        struck.repair(number % 4);
    }
    drop(members);
    let report = crew.report();
    sheet.report(&report);
    sheet.reached("failures of the leader", total, 150);
    sheet.remark(format!("the next leader began within {worst:?}"));
    if report.violations.is_empty() {
        crew.remove();
    }
}
