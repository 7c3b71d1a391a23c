//! A server that speaks TLS.

use std::fs;
use std::path::Path;

use super::Etcd;
use crate::certificates::{Authority, Identity};
use crate::server::free_port;

/// A port for TLS.
#[derive(Debug)]
pub(super) struct Port {
    port: u16,
    /// The options that name its certificate.
    arguments: Vec<String>,
}

impl Port {
    /// With its files in `folder`.
    fn new(folder: &Path, authority: &Authority, name: &str, asks: bool) -> Self {
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
        Self {
            port: free_port(),
            arguments,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    pub(super) fn arguments(&self) -> impl Iterator<Item = &String> {
        self.arguments.iter()
    }
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
        server.tls = Some(Port::new(server.folder.path(), authority, name, asks));
        let mut servers = Self::started(vec![server]);
        servers.pop().expect("one was started")
    }

    /// The URL of locks under `prefix`, at `host` and the port for TLS.
    ///
    /// # Panics
    ///
    /// When it has no such port.
    pub fn tls_url(&self, host: &str, prefix: &str) -> String {
        let tls = self.tls.as_ref().expect("it speaks TLS");
        format!("etcds://{host}:{}/{prefix}", tls.port)
    }
}
