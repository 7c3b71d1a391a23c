//! Tests of the oracle. Each seeded bug must be detected, and the same scenario must pass without
//! the bug.

use std::fs;
use std::path::{Path, PathBuf};

use leasehold_tests::chaos::seeded::{CASES, Case, ELSEWHERE, Elsewhere, UNCHECKED};
use leasehold_tests::room;

const PROGRAM: &str = env!("CARGO_BIN_EXE_chaos");

fn play(bug: &str) {
    let case = CASES.iter().find(|case| case.bug == bug);
    let case = case.expect("the bug has a scenario");
    let _place = room::enter();
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

/// Each entry of `ELSEWHERE` names a bug and a test, and the test's program must run the test again
/// with the bug. Fails if no file of the program names both.
#[test]
fn other_tests_run_with_their_seeded_bugs() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    for elsewhere in ELSEWHERE {
        let files = match elsewhere.program {
            "leasehold" => vec![tests.join("../runtime/src/selftest/seeded_bugs.rs")],
            "models" => vec![tests.join("../runtime/src/engine/driver/model.rs")],
            program => files(&tests.join("tests").join(program)),
        };
        let names = [elsewhere.bug, elsewhere.test].map(|name| format!("\"{name}\""));
        let found = files.iter().any(|file| {
            let text = fs::read_to_string(file).expect("the program's source");
            names.iter().all(|name| text.contains(name))
        });
        assert!(found, "{}: no file has {names:?}", elsewhere.program);
    }
}

/// Returns all files in a folder and its subfolders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the program's folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let nested = paths.map(|path| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    });
    nested.flatten().collect()
}

/// Fails if the tables in `tests/seeded_bugs.md` differ from the output of `scripts/chaos bugs`.
#[test]
fn the_documented_tables_match_the_bugs() {
    let docs = include_str!("../../seeded_bugs.md");
    let cases = CASES.iter().map(Case::row);
    let rows = cases.chain(ELSEWHERE.iter().map(Elsewhere::row));
    let rows: Vec<_> = rows.collect();
    for row in &rows {
        let times = docs.lines().filter(|line| line == row).count();
        assert_eq!(times, 1, "tests/seeded_bugs.md: {row}");
    }
    let documented = docs.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(documented.count(), rows.len(), "tests/seeded_bugs.md");
}

macro_rules! bugs {
    ($($name:ident: $bug:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                play(stringify!($bug));
            }
        )+

        /// Fails if a seeded bug has neither a scenario here nor a test in `ELSEWHERE`.
        #[test]
        fn all_seeded_bugs_are_tested() {
            let mut played = vec![$(stringify!($bug)),+];
            played.extend(ELSEWHERE.iter().map(|elsewhere| elsewhere.bug));
            let mut seeded = leasehold::__test::bugs();
            seeded.push(UNCHECKED.to_owned());
            seeded.sort();
            played.sort_unstable();
            assert_eq!(played, seeded);
        }
    };
}

bugs! {
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
    handed_over_without_end: HandedOverWithoutEnd,
    fence_handed_over: FenceHandedOver,
    recorded_without_check: RecordedWithoutCheck,
    fingerprint_ignored: FingerprintIgnored,
    quorum_of_answers: QuorumOfAnswers,
    no_quarantine: NoQuarantine,
    message_believed: MessageBelieved,
    hand_over_believed: HandOverBelieved,
    claim_reworded: ClaimReworded,
    dead_waiter_kept: DeadWaiterKept,
    writer_unseen: WriterUnseen,
    readers_unseen: ReadersUnseen,
    share_shortened: ShareShortened,
    dead_share_kept: DeadShareKept,
    writers_passed: WritersPassed,
    permits_uncounted: PermitsUncounted,
    silence_is_kept: SilenceIsKept,
    answers_mixed: AnswersMixed,
    renewed_by_one: RenewedByOne,
    only_first_key_wakes: OnlyFirstKeyWakes,
    any_key_is_enough: AnyKeyIsEnough,
    budget_per_key: BudgetPerKey,
    second_key_orphaned: SecondKeyOrphaned,
    second_key_kept: SecondKeyKept,
    inner_end_releases: InnerEndReleases,
    turns_ignored: TurnsIgnored,
    path_leaks: PathLeaks,
    share_entered: ShareEntered,
    max_hold_forgotten: MaxHoldForgotten,
    kept_after_err: KeptAfterErr,
    kept_handed_over: KeptHandedOver,
    share_releases_all: ShareReleasesAll,
    wrong_lease_extended: WrongLeaseExtended,
    handed_over_not_renewed: HandedOverNotRenewed,
    order_forgotten: OrderForgotten,
    cut_is_answer: CutIsAnswer,
    grant_unnoticed: GrantUnnoticed,
    loss_unnoticed: LossUnnoticed,
    drop_forgotten: DropForgotten,
    shutdown_hurries: ShutdownHurries,
    tokens_repeat: TokensRepeat,
    fence_unreported: FenceUnreported,
    ended_share_revived: EndedShareRevived,
    share_shortened_by_renewal: ShareShortenedByRenewal,
    share_needs_memory: ShareNeedsMemory,
    gone_is_released: GoneIsReleased,
    way_not_made: WayNotMade,
    pause_skipped: PauseSkipped,
    mark_lost: MarkLost,
    future_believed: FutureBelieved,
    old_claim_believed: OldClaimBelieved,
    fence_unchecked: FenceUnchecked,
}
