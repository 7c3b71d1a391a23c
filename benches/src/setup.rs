//! The conditions of a benchmark: the runtime of the client, the network to the server, and other
//! work on the machine.

use clap::ValueEnum;

/// The client's tokio runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Runtime {
    /// Two worker threads.
    MultiThread,
    /// Only the client's main thread.
    CurrentThread,
}

/// The network between client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Loopback,
    /// A process that forwards each byte, in both directions, a quarter of a millisecond later.
    Delayed,
}

/// Other work on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    Nothing,
    /// Two processes that compute without a pause.
    Busy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) runtime: Runtime,
    pub(crate) network: Network,
    pub(crate) beside: Beside,
}

use Beside::{Busy, Nothing};
use Network::{Delayed, Loopback};
use Runtime::{CurrentThread, MultiThread};

/// All eight combinations of runtime, network, and idle or busy machine.
pub(crate) const EVERY: &[Setup] = &[
    setup(MultiThread, Loopback, Nothing),
    setup(CurrentThread, Loopback, Nothing),
    setup(MultiThread, Delayed, Nothing),
    setup(CurrentThread, Delayed, Nothing),
    setup(MultiThread, Loopback, Busy),
    setup(CurrentThread, Loopback, Busy),
    setup(MultiThread, Delayed, Busy),
    setup(CurrentThread, Delayed, Busy),
];

/// Both runtimes on loopback, on an idle and on a busy machine.
pub(crate) const ON_LOOPBACK: &[Setup] = &[
    setup(MultiThread, Loopback, Nothing),
    setup(CurrentThread, Loopback, Nothing),
    setup(MultiThread, Loopback, Busy),
    setup(CurrentThread, Loopback, Busy),
];

const fn setup(runtime: Runtime, network: Network, beside: Beside) -> Setup {
    Setup {
        runtime,
        network,
        beside,
    }
}

impl Runtime {
    /// Returns the name that the command line and the results use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MultiThread => "multi_thread",
            CurrentThread => "current_thread",
        }
    }
}

impl Setup {
    /// Returns three words, one for each part of the setup. Together with the benchmark's name,
    /// these words identify the results.
    pub(crate) fn words(self) -> [&'static str; 3] {
        let network = match self.network {
            Loopback => "loopback",
            Delayed => "delayed",
        };
        let beside = match self.beside {
            Nothing => "quiet",
            Busy => "busy",
        };
        [self.runtime.name(), network, beside]
    }
}
