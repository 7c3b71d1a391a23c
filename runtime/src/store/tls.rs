//! The certificates that a pool trusts and shows, for every store that speaks TLS.

use std::fmt;
#[cfg(any(feature = "redis", feature = "postgres"))]
use std::{io, sync::Arc, sync::OnceLock};

#[cfg(any(feature = "redis", feature = "postgres"))]
use rustls::ClientConfig;

use crate::error::LockError;

#[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
mod authorities;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod config;
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) use self::config::Proof;

/// The authorities to trust and the certificate to show, from the builder. `Debug` shows none of
/// them.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    /// Trusted instead of the system's authorities.
    pub(crate) ca: Option<Vec<u8>>,
    /// Certificate and key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
    /// Made by the first connection, which a pool opens before it has an engine, because reading
    /// the system's authorities takes long. The certificates do not change from then on.
    #[cfg(any(feature = "redis", feature = "postgres"))]
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Tls {
    pub(crate) fn is_default(&self) -> bool {
        self.ca.is_none() && self.client.is_none()
    }

    /// Refuses certificates for a store without TLS: with them the user would believe in a
    /// protection that is not there.
    pub(crate) fn refuse(&self) -> Result<(), LockError> {
        if self.is_default() {
            return Ok(());
        }
        Err(LockError::config(
            "`tls_ca` and `tls_client` work with `rediss://`, `rediss-sentinel://`, `rediss-cluster://`, `etcds://`, and \
             `postgres://` with an `sslmode` only; change the URL, or leave them out",
        ))
    }
}

#[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
impl Tls {
    /// Refuses what cannot be read as PEM.
    pub(crate) fn check(&self) -> Result<(), LockError> {
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
    /// The same certificates, without the configuration that was made of the certificates of a
    /// clone.
    pub(crate) fn afresh(&self) -> Self {
        Self {
            config: Arc::default(),
            ..self.clone()
        }
    }

    /// The configuration of all connections; a store asks for the same `proof` each time.
    pub(crate) fn config(&self, proof: Proof) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(config::make(self, proof)?);
        Ok(Arc::clone(self.config.get_or_init(|| config)))
    }
}

/// Whether `pem` has a certificate. Of a text without one an authority is made that trusts no
/// server.
#[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
fn is_certificate(pem: &[u8]) -> bool {
    let begin = b"-----BEGIN CERTIFICATE-----";
    pem.windows(begin.len()).any(|part| part == begin)
}

#[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
pub(crate) fn misread(what: &str) -> LockError {
    LockError::config(format!(
        "what was given to `{what}` cannot be read; it takes the content of PEM files, as text that has `-----BEGIN …-----` lines"
    ))
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
