//! A Redis server with TLS.

use crate::certificates::{Authority, Certificates};
use crate::server::{Server, ServerOptions};

/// A server with one port for TLS and one without.
#[derive(Debug)]
pub struct TlsServer {
    /// The server.
    pub server: Server,
    _certificates: Certificates,
}

impl TlsServer {
    /// Starts a server with a certificate of `authority` for `name`.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    pub fn start(authority: &Authority, name: &str) -> Self {
        Self::start_with(authority, name, ServerOptions::new())
    }

    /// Like `start`, but with further options.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    pub fn start_with(authority: &Authority, name: &str, options: ServerOptions) -> Self {
        Self::with(authority, name, "no", options)
    }

    /// Starts a server that accepts only clients with a certificate of `authority`.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    pub fn start_for_clients_with_certificates(authority: &Authority, name: &str) -> Self {
        Self::with(authority, name, "yes", ServerOptions::new())
    }

    fn with(authority: &Authority, name: &str, auth_clients: &str, options: ServerOptions) -> Self {
        let certificates = Certificates::new(authority, name).auth_clients(auth_clients);
        Self {
            server: options.tls(&certificates).start(),
            _certificates: certificates,
        }
    }

    /// The URL (`rediss://…`) of the port for TLS. `host` is a name or an address.
    pub fn url(&self, host: &str) -> String {
        format!("rediss://{host}:{}/", self.port())
    }

    /// The port for TLS.
    pub fn port(&self) -> u16 {
        self.server.announced_port()
    }
}
