//! The oracle is tested too: each seeded bug is caught, and without it the same scenario is fine.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use leasehold_tests::chaos::seeded::{CASES, UNCHECKED};
use leasehold_tests::process::Leashed;
use leasehold_tests::server::Server;
use leasehold_tests::worker::{Job, Scenario};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chaos");

fn play(bug: &str) {
    let case = CASES.iter().find(|case| case.bug == bug);
    let case = case.expect("the bug has a scenario");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("seeded");
    let (bad, good) = std::thread::scope(|scope| {
        let bad = scope.spawn(|| case.play(Path::new(PROGRAM), &folder, true));
        let good = scope.spawn(|| case.play(Path::new(PROGRAM), &folder, false));
        (
            bad.join().expect("no panic"),
            good.join().expect("no panic"),
        )
    });
    assert!(good.violations.is_empty(), "without {bug}: {good}");
    assert!(
        bad.count(case.kind) > 0,
        "{bug} is not caught as {:?}: {bad}",
        case.kind
    );
}

/// Whether the scripts of a process with the bug, if there is one, pass the conformance suites of the stores.
fn conforms(bug: Option<&str>) -> bool {
    let server = Server::start();
    let job = Job {
        url: server.url(),
        key: String::new(),
        ttl_ms: 0,
        wait_ms: 0,
        watchdog: false,
        scenario: Scenario::Conform,
    };
    let job = serde_json::to_string(&job).expect("a job is JSON");
    let child = Command::new(env!("CARGO_BIN_EXE_worker"))
        .arg(job)
        .envs(bug.map(|bug| ("LEASEHOLD_SEEDED_BUG", bug)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut worker = Leashed::new(child.expect("the worker starts"), None);
    let mut said = String::new();
    let output = worker.child().stdout.as_mut().expect("it is piped");
    output.read_to_string(&mut said).expect("it is text");
    said.contains("\"done\"")
}

#[track_caller]
fn fails_to_conform(bug: &str) {
    assert!(!conforms(Some(bug)), "{bug} is not caught");
}

#[test]
fn without_a_bug_the_scripts_conform() {
    assert!(conforms(None));
}

macro_rules! bugs {
    (scenarios: {$($name:ident: $bug:ident),+ $(,)?} suites: {$($test:ident: $caught:ident),+ $(,)?}) => {
        $(
            #[test]
            fn $test() {
                fails_to_conform(stringify!($caught));
            }
        )+

        $(
            #[test]
            fn $name() {
                play(stringify!($bug));
            }
        )+

        /// Fails if a bug is seeded that neither a scenario nor a conformance suite looks for.
        #[test]
        fn all_are_played() {
            let played = [$(stringify!($bug),)+ $(stringify!($caught)),+].map(str::to_owned);
            let mut seeded = leasehold::__test::bugs();
            seeded.push(UNCHECKED.to_owned());
            seeded.sort();
            let mut played = Vec::from(played);
            played.sort();
            assert_eq!(played, seeded);
        }
    };
}

bugs! {
    scenarios: {
        counted_from_reply: CountedFromReply,
        loss_ignored: LossIgnored,
        unknown_is_success: UnknownIsSuccess,
        orphan_forgotten: OrphanForgotten,
        removal_believed: RemovalBelieved,
        no_margin: NoMargin,
        budget_ignored: BudgetIgnored,
        no_gate: NoGate,
        released_before_drop: ReleasedBeforeDrop,
        delete_without_compare: DeleteWithoutCompare,
        renew_without_compare: RenewWithoutCompare,
        renew_by_set: RenewBySet,
        not_idempotent: NotIdempotent,
        fence_from_counter: FenceFromCounter,
        watchdog_asleep: WatchdogAsleep,
        passed_on_without_end: PassedOnWithoutEnd,
        fence_passed_on: FencePassedOn,
        quorum_of_answers: QuorumOfAnswers,
        no_quarantine: NoQuarantine,
        message_believed: MessageBelieved,
        hand_off_believed: HandOffBelieved,
        dead_waiter_kept: DeadWaiterKept,
        writer_unseen: WriterUnseen,
        readers_unseen: ReadersUnseen,
        share_shortened: ShareShortened,
        dead_share_kept: DeadShareKept,
        writers_passed: WritersPassed,
        places_uncounted: PlacesUncounted,
        ended_share_revived: EndedShareRevived,
        share_shortened_by_renewal: ShareShortenedByRenewal,
        share_needs_memory: ShareNeedsMemory,
        silence_is_kept: SilenceIsKept,
        way_not_made: WayNotMade,
        pause_skipped: PauseSkipped,
        mark_lost: MarkLost,
        future_believed: FutureBelieved,
        old_claim_believed: OldClaimBelieved,
        fence_unchecked: FenceUnchecked,
    }
    suites: {
        kept_token_stays: KeptTokenStays,
    }
}
