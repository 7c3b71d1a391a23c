//! Requirement 26: clients that know no queue get their turn on a key that callers of ours use without pause.
//!
//! They poll, each as its own defaults say, and so see the key only when it is free at such a moment.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread::{scope, sleep};
use std::time::Duration;

use super::body::nanos;
use super::crew::{Crew, Hand};
use super::ending::{all_free, end_all};
use super::ground::{Ground, REDIS, Requirement, Size};
use super::job::{Job, Lane, Work};
use super::mortals::must_be_fair;
use super::r26_clients::{Client, Peer, Section, Visit};
use super::r26_rslock;
use super::sheet::Sheet;
use crate::lateness::Excuse;
use crate::oracle::{Mode, Note, Report};
use crate::server::Server;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 26,
    what: "clients that know no queue, beside callers of ours without pause: a section at least every 5 s",
    stores: REDIS,
    run,
};

const KEY: &str = "hot";
/// Nobody is without a section for longer.
const BOUND: Duration = Duration::from_secs(5);
pub(super) const TTL: Duration = Duration::from_secs(10);
pub(super) const STAY: Duration = Duration::from_millis(3);

/// For so long our callers are measured without the others.
const ALONE: Duration = Duration::from_secs(20);

/// The callers of ours.
#[derive(Debug, Clone, Copy)]
struct Ours {
    name: &'static str,
    processes: u32,
    tasks: u32,
}

const OURS: [Ours; 2] = [
    Ours {
        name: "two processes",
        processes: 2,
        tasks: 2,
    },
    Ours {
        name: "one process of four tasks",
        processes: 1,
        tasks: 4,
    },
];

fn run(ground: &Ground, sheet: &Sheet) {
    let time = Duration::from_secs(ground.count(60, 7));
    for ours in OURS {
        let beside = ours.beside_others(ground, sheet, time);
        if ground.size == Size::Full {
            ours.cost(ground, sheet, beside);
        }
    }
    sheet.reached("seconds beside other clients", time.as_secs() * 2, 120);
}

impl Ours {
    fn crew(self, ground: &Ground, what: &str) -> Crew {
        ground.crew(&format!("foreign-{}-{what}", self.name.replace(' ', "-")))
    }

    /// Everybody on one key for `time`; how many sections a second we had.
    fn beside_others(self, ground: &Ground, sheet: &Sheet, time: Duration) -> f64 {
        let server = Server::start();
        let crew = self.crew(ground, "beside");
        let visit = Visit {
            url: server.url(),
            key: format!("lock:{KEY}"),
            time,
            folder: crew.folder().to_owned(),
        };
        let excuse = Excuse::begin();
        let foreign = self.everybody(ground, sheet, &crew, &visit);
        all_free(&crew, &server.probe(), TTL);
        must_be_fair(&crew, KEY, BOUND, excuse);
        let report = crew.report();
        let bound = BOUND + excuse.so_far();
        self.tell(sheet, &report, &foreign, bound);
        if report.violations.is_empty() {
            crew.remove();
        }
        per_second(
            report.sections - foreign.values().map(|of| of.count).sum::<u64>(),
            time,
        )
    }

    /// Runs all clients, and notes what the others say; their sections by name.
    fn everybody(
        self,
        ground: &Ground,
        sheet: &Sheet,
        crew: &Crew,
        visit: &Visit,
    ) -> BTreeMap<&'static str, Served> {
        let peers = match ground.size {
            Size::Full => Peer::installed(ground),
            Size::Small => vec![Peer::redis_py(ground)],
        };
        let mut clients: Vec<Client> = peers.into_iter().map(|peer| peer.start(visit)).collect();
        let ours = self.start(crew, &visit.url, None);
        let sections = scope(|scope| {
            let rslock = scope.spawn(|| r26_rslock::visit(visit));
            for client in &mut clients {
                client.go();
            }
            sleep(visit.time);
            end_all(sheet, ours);
            let mut sections = BTreeMap::from([("rslock", rslock.join().expect("no panic"))]);
            for client in clients {
                let name = client.name();
                sections.insert(name, client.sections(visit, sheet));
            }
            sections
        });
        // Of the other clients' sections none has a fence.
        crew.note(&Note::Unfenced);
        let mut numbers = 0..;
        for section in sections.values().flatten() {
            note(crew, section, numbers.next().unwrap_or_default());
        }
        let served = |(name, sections): (&'static str, Vec<Section>)| (name, Served::of(&sections));
        sections.into_iter().map(served).collect()
    }

    /// Our processes; `make_way` is their option if it is not the default.
    fn start(self, crew: &Crew, url: &str, make_way: Option<Duration>) -> Vec<Hand> {
        let job = Job {
            make_way_ms: make_way.map(millis),
            ..crew.job(url, vec![self.lane()])
        };
        (0..self.processes)
            .map(|_| crew.spawn(&job, None))
            .collect()
    }

    fn lane(self) -> Lane {
        Lane {
            copies: self.tasks,
            times: 0,
            work: Work::Stay {
                ms: millis(STAY),
                slow_drop_ms: 0,
            },
            ..Lane::stays(KEY, millis(TTL), 0).waits(600_000)
        }
    }

    fn tell(
        self,
        sheet: &Sheet,
        report: &Report,
        foreign: &BTreeMap<&'static str, Served>,
        bound: Duration,
    ) {
        sheet.report(report);
        let theirs: u64 = foreign.values().map(|of| of.count).sum();
        let ours = report.sections - theirs;
        let mut text = format!("{}: {ours} sections of ours", self.name);
        for (name, served) in foreign {
            let Served { count, longest } = served;
            let _ = write!(text, ", {count} of {name} (longest wait {longest:.2?})");
            sheet.check(served.count > 0 && served.longest <= bound, || {
                format!("{}: {name} had {served:?}", self.name)
            });
        }
        sheet.remark(text);
        sheet.check(ours > 0, || format!("{}: we had no section", self.name));
        sheet.check(report.lost == 0, || {
            format!("{}: {} lost", self.name, report.lost)
        });
    }

    /// What it costs us to leave the key free, and what the others take.
    fn cost(self, ground: &Ground, sheet: &Sheet, beside: f64) {
        let never = self.alone(ground, sheet, Some(Duration::ZERO));
        let alone = self.alone(ground, sheet, None);
        sheet.remark(format!(
            "{}: {never:.0} sections a second alone without making way, {alone:.0} alone, {beside:.0} beside the others",
            self.name
        ));
    }

    /// Sections a second of ours without other clients.
    fn alone(self, ground: &Ground, sheet: &Sheet, make_way: Option<Duration>) -> f64 {
        let server = Server::start();
        let crew = self.crew(ground, "alone");
        let ours = self.start(&crew, &server.url(), make_way);
        sleep(ALONE);
        end_all(sheet, ours);
        let report = crew.report();
        sheet.report(&report);
        if report.violations.is_empty() {
            crew.remove();
        }
        per_second(report.sections, ALONE)
    }
}

/// What a client got.
#[derive(Debug, Clone, Copy)]
struct Served {
    count: u64,
    longest: Duration,
}

impl Served {
    fn of(sections: &[Section]) -> Self {
        let longest = sections
            .iter()
            .map(|of| of.entered.saturating_sub(of.asked))
            .max();
        Self {
            count: u64::try_from(sections.len()).unwrap_or(u64::MAX),
            longest: longest.map_or(Duration::MAX, Duration::from_nanos),
        }
    }
}

/// Tells the oracle of a section of another client. It has no fence, and its lease counts from its request at the earliest.
fn note(crew: &Crew, section: &Section, number: u64) {
    let deadline = section.entered + nanos(TTL);
    crew.note(&Note::Enter {
        key: KEY.to_owned(),
        holder: number,
        fence: None,
        asked: section.asked,
        at: section.entered,
        sent: section.asked,
        deadline,
        mode: Mode::Alone,
        within: None,
    });
    crew.note(&Note::Leave {
        key: KEY.to_owned(),
        holder: number,
        at: section.left,
        deadline,
        keeps: None,
    });
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_precision_loss, reason = "sections are far below 2^52")]
fn per_second(sections: u64, time: Duration) -> f64 {
    sections as f64 / time.as_secs_f64()
}
