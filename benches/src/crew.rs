//! The client processes of one measurement.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::client::Report;
use crate::clock;
use crate::contestants::Contestant;
use crate::plan::{Plan, Work};
use crate::process::{self, Client};
use crate::record::{self, Record};
use crate::row::Clients;
use crate::setup::Runtime;

/// Time between the harness's message `go` and the start time in it, so that all processes read the
/// message before they must start.
const LEAD: Duration = Duration::from_millis(50);
/// Maximum warm-up of an open loop (requests at a given rate). It can be short, because the tasks
/// of an open loop do not begin with a burst of requests.
const OPEN_WARMUP: Duration = Duration::from_millis(200);

/// Settings of a measurement.
pub(crate) struct Setting<'a> {
    pub(crate) url: String,
    /// The process ids of all servers.
    pub(crate) servers: Vec<u32>,
    pub(crate) window: Duration,
    pub(crate) patience: Duration,
    pub(crate) ttl: Duration,
    /// The runtime of clients in Rust, if it is not the default.
    pub(crate) runtime: Option<Runtime>,
    /// The seed of the random arrival times. It is the number of the round.
    pub(crate) seed: u64,
    pub(crate) peers: &'a Path,
    /// The program of an earlier build, for the contestant `leasehold_before`.
    pub(crate) against: Option<&'a Path>,
    /// A build of the program with metrics and spans on, for the contestant `leasehold_observed`.
    pub(crate) observed: Option<&'a Path>,
    pub(crate) folder: &'a Path,
}

/// The result of one measurement.
pub(crate) struct Outcome {
    /// The records of each process.
    pub(crate) records: Vec<Vec<Record>>,
    pub(crate) reports: Vec<Report>,
    /// Beginning and end of the measured window, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// CPU time of all client processes in the window.
    pub(crate) cpu: Option<Duration>,
    /// CPU time of all servers in the window.
    pub(crate) server_cpu: Option<Duration>,
}

/// Runs one contestant once, in one benchmark.
pub(crate) fn run(who: Contestant, shape: &Clients, setting: &Setting) -> Result<Outcome, String> {
    let plans: Vec<Plan> = (0..shape.processes)
        .map(|number| plan(shape, setting, number))
        .collect();
    let mut clients = Vec::new();
    for plan in &plans {
        clients.push(Client::start(command(who, plan, setting)?)?);
    }
    for client in &clients {
        client.ready()?;
    }
    let start = clock::now() + clock::nanos(LEAD);
    for client in &mut clients {
        client.go(start)?;
    }
    let from = start + clock::nanos(warmup(shape, setting));
    let to = from + clock::nanos(setting.window);
    let (cpu, server_cpu) = cpu_between(&clients, &setting.servers, from, to);
    let limit = clock::until(to) + setting.patience + Duration::from_secs(30);
    let reports: Result<Vec<_>, _> = clients.iter().map(|client| client.report(limit)).collect();
    let reports = reports?;
    // Ends the clients, so that they use no CPU while their files are read.
    drop(clients);
    let records: Result<Vec<_>, String> = plans.iter().map(take_records).collect();
    Ok(Outcome {
        records: records?,
        reports,
        from,
        to,
        cpu,
        server_cpu,
    })
}

/// Returns the time from the start to the measured window. Clients that keep leases take them
/// before they report `ready`. In the warm-up they only read the send time of each lease once, so a
/// short warm-up is enough.
fn warmup(shape: &Clients, setting: &Setting) -> Duration {
    if shape.keeps() {
        setting.ttl / 50
    } else if shape.work == Work::Open {
        OPEN_WARMUP.min(setting.window / 2)
    } else {
        setting.window / 2
    }
}

pub(crate) fn plan(shape: &Clients, setting: &Setting, number: u32) -> Plan {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Plan {
        url: setting.url.clone(),
        work: shape.work,
        tasks: shape.tasks,
        ttl_ms: millis(setting.ttl),
        warmup_ms: millis(warmup(shape, setting)),
        window_ms: millis(setting.window),
        section_ms: shape.section_ms,
        think_ms: shape.think_ms,
        patience_ms: millis(setting.patience),
        file: setting.folder.join(format!("records-{number}")),
        runtime: setting.runtime,
        seed: setting.seed,
    }
}

/// Returns the command of a client: this program, an earlier build of it, or a program in another
/// language.
pub(crate) fn command(who: Contestant, plan: &Plan, setting: &Setting) -> Result<Command, String> {
    let mut command = if let Some(folder) = who.peer() {
        Command::new(peer(setting.peers, folder)?)
    } else if who == Contestant::LeaseholdBefore {
        let before = setting.against.ok_or(
            "there is no earlier build; `scripts/bench --against COMMIT` makes one and names it",
        )?;
        let mut command = Command::new(before);
        command.arg("client").arg(Contestant::Leasehold.to_string());
        command
    } else if who == Contestant::LeaseholdObserved {
        let observed = setting.observed.ok_or(
            "there is no build with metrics and spans; `scripts/bench --observed` makes one and names it",
        )?;
        let mut command = Command::new(observed);
        command.arg("client").arg(who.to_string());
        command
    } else {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(this);
        command.arg("client").arg(who.to_string());
        command
    };
    command.args(plan.arguments());
    Ok(command)
}

/// Returns the program of a peer (a contestant in a separate program), or an error if it is not
/// installed.
fn peer(peers: &Path, folder: &str) -> Result<PathBuf, String> {
    let missing = peers.join(folder).join("not-installed");
    if let Ok(reason) = std::fs::read_to_string(&missing) {
        return Err(reason.trim().to_owned());
    }
    let program = peers.join(folder).join("run");
    if !program.exists() {
        return Err("not installed; `scripts/bench` without `--quick` installs it".to_owned());
    }
    std::path::absolute(&program).map_err(|error| format!("{}: {error}", program.display()))
}

/// Sleeps until the end of the window. Returns the CPU time that clients and servers used in the
/// window.
fn cpu_between(
    clients: &[Client],
    servers: &[u32],
    from: u64,
    to: u64,
) -> (Option<Duration>, Option<Duration>) {
    let of_clients = || clients.iter().map(Client::cpu).sum::<Option<Duration>>();
    let cpu_of = |server: &u32| process::cpu_of_server(*server);
    let of_servers = || servers.iter().map(cpu_of).sum::<Option<Duration>>();
    let between =
        |before: Option<Duration>, after: Option<Duration>| Some(after?.saturating_sub(before?));
    sleep(clock::until(from));
    let before = (of_clients(), of_servers());
    sleep(clock::until(to));
    let after = (of_clients(), of_servers());
    (between(before.0, after.0), between(before.1, after.1))
}

fn take_records(plan: &Plan) -> Result<Vec<Record>, String> {
    if matches!(
        plan.work,
        Work::WeighHeld | Work::WeighWaiting | Work::WeighResults | Work::Open | Work::Pairs
    ) {
        return Ok(Vec::new());
    }
    let records = record::read(&plan.file).map_err(|error| error.to_string());
    let _ = std::fs::remove_file(&plan.file);
    records
}
