//! The payment provider, which a test controls. A service stays inside its lock until the provider
//! answers, so the test decides when the body of a handler continues.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::{TcpListener, TcpStream};

use leasehold_tests::wait;

use super::LIMIT;

#[derive(Debug)]
pub(crate) struct Provider {
    listener: TcpListener,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("sockets can be");
        Self { listener }
    }

    pub(crate) fn address(&self) -> String {
        let address = self.listener.local_addr();
        address.expect("it listens").to_string()
    }

    /// Waits until a service requests the charge for this order.
    #[track_caller]
    pub(crate) fn asked_for(&self, order: &str) -> Charge {
        let mut charge = None;
        wait::until("the provider is asked", LIMIT, || {
            charge = self.next();
            charge.is_some()
        });
        let charge = charge.expect("it was asked");
        assert_eq!(charge.order(), order);
        charge
    }

    /// Returns the oldest requested charge that the test has not received yet, or `None` if there
    /// is none.
    pub(crate) fn next(&self) -> Option<Charge> {
        match self.listener.accept() {
            Ok((stream, _)) => Some(Charge::read(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("the provider cannot accept: {error}"),
        }
    }
}

/// A charge without an answer yet.
#[derive(Debug)]
pub(crate) struct Charge {
    order: String,
    stream: TcpStream,
}

impl Charge {
    fn read(stream: TcpStream) -> Self {
        stream.set_nonblocking(false).expect("sockets can be");
        stream
            .set_read_timeout(Some(LIMIT))
            .expect("it is not zero");
        let mut line = String::new();
        let mut reader = BufReader::new(&stream);
        reader.read_line(&mut line).expect("the service asks");
        let order = line.trim_end().to_owned();
        Self { order, stream }
    }

    pub(crate) fn order(&self) -> &str {
        &self.order
    }

    pub(crate) fn pay(self) {
        self.answer("paid\n");
    }

    pub(crate) fn refuse(self) {
        self.answer("refused\n");
    }

    fn answer(mut self, line: &str) {
        let answered = self.stream.write_all(line.as_bytes());
        answered.expect("the service listens to the answer");
    }

    /// Waits until the service has closed the connection. This shows that the body, which waited
    /// for the answer, no longer runs.
    pub(crate) fn wait_until_dropped(self) {
        let mut line = String::new();
        let read = BufReader::new(&self.stream).read_line(&mut line);
        assert_eq!(read.expect("it ends within the limit"), 0);
    }
}
