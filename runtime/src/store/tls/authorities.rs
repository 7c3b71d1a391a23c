//! The authorities that a pool trusts to certify servers.

use std::io;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::Tls;

impl Tls {
    /// Returns the authorities set on the builder, or the system's authorities if none are set.
    pub(crate) fn authorities(&self) -> io::Result<RootCertStore> {
        let mut store = RootCertStore::empty();
        let Some(ca) = &self.ca else {
            let mut system = rustls_native_certs::load_native_certs();
            if let Some(error) = system.errors.pop() {
                return Err(io::Error::other(error));
            }
            for certificate in system.certs {
                store.add(certificate).map_err(io::Error::other)?;
            }
            return Ok(store);
        };
        for certificate in CertificateDer::pem_slice_iter(ca) {
            let certificate = certificate.map_err(io::Error::other)?;
            store.add(certificate).map_err(io::Error::other)?;
        }
        Ok(store)
    }
}
