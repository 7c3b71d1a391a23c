//! The certificates that a pool trusts and presents, for every store with TLS.

use std::fmt;
#[cfg(feature = "tls")]
use std::sync::Arc;
#[cfg(all(feature = "tls", any(feature = "redis", feature = "postgres")))]
use std::{io, sync::OnceLock};

#[cfg(feature = "tls")]
use rustls::ClientConfig;

use crate::error::LockError;

#[cfg(all(
    feature = "tls",
    any(feature = "redis", feature = "postgres", feature = "etcd")
))]
mod authorities;
#[cfg(all(feature = "tls", any(feature = "redis", feature = "postgres")))]
mod config;
#[cfg(all(feature = "tls", any(feature = "redis", feature = "postgres")))]
pub(crate) use self::config::Proof;

#[cfg(feature = "tls")]
type Given = Arc<ClientConfig>;
#[cfg(not(feature = "tls"))]
type Given = std::convert::Infallible;

/// The trusted authorities and the pool's own certificate, as set on the builder. `Debug` shows
/// neither.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    /// PEM of the authorities that are trusted instead of the system's.
    pub(crate) ca: Option<Vec<u8>>,
    /// PEM of the pool's certificate, and PEM of its private key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
    /// The program's own rustls configuration, instead of `ca` and `client`.
    pub(crate) given: Option<Given>,
    /// The TLS configuration. The first connection builds it, and later connections reuse it,
    /// because reading the system's authorities takes long. A pool that is not lazy opens its first
    /// connection before it has an engine, so its engine never waits for this reading.
    #[cfg(all(feature = "tls", any(feature = "redis", feature = "postgres")))]
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Tls {
    pub(crate) fn is_default(&self) -> bool {
        !self.is_given() && self.has_no_certificates()
    }

    /// True if the program has configured rustls.
    pub(crate) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    fn has_no_certificates(&self) -> bool {
        self.ca.is_none() && self.client.is_none()
    }

    /// Fails if certificates or a rustls configuration are set. Called for a store without TLS,
    /// where the user would rely on a protection that does not exist.
    pub(crate) fn refuse(&self) -> Result<(), LockError> {
        if self.is_default() {
            return Ok(());
        }
        Err(LockError::config(
            "`tls`, `tls_ca` and `tls_client` work with `rediss://`, `rediss-sentinel://`, \
             `rediss-cluster://`, `etcds://`, and `postgres://` with an `sslmode` only; change the \
             URL, or leave them out",
        ))
    }
}

#[cfg(all(
    feature = "tls",
    any(feature = "redis", feature = "postgres", feature = "etcd")
))]
impl Tls {
    /// Fails if a certificate cannot be read as PEM, or if both certificates and a rustls
    /// configuration are set.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        if self.is_given() && !self.has_no_certificates() {
            return Err(LockError::config(
                "`tls` replaces `tls_ca` and `tls_client`; put the certificates into the \
                 configuration for `tls`, or leave `tls` out",
            ));
        }
        let client = self.client.as_ref().map(|pair| &pair.0);
        for (what, pem) in [("tls_ca", self.ca.as_ref()), ("tls_client", client)] {
            if pem.is_some_and(|pem| !is_certificate(pem)) {
                return Err(misread(what));
            }
        }
        Ok(())
    }
}

#[cfg(any(feature = "redis", feature = "postgres"))]
impl Tls {
    /// Returns a copy that builds a separate configuration, so that it can demand another `Proof`
    /// of identity from the server. A plain clone shares the configuration of its original.
    pub(crate) fn afresh(&self) -> Self {
        Self {
            #[cfg(all(feature = "tls", any(feature = "redis", feature = "postgres")))]
            config: Arc::default(),
            ..self.clone()
        }
    }
}

#[cfg(all(feature = "tls", any(feature = "redis", feature = "postgres")))]
impl Tls {
    /// Returns the TLS configuration for all connections. The first call builds this configuration,
    /// so a store must pass the same `proof` each time.
    pub(crate) fn config(&self, proof: Proof) -> io::Result<Arc<ClientConfig>> {
        if let Some(given) = &self.given {
            return Ok(Arc::clone(given));
        }
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(config::make(self, proof)?);
        Ok(Arc::clone(self.config.get_or_init(|| config)))
    }
}

/// True if `pem` contains a certificate. With a `pem` without certificates, the pool would trust no
/// server.
#[cfg(all(
    feature = "tls",
    any(feature = "redis", feature = "postgres", feature = "etcd")
))]
fn is_certificate(pem: &[u8]) -> bool {
    let begin = b"-----BEGIN CERTIFICATE-----";
    pem.windows(begin.len()).any(|part| part == begin)
}

#[cfg(all(
    feature = "tls",
    any(feature = "redis", feature = "postgres", feature = "etcd")
))]
pub(crate) fn misread(what: &str) -> LockError {
    LockError::config(format!(
        "the value of `{what}` cannot be read; it must be the content of PEM files, as text with \
         `-----BEGIN …-----` lines"
    ))
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
