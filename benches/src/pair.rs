//! The cost of a pair (the acquire and the release of a lock), counted as instructions and
//! allocations of the client. A busy machine does not change these figures.
//!
//! Valgrind runs a client twice for each count: with few pairs and with many pairs. The difference
//! of the two counts is the cost of the additional pairs, without the cost of the start of the
//! process.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::clock;
use crate::contestants::{Contestant, Fault};
use crate::crew::{self, Setting};
use crate::figures::Figures;
use crate::plan::Work;
use crate::process::Client;
use crate::row::{Clients, Engine};

/// Number of pairs in the short run. It is enough for the client to create everything that it
/// creates only once.
const FEW: u32 = 500;
const MANY: u32 = 1_500;

/// Time limit for a client. It is long, because a client under valgrind is slow.
const LIMIT: Duration = Duration::from_mins(2);

/// One task that takes and releases a lock that no other task uses.
pub(crate) const SHAPE: Clients = Clients {
    work: Work::Pairs,
    masters: 1,
    engine: Engine::Redis,
    processes: 1,
    tasks: MANY,
    section_ms: 0,
    think_ms: 0,
    window_ms: 0,
};

/// Returns the instructions and allocations of a pair.
pub(crate) fn count(who: Contestant, setting: &Setting) -> Result<Figures, Fault> {
    let of_one = |counter: Counter| {
        let count = |pairs| counter.count(who, pairs, setting);
        let pairs = f64::from(MANY - FEW);
        Ok::<_, Fault>((count(MANY)? - count(FEW)?) / pairs)
    };
    Ok(Figures::from([
        ("instructions", of_one(Counter::Instructions)?),
        ("allocations", of_one(Counter::Allocations)?),
    ]))
}

/// A counting tool of valgrind.
#[derive(Debug, Clone, Copy)]
enum Counter {
    Instructions,
    Allocations,
}

impl Counter {
    /// Returns the number of instructions or allocations of a whole client process that runs
    /// `pairs` pairs.
    fn count(self, who: Contestant, pairs: u32, setting: &Setting) -> Result<f64, Fault> {
        let shape = Clients {
            tasks: pairs,
            ..SHAPE
        };
        let counted = setting.folder.join("valgrind");
        let client = crew::command(who, &crew::plan(&shape, setting, 0), setting)?;
        let mut command = Command::new("valgrind");
        command.args(self.options(&counted));
        command.arg(client.get_program()).args(client.get_args());
        let mut client = Client::start(command)?;
        client.ready()?;
        client.go(clock::now())?;
        let report = client.report(LIMIT)?;
        if let Some(error) = report.errors.first() {
            return Err(error.clone().into());
        }
        client.ended(LIMIT)?;
        self.read(&counted)
    }

    fn options(self, file: &Path) -> Vec<String> {
        let file = file.display();
        match self {
            Self::Instructions => vec![
                "--tool=callgrind".to_owned(),
                format!("--callgrind-out-file={file}"),
            ],
            Self::Allocations => vec!["--leak-check=no".to_owned(), format!("--log-file={file}")],
        }
    }

    /// Returns the count in the tool's report.
    fn read(self, file: &Path) -> Result<f64, Fault> {
        let text = std::fs::read_to_string(file)?;
        let mark = match self {
            Self::Instructions => "totals: ",
            Self::Allocations => "total heap usage: ",
        };
        let count = text.split_once(mark).and_then(|(_, rest)| {
            let count = rest.split(|c: char| c != ',' && !c.is_ascii_digit()).next();
            count?.replace(',', "").parse().ok()
        });
        count.ok_or_else(|| format!("valgrind reports no count: {text}").into())
    }
}
