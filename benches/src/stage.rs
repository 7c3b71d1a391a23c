//! The environment of a benchmark: its servers, the network to them, and the processes that keep
//! the machine busy.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_tests::process::Leashed;
use leasehold_tests::quorum::Quorum;
use leasehold_tests::server::Server;

use crate::contestants::Fault;
use crate::engines::Other;
use crate::row::Clients;
use crate::setup::{Beside, Network, Setup};

/// The delay of the network in each direction.
const DELAY: Duration = Duration::from_micros(250);
/// Number of processes that compute during a measurement, in a busy setup.
const BUSY: usize = 2;

/// The servers and processes of a benchmark. Dropping the stage ends all of them.
pub(crate) struct Stage {
    servers: Quorum,
    url: String,
    other: Option<Other>,
    /// Processes that run until the stage is dropped.
    helpers: Vec<Leashed>,
}

impl Stage {
    /// Starts the stage. The servers of a quorum have run for longer than `older_than`, the longest
    /// lease, because leasehold lets no younger server vote.
    pub(crate) fn start(
        shape: &Clients,
        setup: Option<Setup>,
        older_than: Duration,
    ) -> Result<Self, Fault> {
        let servers = if shape.masters > 1 {
            Quorum::older_than(shape.masters, older_than)
        } else {
            Quorum::young(1)
        };
        let mut urls: Vec<String> = servers.servers.iter().map(Server::url).collect();
        let other = Other::start(shape.engine)?.map(|(server, url)| {
            urls.insert(0, url);
            server
        });
        let mut stage = Self {
            url: urls.join(","),
            servers,
            other,
            helpers: Vec::new(),
        };
        if let Some(setup) = setup {
            stage.add(setup)?;
        }
        Ok(stage)
    }

    fn add(&mut self, setup: Setup) -> Result<(), Fault> {
        if setup.network == Network::Delayed {
            let (helper, address) = delay(self.servers.servers[0].address())?;
            self.url = format!("redis://{address}/");
            self.helpers.push(helper);
        }
        if setup.beside == Beside::Busy {
            for _ in 0..BUSY {
                self.helpers.push(helper(&["busy"], Stdio::null())?);
            }
        }
        Ok(())
    }

    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers.servers
    }

    /// Returns the process ids of all servers.
    pub(crate) fn server_ids(&self) -> Vec<u32> {
        let other = self.other.iter().map(Other::id);
        self.servers().iter().map(Server::id).chain(other).collect()
    }

    /// Returns the URL for clients. The URLs of several servers are separated by commas.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// Starts a process that forwards to `target` with a delay. Returns its address.
fn delay(target: SocketAddr) -> Result<(Leashed, SocketAddr), Fault> {
    let micros = DELAY.as_micros().to_string();
    let mut helper = helper(&["delay", &target.to_string(), &micros], Stdio::piped())?;
    let output = helper.child().stdout.take().ok_or("a helper has no pipe")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let address = line.trim().parse();
    let address = address.map_err(|_| format!("the delay printed {line:?} and no address"))?;
    Ok((helper, address))
}

/// Starts this program with another subcommand.
fn helper(arguments: &[&str], output: Stdio) -> Result<Leashed, Fault> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::null()).stdout(output);
    Ok(Leashed::new(command.spawn()?, None))
}

/// Computes until it is killed.
pub(crate) fn busy() -> ! {
    let mut number = 1_u64;
    loop {
        number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005));
    }
}
