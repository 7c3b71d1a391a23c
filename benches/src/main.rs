//! Measures leasehold against hand-written Redis code and against other lock libraries (peers).
//! `scripts/bench` runs this program.
//!
//! | module | contents |
//! |---|---|
//! | `row`, `setup`, `entry` | the benchmarks (rows), their conditions, the selection for a run |
//! | `stage`, `delay`, `engines` | servers, the network to them, and busy processes |
//! | `contestants` | the contestants; those in other languages are in `benches/peers` |
//! | `client`, `plan`, `record` | a client process, its arguments, its records |
//! | `observed` | a recorder of metrics and a subscriber of spans, like those of a service |
//! | `process`, `crew`, `harness` | one client process, the clients of one measurement, the run |
//! | `overlap`, `figures` | the evaluation of the records |
//! | `overhead` | times without a server |
//! | `pair` | instructions and allocations, counted instead of times |
//! | `sheet`, `measure`, `table` | rounds, their median and spread, Markdown |
//! | `report`, `targets`, `bound`, `plot`, `machine` | the page docs/performance/results.md |

mod args;
mod bound;
mod client;
mod clock;
mod contestants;
mod crew;
mod delay;
#[cfg(feature = "engines")]
mod engines;
#[cfg(not(feature = "engines"))]
#[path = "no_engines.rs"]
mod engines;
mod entry;
mod figures;
mod harness;
mod machine;
mod measure;
mod observed;
mod overhead;
mod overlap;
mod pace;
mod pair;
mod plan;
mod plot;
mod process;
mod record;
mod report;
mod row;
mod rows;
mod setup;
mod sheet;
mod stage;
mod table;
mod targets;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use crate::args::{Arguments, Command, RunArguments};
use crate::contestants::Fault;
use crate::harness::Harness;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        None => run(&arguments.run),
        Some(Command::Report {
            section,
            files,
            page,
        }) => report::write(section, &files, &page),
        Some(Command::Busy) => stage::busy(),
        Some(Command::Delay { target, micros }) => {
            delay::main(target, Duration::from_micros(micros))
        }
        Some(Command::Client { contestant, plan }) => client::main(contestant, &plan),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &RunArguments) -> Result<(), Fault> {
    let rows = entry::chosen(&arguments.rows, arguments.pace())?;
    let harness = Harness::new(arguments)?;
    let mut measures = Vec::new();
    for entry in &rows {
        measures.extend(harness.run(entry)?);
        // The results are written after each benchmark, so that an interrupted run keeps those of
        // the completed benchmarks.
        if let Some(path) = &arguments.json {
            measure::write(path, &measures)?;
        }
    }
    let (wanted, pace) = (&arguments.contestants, arguments.pace());
    let broken = harness::broken(&rows, wanted, pace, arguments.rounds(), &measures);
    if broken.is_empty() {
        return Ok(());
    }
    Err(broken.join("\n").into())
}
