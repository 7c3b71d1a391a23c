//! Checks that the harness works, and that it detects contestants that break a lock's promise.
//! These tests do not judge measured times.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the harness. Returns its output and its results.
fn bench(name: &str, arguments: &[&str]) -> (Output, Vec<Value>) {
    bench_for("100", name, arguments)
}

/// Like `bench`, with windows of `window_ms` milliseconds.
fn bench_for(window_ms: &str, name: &str, arguments: &[&str]) -> (Output, Vec<Value>) {
    let file = format!("leasehold-bench-{name}-{}.json", std::process::id());
    let file: PathBuf = std::env::temp_dir().join(file);
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--quick", "--window-ms", window_ms, "--json"])
        .arg(&file)
        .args(arguments)
        .output()
        .expect("the harness starts");
    let text = std::fs::read_to_string(&file).expect("the harness writes its results");
    std::fs::remove_file(&file).expect("the file can be removed");
    let lines = text.lines().map(serde_json::from_str);
    let lines: Result<_, _> = lines.collect();
    (output, lines.expect("each line is JSON"))
}

/// Returns a metric's greatest value.
fn most(lines: &[Value], contestant: &str, metric: &str) -> f64 {
    let found = |line: &&Value| line["contestant"] == contestant && line["metric"] == metric;
    let line = lines.iter().find(found);
    let line = line.unwrap_or_else(|| panic!("{metric} of {contestant} in {lines:?}"));
    line["max"].as_f64().expect("a number")
}

#[test]
fn every_row_of_the_quick_run_has_its_contestants() {
    let (output, lines) = bench("all", &[]);
    assert!(output.status.success(), "{output:?}");
    let of = |row: &str| -> BTreeSet<&str> {
        let lines = lines.iter().filter(|line| line["row"] == row);
        lines
            .filter_map(|line| line["contestant"].as_str())
            .collect()
    };
    for row in ["uncontended", "distinct_64"] {
        assert!(
            of(row).is_superset(&["hand_written", "leasehold"].into()),
            "{row}"
        );
    }
    for row in ["hot_1x64_0ms", "hot_4x16_0ms", "hot_4x16_1ms"] {
        assert!(
            of(row).is_superset(&["leasehold", "poll_50ms"].into()),
            "{row}"
        );
    }
    // Contestants other than leasehold may fail on a busy machine. The output then shows their
    // failure.
    let text = String::from_utf8_lossy(&output.stdout);
    for peer in ["| rslock |", "| distributed_lock |"] {
        let expected = if peer == "| rslock |" { 8 } else { 5 };
        assert_eq!(text.matches(peer).count(), expected, "{peer} in {text}");
    }
    for row in [
        "open_1000:multi_thread:loopback:quiet",
        "open_1000:current_thread:delayed:busy",
        "closed_16:current_thread:loopback:quiet",
    ] {
        assert!(
            of(row).is_superset(&["hand_written", "leasehold"].into()),
            "{row}"
        );
    }
    assert_eq!(
        of("renew_10k"),
        BTreeSet::from(["hand_written", "leasehold"])
    );
    assert_eq!(
        of("overhead"),
        BTreeSet::from([
            "direct",
            "gate",
            "leasehold",
            "leasehold_blocking",
            "leasehold_on_memory"
        ])
    );
}

#[test]
fn an_overlapping_contestant_is_reported() {
    let who = "leasehold,seeded_overlap";
    // Uses sections of 1 ms, because empty sections of several processes may never overlap on a
    // busy machine.
    let (output, lines) = bench("overlap", &["--rows", "hot_4x16_1ms", "--contestants", who]);
    assert!(
        most(&lines, "seeded_overlap", "overlaps") > 0.0,
        "{lines:?}"
    );
    assert!(most(&lines, "leasehold", "overlaps") < 1.0, "{lines:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("**overlapped**"), "{text}");
    // Faults of other contestants are reported, but do not fail the run.
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_contestant_losing_a_waiter_is_reported() {
    let arguments = ["--rows", "hot_1x64_0ms", "--contestants", "seeded_loss"];
    let (output, lines) = bench(
        "loss",
        &[&arguments[..], &["--patience-ms", "500"]].concat(),
    );
    assert!(
        most(&lines, "seeded_loss", "lost_waiters") > 0.0,
        "{lines:?}"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("**lost waiters**"), "{text}");
}

/// Runs an open loop on one thread, with a control as the only contestant.
fn open_loop(name: &str, control: &str) -> Vec<Value> {
    let row = "open_200:current_thread:loopback:quiet";
    let arguments = ["--rows", row, "--contestants", control];
    bench_for("600", name, &arguments).1
}

/// Fails if the time of a pair counts from its request instead of from the time when it was due.
/// One call in 20 blocks the runtime for 80 ms, and the pairs due meanwhile must count as late. All
/// other pairs are answered soon after their requests.
#[test]
fn pairs_due_during_a_client_stall_count_as_late() {
    let lines = open_loop("stall", "seeded_stall");
    let p50 = most(&lines, "seeded_stall", "p50_us");
    assert!(p50 > 10_000.0, "{p50} µs: {lines:?}");
    // A stall does not prevent arrivals: about 200 pairs a second are due.
    let ended = most(&lines, "seeded_stall", "per_s");
    assert!(ended > 100.0, "{ended} a second: {lines:?}");
}

/// Fails if the CPU time of a client that computes 8 ms for each pair is not counted. Also fails if
/// more than 1 ms is counted for a client that computes nothing.
#[test]
fn cpu_time_of_a_client_is_counted() {
    let lines = open_loop("spin", "seeded_spin");
    let spins = most(&lines, "seeded_spin", "cpu_us");
    assert!(spins >= 8_000.0, "{spins} µs: {lines:?}");
    let lines = open_loop("nothing", "nothing");
    let nothing = most(&lines, "nothing", "cpu_us");
    assert!(
        nothing > 0.0 && nothing < 1_000.0,
        "{nothing} µs: {lines:?}"
    );
}

/// Fails if the bystander does not run on the same runtime as the pairs, where each pair computes
/// for 8 ms. tokio asks the system for due events only after 61 pairs.
#[test]
fn a_bystander_is_delayed_by_a_computing_runtime() {
    let lines = open_loop("bystander", "seeded_spin");
    let late = most(&lines, "seeded_spin", "bystander_p99_us");
    assert!(late > 50_000.0, "{late} µs: {lines:?}");
}

/// Fails if the delayed network does not lie between client and server. A pair takes two round
/// trips of half a millisecond each.
#[test]
fn the_delayed_network_delays_pairs() {
    const TWO_ROUND_TRIPS: f64 = 1_000.0;
    let least = |network: &str| {
        let row = format!("open_200:current_thread:{network}:quiet");
        let arguments = ["--rows", &row, "--contestants", "hand_written"];
        let (_, lines) = bench(network, &arguments);
        most(&lines, "hand_written", "least_us")
    };
    let delayed = least("delayed");
    assert!(delayed >= TWO_ROUND_TRIPS, "{delayed} µs");
    // The control: without the delay, at least one of several runs is faster, even on a busy
    // machine.
    let runs: Vec<f64> = (0..5).map(|_| least("loopback")).collect();
    let fast = runs.iter().any(|least| *least < TWO_ROUND_TRIPS);
    assert!(fast, "{runs:?} µs on loopback");
}

/// Fails if a row of several masters, of another engine or of an earlier build does not run. A pair
/// counts even if it ends late, because a disk may be slower than the window is long.
#[test]
fn rows_of_quorums_other_engines_and_earlier_builds_run() {
    let arguments = [
        "--rows",
        "redlock_uncontended",
        "--contestants",
        "leasehold,leasehold_single,rslock",
    ];
    let (output, lines) = bench("quorum", &arguments);
    assert!(output.status.success(), "{output:?}");
    for who in ["leasehold", "leasehold_single", "rslock"] {
        assert!(most(&lines, who, "p50_us") > 0.0, "{lines:?}");
    }
    // The other engines, each compared with leasehold on Redis.
    for row in [
        "postgres_uncontended",
        "etcd_distinct_64",
        "zookeeper_open_1000",
    ] {
        let who = "leasehold,leasehold_on_redis,upsert";
        let arguments = ["--rows", row, "--contestants", who];
        let (output, lines) = bench(row, &arguments);
        assert!(output.status.success(), "{output:?}");
        for who in ["leasehold", "leasehold_on_redis"] {
            assert!(most(&lines, who, "p50_us") > 0.0, "{lines:?}");
        }
    }
    // This build is used in place of an earlier build.
    let (output, lines) = bench("against", &["--against", env!("CARGO_BIN_EXE_bench")]);
    assert!(output.status.success(), "{output:?}");
    let rows: BTreeSet<&str> = lines
        .iter()
        .filter_map(|line| line["row"].as_str())
        .collect();
    let expected = [
        "before_uncontended",
        "before_distinct_64",
        "before_hot_1x64_0ms",
    ];
    assert_eq!(rows, expected.into());
    assert!(
        most(&lines, "leasehold_before", "p50_us") > 0.0,
        "{lines:?}"
    );
    // The earlier build also takes part in any other row, including the one without a server.
    let before = ["--against", env!("CARGO_BIN_EXE_bench"), "--rows"];
    for row in ["open_1000:multi_thread:loopback:quiet", "overhead"] {
        let (output, lines) = bench("against-in", &[&before[..], &[row]].concat());
        assert!(output.status.success(), "{output:?}");
        assert!(
            most(&lines, "leasehold_before", "p50_us") > 0.0,
            "{lines:?}"
        );
    }
}

#[test]
fn an_unknown_row_is_an_error_listing_the_known_rows() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--rows", "warm"])
        .output()
        .expect("the harness starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        text.contains("there is no row `warm`") && text.contains("uncontended"),
        "{text}"
    );
}
