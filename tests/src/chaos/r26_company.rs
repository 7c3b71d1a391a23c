//! Runs of leasehold's callers together with other clients on one key, and the check that no client
//! waits too long.

use std::fmt::Write as _;
use std::thread::{scope, sleep};
use std::time::Duration;

use super::crew::Crew;
use super::ending::{all_free, end_all};
use super::ground::Ground;
use super::mortals::must_be_fair;
use super::r26_clients::Program;
use super::r26_ours::{KEY, Ours};
use super::r26_visit::{Section, TTL, Visit};
use super::sheet::Sheet;
use super::span::nanos;
use crate::lateness::Excuse;
use crate::oracle::{Mode, Note, Report};
use crate::server::Server;

/// The requirement fails if a client waits longer than this for a section.
const BOUND: Duration = Duration::from_secs(5);

/// The clients whose waits may not exceed [`BOUND`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// Each client other than leasehold, and each call of leasehold.
    Each,
    /// All clients other than leasehold together, as if they were one client. Even without
    /// leasehold, these clients keep each other waiting for a long time.
    AsOne,
}

/// A run in which leasehold's callers (`ours`) and other clients (`programs`) use one key for
/// `time`.
pub(super) struct Company<'a> {
    pub(super) ours: Option<Ours>,
    pub(super) programs: &'a [Program],
    /// The pause of each of `programs` between two of its sections.
    pub(super) pause: Duration,
    pub(super) time: Duration,
    pub(super) judged: Judged,
}

/// The sections of one client.
struct Served {
    name: &'static str,
    sections: Vec<Section>,
}

impl Company<'_> {
    /// Runs the clients and judges their sections. Returns leasehold's sections per second.
    pub(super) fn meet(&self, ground: &Ground, sheet: &Sheet, what: &str) -> f64 {
        let (folder, name) = match self.ours {
            Some(ours) => (ours.folder(), format!("{}, {what}", ours.name)),
            None => ("none".to_owned(), format!("none of ours, {what}")),
        };
        let crew = ground.crew(&format!("foreign-{folder}-{}", what.replace(' ', "-")));
        let server = Server::start();
        let excuse = Excuse::begin();
        let visits = self.work(&crew, &server, sheet);
        all_free(&crew, &server.probe(), TTL);
        if self.judged == Judged::Each {
            must_be_fair(&crew, KEY, BOUND, excuse);
        }
        let report = crew.report();
        let bound = nanos(BOUND + excuse.so_far());
        let ours = self.record(sheet, &report, &visits, (&name, bound));
        if report.violations.is_empty() {
            crew.remove();
        }
        per_second(ours, self.time)
    }

    /// Runs all clients. Adds the sections of the other clients to the history.
    fn work(&self, crew: &Crew, server: &Server, sheet: &Sheet) -> Vec<Served> {
        let visit = Visit {
            url: server.url(),
            key: format!("lock:{KEY}"),
            pause: self.pause,
            time: self.time,
            folder: crew.folder().to_owned(),
        };
        let programs = self.programs.iter();
        let mut clients: Vec<_> = programs.map(|program| program.start(&visit)).collect();
        let hands = self.ours.map(|ours| ours.start(crew, &visit.url, None));
        let visits: Vec<_> = scope(|scope| {
            let working = clients.drain(..).map(|client| {
                let name = client.name();
                let visit = &visit;
                let sections = scope.spawn(move || client.work(visit, sheet));
                (name, sections)
            });
            let working: Vec<_> = working.collect();
            sleep(self.time);
            end_all(sheet, hands.unwrap_or_default());
            let ended = working.into_iter().map(|(name, sections)| Served {
                name,
                sections: sections.join().expect("no panic"),
            });
            ended.collect()
        });
        // The other clients' sections have no fences, so the oracle must not check fences.
        crew.note(&Note::Unfenced);
        let sections = visits.iter().flat_map(|visit| &visit.sections);
        for (number, section) in (0..).zip(sections) {
            note(crew, section, number);
        }
        visits
    }

    /// Adds the sections and the longest wait of each client to the sheet. Checks the waits of the
    /// clients in `judged` against `bound`. Returns the number of leasehold's sections.
    fn record(
        &self,
        sheet: &Sheet,
        report: &Report,
        served: &[Served],
        (name, bound): (&str, u64),
    ) -> u64 {
        sheet.report(report);
        let foreign: u64 = served.iter().map(Served::count).sum();
        let ours = report.sections - foreign;
        let mut text = format!("{name}: {ours} sections of ours");
        for of in served {
            let longest = Duration::from_nanos(of.longest());
            let _ = write!(
                text,
                ", {} of {} (longest wait {longest:.2?})",
                of.count(),
                of.name
            );
            let well = self.judged == Judged::AsOne || of.longest() <= bound;
            sheet.check(of.count() > 0 && well, || {
                format!(
                    "{name}: {} sections of {}, longest wait {longest:.2?}",
                    of.count(),
                    of.name
                )
            });
        }
        let gap = longest_gap(served);
        let _ = write!(
            text,
            ", none of theirs for at most {:.2?}",
            Duration::from_nanos(gap)
        );
        sheet.check(gap <= bound, || {
            format!("{name}: none of theirs for {gap} ns")
        });
        sheet.check(self.ours.is_none() || ours > 0, || {
            format!("{name}: we had no section")
        });
        sheet.check(report.lost == 0, || format!("{name}: {} lost", report.lost));
        sheet.remark(text);
        ours
    }
}

impl Served {
    fn count(&self) -> u64 {
        u64::try_from(self.sections.len()).unwrap_or(u64::MAX)
    }

    fn longest(&self) -> u64 {
        let waits = self
            .sections
            .iter()
            .map(|of| of.entered.saturating_sub(of.asked));
        waits.max().unwrap_or_default()
    }
}

/// Returns the longest time in which none of the other clients began a section, counted from their
/// first request.
fn longest_gap(served: &[Served]) -> u64 {
    let sections = served.iter().flat_map(|served| &served.sections);
    let mut entered: Vec<u64> = sections.clone().map(|of| of.entered).collect();
    entered.extend(sections.map(|of| of.asked).min());
    entered.sort_unstable();
    let gaps = entered.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap_or_default()
}

/// Adds a section of a client other than leasehold to the history, without a fence. Its lease is
/// noted to end a ttl after the start of the section.
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

#[allow(clippy::cast_precision_loss, reason = "sections are far below 2^52")]
pub(super) fn per_second(sections: u64, time: Duration) -> f64 {
    sections as f64 / time.as_secs_f64()
}
