//! A server that speaks TLS.

use std::fs;
use std::path::Path;

use super::Etcd;
use crate::certificates::{Authority, Identity};
use crate::server::free_port;

/// The options that name a certificate, whose files are in `folder`.
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
    /// A server with a port for TLS as well, with a certificate of `authority` for `name`. With
    /// `asks` every client there must show a certificate of the same authority.
    ///
    /// # Panics
    ///
    /// When it does not start.
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
    /// When it has no such port.
    pub fn tls_url(&self, host: &str, prefix: &str) -> String {
        let port = self.tls.expect("it speaks TLS");
        format!("etcds://{host}:{port}/{prefix}")
    }
}
