//! The servers and services that the tests start and stop: Redis, a payment provider, and the
//! services.

pub(crate) mod double_submission;
#[path = "../../../../order_service/tests/harness/http.rs"]
pub(crate) mod http;
pub(crate) mod provider;
pub(crate) mod service;

use std::process::Command;
use std::time::Duration;

use leasehold_tests::server::Server;
use leasehold_tests::wait;

use provider::{Charge, Provider};
use service::{Ended, Service};

/// Time limit for anything that must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Error text of a program that could not connect to its store within a second, because the machine
/// was busy. The next attempt can succeed.
const LATE: &str = "did not answer within 1s";

/// Asserts that the program ended because it could not connect in time on a busy machine.
#[track_caller]
fn too_busy(ended: &Ended) {
    assert!(ended.stderr.contains(LATE), "{ended:?}");
}

/// The servers that a service needs. Each test drops its services before these servers.
pub(crate) struct Surroundings {
    pub(crate) redis: Server,
    pub(crate) provider: Provider,
}

impl Surroundings {
    pub(crate) fn start() -> Self {
        Self {
            redis: Server::start(),
            provider: Provider::start(),
        }
    }

    /// Starts a program, and waits until it listens. Starts it again if it could not connect to
    /// Redis in time.
    pub(crate) fn serve(&self, program: &str) -> Service {
        let mut service = None;
        wait::until("the service listens", LIMIT, || {
            let started = Service::listening(&mut self.command(program, &[]));
            service = started.map_err(|ended| too_busy(&ended)).ok();
            service.is_some()
        });
        service.expect("it listens")
    }

    /// Starts a program, and waits until it requests its first charge, which must be for `order`.
    /// Starts it again if it could not connect to Redis in time.
    pub(crate) fn run_to_charge(
        &self,
        program: &str,
        arguments: &[&str],
        order: &str,
    ) -> (Service, Charge) {
        let mut service = Service::start(&mut self.command(program, arguments));
        let mut charge = None;
        wait::until("the provider is asked", LIMIT, || {
            charge = self.provider.next();
            if charge.is_none() && service.has_ended() {
                let again = Service::start(&mut self.command(program, arguments));
                too_busy(&std::mem::replace(&mut service, again).wait());
            }
            charge.is_some()
        });
        let charge = charge.expect("it was asked");
        assert_eq!(charge.order(), order);
        (service, charge)
    }

    /// Runs a program to its end. Runs it again if it could not connect to Redis in time.
    pub(crate) fn run_to_end(&self, program: &str, arguments: &[&str]) -> Ended {
        let mut last = None;
        wait::until("it can connect", LIMIT, || {
            let ended = Service::start(&mut self.command(program, arguments)).wait();
            let could = !ended.stderr.contains(LATE);
            last = Some(ended);
            could
        });
        last.expect("it has ended")
    }

    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("LEASEHOLD_URL", self.redis.url())
            .env_remove("LEASEHOLD_NAMESPACE")
            .env_remove("LEASEHOLD_WAIT")
            .env("LISTEN", "127.0.0.1:0")
            .env("PAYMENT_PROVIDER", self.provider.address());
        command
    }
}
