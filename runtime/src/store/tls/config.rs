//! Configures rustls for the proof of identity that a server must give.

use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::Tls;

/// Proof of identity that a server must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// An authority that the pool trusts has certified the server's name.
    Name,
    /// A trusted authority has certified the server, under any name.
    Chain,
    /// No proof: the connection is encrypted, but any server is accepted.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "PostgreSQL's sslmode")
    )]
    Nothing,
}

pub(super) fn make(tls: &Tls, proof: Proof) -> io::Result<ClientConfig> {
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let config = config.with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?;
    let authorities = || tls.authorities().map(Arc::new);
    let config = match proof {
        Proof::Name => config.with_root_certificates(authorities()?),
        Proof::Chain | Proof::Nothing => {
            let chain = if proof == Proof::Chain {
                let chain = WebPkiServerVerifier::builder_with_provider(
                    authorities()?,
                    Arc::clone(&provider),
                );
                Some(chain.build().map_err(io::Error::other)?)
            } else {
                None
            };
            let verifier = Lenient { chain, provider };
            config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    let Some((certificate, key)) = &tls.client else {
        return Ok(config.with_no_client_auth());
    };
    let certificates = CertificateDer::pem_slice_iter(certificate);
    let certificates = certificates.collect::<Result<_, _>>();
    let certificates = certificates.map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(io::Error::other)?;
    let config = config.with_client_auth_cert(certificates, key);
    config.map_err(io::Error::other)
}

/// Verifier of certificates that ignores the server's name.
#[derive(Debug)]
struct Lenient {
    /// Verifier of the chain from the certificate to a trusted authority. `None` accepts any
    /// certificate.
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        // The verifier checks the name last. So an error about the name means that the certificate
        // is otherwise valid.
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
