//! Requirement 39: one of three processes leads. After this leader fails, another process soon
//! leads.

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
    what: "one leader at a time, and a new one within 1 s of the end of a failed leader's lock",
    stores: &[Store::Redis, Store::Postgres, Store::Etcd, Store::Zookeeper],
    run,
};

const KEY: &str = "leader";
/// Number of failures of the leader in a full run, which takes ten minutes.
const FAILURES: u64 = 330;
const TTL: Duration = Duration::from_secs(1);
/// Bound for the time until the server ends the session of a failed leader. A session for `TTL`
/// lasts up to 2.5 s, and the server checks for ended sessions every half second.
const SESSION: Duration = Duration::from_millis(3_500);
/// The longest time from the end of the old leader's lock to the start of the next leader's body.
const SUCCESSION: Duration = Duration::from_secs(1);
/// Time limit for the wait for a new leader. Exceeded only if no process ever leads.
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

    /// Makes the process or its network fail. Every kind of failure lasts until `repair`.
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
                // The pipe continues to lose the bytes of a connection that has lost bytes, even in
                // the flow `Pass`. So the connection is closed.
                self.pipe.cut();
            }
        }
    }
}

fn begin(crew: &Crew, url: &str) -> Hand {
    let mut lane = Lane::stays(KEY, 1_000, 3_600_000).as_form(Form::Leading);
    lane.times = 0;
    // If this process runs with a seeded bug, its workers must have the same bug.
    let bug = std::env::var("LEASEHOLD_SEEDED_BUG").ok();
    crew.spawn(&crew.job(url, vec![lane]), bug.as_deref())
}

/// One term of a leader: its process, the fence of its lock, and the start of its body.
#[derive(Clone, Copy, Default)]
struct Term {
    process: u32,
    fence: u64,
    began: u64,
}

impl Term {
    fn of(note: &Note) -> Option<Self> {
        let Note::Enter {
            holder, fence, at, ..
        } = note
        else {
            return None;
        };
        Some(Self {
            process: u32::try_from(holder >> 32).unwrap_or(0),
            fence: fence.unwrap_or(0),
            began: *at,
        })
    }

    /// Waits until another process leads. Returns the term of that process, or `None` after
    /// `LIMIT`.
    fn next(self, watch: &mut Watch) -> Option<Self> {
        let follows = |next: Self| self.fence < next.fence && self.process != next.process;
        let note = watch.wait_for(LIMIT, |note| Self::of(note).is_some_and(follows));
        Self::of(&note?)
    }

    /// Returns the latest term in the history, or `self` if there is no later term. The leader can
    /// change without a failure, because a busy machine can renew a lease too late.
    fn latest(self, watch: &mut Watch) -> Self {
        let mut latest = self;
        while let Some(note) = watch.next_note() {
            let term = Self::of(&note).filter(|term| latest.fence < term.fence);
            latest = term.unwrap_or(latest);
        }
        latest
    }
}

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(FAILURES, 4);
    let within = match ground.store {
        Store::Etcd | Store::Zookeeper => SESSION,
        _ => TTL,
    } + SUCCESSION;
    let mut random = ground.random(39);
    let place = ground.place("leadership");
    let crew = ground.crew("leadership");
    let mut watch = crew.watch();
    let mut members: Vec<_> = (0..3).map(|_| Member::join(&crew, &place)).collect();
    let (mut failures, mut worst) = (0, Duration::ZERO);
    let mut leader = Term::default().next(&mut watch);
    while let Some(term) = leader.filter(|_| failures < total) {
        std::thread::sleep(random.duration(TTL * 2));
        let term = term.latest(&mut watch);
        let mut all = members.iter_mut();
        let member = all.find(|member| member.hand.id() == term.process);
        let member = member.expect("the leader is a member");
        let due = now();
        member.strike(failures % 4);
        leader = term.next(&mut watch);
        let at = leader.map_or_else(now, |next| next.began);
        let took = Duration::from_nanos(at.saturating_sub(due));
        worst = worst.max(took);
        crew.note(&Note::Free {
            key: KEY.to_owned(),
            due,
            at,
            within: nanos(within + lateness::worst_since(due) * 4),
        });
        member.repair(failures % 4);
        failures += 1;
    }
    sheet.check(leader.is_some(), || "no process leads".to_owned());
    drop(members);
    let report = crew.report();
    sheet.report(&report);
    sheet.reached("failures of the leader", failures, FAILURES);
    sheet.remark(format!("the next leader began within {worst:?}"));
    if report.violations.is_empty() {
        crew.remove();
    }
}
