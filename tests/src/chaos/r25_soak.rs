//! Requirement 25: memory does not grow.
//!
//! A separate process takes and releases locks on many keys while faults are injected now and then.
//! Some of its calls are dropped before they end. In the warm-up the worst faults have their
//! longest duration, and the faults of the server coincide with the faults of the process. Buffers
//! and maps keep their largest size, so the process must reach this size before the measurement.
//! Memory is measured without faults, after the warm-up and at the end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::crew::{Crew, Hand};
use super::faults::{Lane as FaultLane, Spans, Struck};
use super::gauge;
use super::ground::{BOTH, Ground, Requirement, Size};
use super::job::{Form, Job, Lane, Work};
use super::sheet::Sheet;
use super::store::Store;
use crate::oracle;
use crate::proxy::{Mode, Proxy};
use crate::server::Server;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 25,
    what: "long soak: memory growth < 1 % after warm-up",
    stores: BOTH,
    run,
};

const WANTED: u64 = 30;
/// Tolerated growth of the heap, in KiB. In comparison, a leak of 16 bytes in each thousand
/// sections adds 10 KiB in 15 minutes.
const HEAP_SLACK: usize = 8;
/// Tolerated growth of the resident pages, in KiB. In four runs they grew by 148 to 388 KiB,
/// although the heap grew by at most 2 KiB. The reason is that the allocator keeps a whole page as
/// long as any piece of it is in use.
const PAGES_SLACK: usize = 512;
const TTL: Duration = Duration::from_millis(400);
/// The longest pause between two faults.
const PAUSE: Duration = Duration::from_secs(5);
/// Duration of a silent network. Longer than the time limit of a worker's request.
const SILENCE: Duration = Duration::from_millis(2_500);
/// Duration of random faults after each round of the worst faults in the warm-up.
const CALM: Duration = Duration::from_secs(15);

fn run(ground: &Ground, sheet: &Sheet) {
    let crew = ground.crew("soak");
    let mut server = (ground.store == Store::Redis).then(Server::start);
    let proxy = server.as_ref().map(|server| Proxy::start(server.address()));
    let url = proxy
        .as_ref()
        .map_or_else(|| "memory://soak".to_owned(), Proxy::url);
    let file = crew.folder().join("gauge");
    let hand = crew.spawn(&job(&crew, &url, &file), None);
    let mut soak = Soak {
        crew: &crew,
        ground,
        server: server.as_mut(),
        proxies: proxy.as_slice(),
        hand: Some(hand),
        file,
    };
    let (before, after) = soak.measure();
    let sections = gauge::read(&soak.file).map_or(0, |reading| reading.sections);
    let mut hand = soak.hand.take().expect("it is there between two phases");
    sheet.check(!hand.has_ended(), || "the soaked process ended".to_owned());
    sheet.check(hand.finish(), || {
        "the soaked process ended badly".to_owned()
    });
    sheet.report(&crew.report());
    sheet.sections(sections);
    sheet.reached("minutes", ground.time.as_secs() / 60, WANTED);
    sheet.remark(format!("{sections} sections"));
    for (what, before, after, slack) in [
        ("allocated", before.heap, after.heap, HEAP_SLACK),
        ("resident", before.resident, after.resident, PAGES_SLACK),
    ] {
        judge(ground, sheet, what, (before, after), slack);
    }
    crew.remove();
}

/// Returns a job that takes and releases locks on many keys, and drops some of its calls.
fn job(crew: &Crew, url: &str, file: &Path) -> Job {
    let lane = |keys: u32, watchdog, pause_us, drop_one_in| Lane {
        keys: (0..keys).map(|number| format!("soak-{number}")).collect(),
        in_turn: false,
        copies: 4,
        ttl_ms: u64::try_from(TTL.as_millis()).unwrap_or(0),
        wait_ms: 1_000,
        watchdog,
        mode: oracle::Mode::Alone,
        form: Form::Plain,
        fails: false,
        work: Work::Count { pause_us },
        times: 0,
        drop_one_in,
        block_one_in: 0,
    };
    Job {
        history: "/dev/null".into(),
        gauge: Some(file.to_owned()),
        threads: 1,
        ..crew.job(
            url,
            vec![lane(200, true, 5_000, 50), lane(20, false, 2_000, 0)],
        )
    }
}

/// A process, and the server and proxies into which faults are injected.
struct Soak<'a> {
    crew: &'a Crew,
    ground: &'a Ground,
    server: Option<&'a mut Server>,
    proxies: &'a [Proxy],
    /// The soaked process. `None` while faults are injected, because the injecting code then owns
    /// the process.
    hand: Option<Hand>,
    file: PathBuf,
}

impl Soak<'_> {
    /// Measures the memory after the warm-up and at the end.
    fn measure(&mut self) -> (Memory, Memory) {
        let tenth = self.ground.time / 10;
        let (warming, quiet, striking) = match self.ground.size {
            Size::Full => (2 * tenth, tenth, 6 * tenth),
            // The quiet phases last 4 s, because the locks of dropped calls are still removed for
            // some seconds after a fault.
            Size::Small => (Duration::ZERO, Duration::from_secs(4), tenth),
        };
        self.warm_up(warming);
        let before = self.quiet(quiet);
        self.strike(striking, 0);
        (before, self.quiet(quiet))
    }

    /// Brings the process to its largest memory use before the measurement. Buffers and maps do not
    /// shrink again, and the pages in use at that time stay resident. So the worst faults are
    /// repeated, with their longest duration, and the server's faults coincide with the faults of
    /// the process. The silence of the network lasts longer than any outage in the measured part,
    /// and random faults follow each silence.
    fn warm_up(&mut self, time: Duration) {
        let started = Instant::now();
        for round in 1.. {
            self.each(round);
            self.silence();
            let left = time.saturating_sub(started.elapsed());
            if left.is_zero() {
                return;
            }
            self.strike(left.min(CALM), round);
        }
    }

    /// Injects the faults of the process and of its network once each, except kills. Meanwhile,
    /// injects the faults of the server, except full memory.
    fn each(&mut self, round: u64) {
        let over = AtomicBool::new(false);
        let mut hand = self.hand.take().expect("nothing strikes it now");
        let mut lane = self.lane(round, &over);
        let mut struck = self.struck(round);
        std::thread::scope(|scope| {
            let over = &over;
            if let Some(struck) = &mut struck {
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        struck.each(TTL);
                    }
                });
            }
            lane.each(&mut hand);
            over.store(true, Ordering::Relaxed);
        });
        self.hand = Some(hand);
    }

    /// Makes the network silent for longer than the time limit of a request. Then as many
    /// connection attempts as possible hang at the same time. These attempts take the most memory
    /// that the process ever uses.
    fn silence(&self) {
        for proxy in self.proxies {
            for mode in [Mode::BlackHole, Mode::Stall] {
                proxy.set(mode);
                std::thread::sleep(SILENCE);
                proxy.pass();
            }
        }
    }

    /// Injects faults at random for `time`.
    fn strike(&mut self, time: Duration, phase: u64) {
        let over = AtomicBool::new(false);
        let hand = self.hand.take().expect("nothing strikes it now");
        let mut lane = self.lane(phase, &over);
        let mut struck = self.struck(phase);
        let hand = std::thread::scope(|scope| {
            let over = &over;
            let lane = scope.spawn(move || lane.run(hand, || panic!("the soaked process ended")));
            if let Some(struck) = &mut struck {
                scope.spawn(move || struck.run(PAUSE * 2, over));
            }
            std::thread::sleep(time);
            over.store(true, Ordering::Relaxed);
            lane.join().expect("the soaked process lives")
        });
        self.hand = Some(hand);
    }

    fn lane<'b>(&self, phase: u64, over: &'b AtomicBool) -> FaultLane<'b>
    where
        Self: 'b,
    {
        FaultLane {
            crew: self.crew,
            proxies: self.proxies,
            spans: Spans::new(self.ground.random(25_000 + phase)),
            ttl: TTL,
            pause: PAUSE.min(self.ground.time / 40),
            mortal: false,
            over,
        }
    }

    fn struck(&mut self, phase: u64) -> Option<Struck<'_>> {
        let spans = Spans::new(self.ground.random(26_000 + phase));
        Some(Struck {
            crew: self.crew,
            server: self.server.as_deref_mut()?,
            spans,
            ttl: TTL,
        })
    }

    /// Injects no fault for `time`, and measures the memory in the second half of `time`.
    fn quiet(&mut self, time: Duration) -> Memory {
        std::thread::sleep(time / 2);
        let process = self.hand.as_mut().map_or(0, |hand| hand.process().id());
        let started = Instant::now();
        let (mut heap, mut pages) = (Vec::new(), Vec::new());
        while started.elapsed() < time / 2 {
            std::thread::sleep(gauge::STEP);
            heap.extend(gauge::read(&self.file).map(|reading| reading.heap / 1024));
            pages.extend(resident(process));
        }
        Memory {
            heap: floor(heap),
            resident: floor(pages),
        }
    }
}

/// Memory in KiB; `None` if it cannot be measured.
struct Memory {
    heap: Option<usize>,
    resident: Option<usize>,
}

/// Returns the size of the pages that belong to the process alone, in KiB. Pages of its program
/// file do not count, because their number grows whenever a part of the code runs for the first
/// time.
fn resident(process: u32) -> Option<usize> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(Path::new(&path)).ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn judge(
    ground: &Ground,
    sheet: &Sheet,
    what: &str,
    (before, after): (Option<usize>, Option<usize>),
    slack: usize,
) {
    let (Some(before), Some(after)) = (before, after) else {
        sheet.remark(format!("{what}: cannot be measured here"));
        return;
    };
    sheet.remark(format!(
        "{what} {before} KiB after warm-up, {after} KiB at the end"
    ));
    // A short run measures while the process is still warming up, and ends soon after its last
    // fault. So it allows the memory to double, and only finds leaks that occur in each section.
    let percent = if ground.size == Size::Full { 1 } else { 100 };
    let growth = after.saturating_sub(before);
    sheet.check(growth < slack || 100 * growth < percent * before, || {
        format!("{what} memory grew from {before} to {after} KiB")
    });
}

/// Returns the memory in use while few requests are in flight: the tenth percentile of the samples.
fn floor(mut samples: Vec<usize>) -> Option<usize> {
    samples.sort_unstable();
    samples.get(samples.len() / 10).copied()
}
