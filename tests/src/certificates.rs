//! TLS certificates for servers and clients, and the authority that issues them.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::folder::Folder;

/// A certificate authority for one test.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, as the contents of PEM files.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key.
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
    /// Makes a new authority.
    ///
    /// # Panics
    ///
    /// Panics if no key can be made.
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

    /// Returns the authority's own certificate, as the content of a PEM file.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for `name`, a host name or an address.
    ///
    /// # Panics
    ///
    /// Panics if `name` is neither.
    pub fn issue(&self, name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        // The subject of the authority is empty. If the subject of this certificate were also
        // empty, it would equal the issuer, and the certificate would look self-signed.
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).expect("it signs");
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// The TLS files of a Redis server or a Sentinel: its certificate, its private key, and the
/// certificate of the trusted authority.
#[derive(Debug)]
pub struct Certificates {
    /// The paths of certificate, key and authority.
    paths: [String; 3],
    /// The setting `tls-auth-clients`: `yes` if clients must have a certificate of the same
    /// authority, otherwise `no`.
    auth_clients: String,
    _folder: Folder,
}

impl Certificates {
    /// Issues a certificate for `name`, and writes the files. A server with these files also
    /// requires a certificate from its clients, unless `auth_clients` changes this.
    ///
    /// # Panics
    ///
    /// Panics if a file cannot be written.
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

    /// Sets `tls-auth-clients`: `yes` if clients must have a certificate, otherwise `no`.
    pub(crate) fn auth_clients(self, auth_clients: &str) -> Self {
        Self {
            auth_clients: auth_clients.to_owned(),
            ..self
        }
    }

    /// Returns the TLS settings for a server's configuration, each a name and a value. `port` is
    /// the server's port for TLS.
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
