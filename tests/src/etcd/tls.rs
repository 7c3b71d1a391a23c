//! An etcd server with TLS.

use std::fs;
use std::path::Path;

use super::Etcd;
use crate::certificates::{Authority, Identity};
use crate::server::free_port;

/// Writes a certificate to `folder`, and returns the command-line options for it. With `asks`, the
/// options also require a certificate from each client.
fn options(folder: &Path, authority: &Authority, name: &str, asks: bool) -> Vec<String> {
    let Identity { certificate, key } = authority.issue(name);
    let write = |name: &str, content: &str| {
        let path = folder.join(name);
        fs::write(&path, content).expect("a file can be written");
        path.display().to_string()
    };
    let mut arguments = vec![
        format!("--cert-file={}", write("cert", &certificate)),
        format!("--key-file={}", write("key", &key)),
    ];
    if asks {
        let trusted = write("ca", authority.pem());
        arguments.push(format!("--trusted-ca-file={trusted}"));
        arguments.push("--client-cert-auth".to_owned());
    }
    arguments
}

impl Etcd {
    /// Starts a server with an additional port for TLS, and a certificate of `authority` for
    /// `name`. With `asks`, each client of that port must present a certificate of the same
    /// authority.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    pub fn with_tls(authority: &Authority, name: &str, asks: bool) -> Self {
        let mut server = Self::member(0);
        server.tls = Some(free_port());
        server.arguments = options(server.folder.path(), authority, name, asks);
        let mut servers = Self::started(vec![server]);
        servers.pop().expect("one was started")
    }

    /// The URL of locks under `prefix`, at `host` and the port for TLS.
    ///
    /// # Panics
    ///
    /// Panics if the server has no port for TLS.
    pub fn tls_url(&self, host: &str, prefix: &str) -> String {
        let port = self.tls.expect("it speaks TLS");
        format!("etcds://{host}:{port}/{prefix}")
    }
}
