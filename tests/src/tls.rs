//! A server that speaks TLS, and certificates for both ends.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::server::{Folder, Server, ServerOptions};

/// A certificate authority of the test's own.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as the contents of PEM files.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    ///
    /// When no key can be made.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("no names are fine");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("it signs itself");
        Self {
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// The authority's own certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for `name`, a host name or an address.
    ///
    /// # Panics
    ///
    /// When `name` is neither.
    pub fn issue(&self, name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        // Without a name of its own the certificate would look like its authority's.
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).expect("it signs");
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A server with one port for TLS and one without.
#[derive(Debug)]
pub struct TlsServer {
    /// The server.
    pub server: Server,
    _certificates: Certificates,
}

/// The files of a server or a Sentinel: its certificate, its key, and the authority that it trusts.
#[derive(Debug)]
pub struct Certificates {
    /// The paths of certificate, key and authority.
    paths: [String; 3],
    /// `yes` if clients must have a certificate of the same authority, else `no`.
    auth_clients: String,
    _folder: Folder,
}

impl Certificates {
    /// A certificate of `authority` for `name`; clients must have one, too.
    ///
    /// # Panics
    ///
    /// When a file cannot be written.
    pub fn new(authority: &Authority, name: &str) -> Self {
        let folder = Folder::new();
        let identity = authority.issue(name);
        let write = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::write(&path, content).expect("a file can be written");
            path.to_str().expect("a path of ASCII").to_owned()
        };
        Self {
            paths: [
                write("cert", &identity.certificate),
                write("key", &identity.key),
                write("ca", authority.pem()),
            ],
            auth_clients: "yes".to_owned(),
            _folder: folder,
        }
    }

    /// The lines of a configuration.
    pub(crate) fn settings(&self, port: u16) -> [(&'static str, String); 5] {
        let [certificate, key, authority] = self.paths.clone();
        [
            ("tls-port", port.to_string()),
            ("tls-cert-file", certificate),
            ("tls-key-file", key),
            ("tls-ca-cert-file", authority),
            ("tls-auth-clients", self.auth_clients.clone()),
        ]
    }
}

impl TlsServer {
    /// A server with a certificate of `authority` for `name`.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn start(authority: &Authority, name: &str) -> Self {
        Self::start_with(authority, name, ServerOptions::new())
    }

    /// The same, with further options.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn start_with(authority: &Authority, name: &str, options: ServerOptions) -> Self {
        Self::with(authority, name, "no", options)
    }

    /// Starts a server that takes only clients with a certificate of the same authority.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn start_for_clients_with_certificates(authority: &Authority, name: &str) -> Self {
        Self::with(authority, name, "yes", ServerOptions::new())
    }

    fn with(authority: &Authority, name: &str, auth_clients: &str, options: ServerOptions) -> Self {
        let certificates = Certificates {
            auth_clients: auth_clients.to_owned(),
            ..Certificates::new(authority, name)
        };
        Self {
            server: options.tls(&certificates).start(),
            _certificates: certificates,
        }
    }

    /// `rediss://…` by this name or address.
    pub fn url(&self, host: &str) -> String {
        format!("rediss://{host}:{}/", self.port())
    }

    /// The port for TLS.
    pub fn port(&self) -> u16 {
        self.server.announced_port()
    }
}
