//! TLS for clients: the server's certificate and key, and the channel binding of its
//! connections.
//!
//! rustls implements the protocol, with ring for the cryptography. A handshake is TLS 1.3
//! or 1.2; the server asks for no client certificates, because clients authenticate by
//! SCRAM, which is bound to the server's certificate where the client supports that.
//!
//! Sources: RFC 5929, section 4 (tls-server-end-point).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// An error in the certificate or key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not what it should be.
    #[error("{}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The certificate and the key do not match, or the server does not support them.
    #[error("the TLS certificate and key cannot be used: {0}")]
    Configuration(#[from] rustls::Error),
}

/// The TLS configuration for client connections.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// The value that SCRAM binds to: a hash of the server's certificate; `None` when its
    /// signature uses a hash that the server does not support.
    pub(crate) binding: Option<Arc<[u8]>>,
}

impl Tls {
    /// Reads a certificate (with its chain) and its key.
    pub(crate) async fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let refuse = |path: &Path, reason: String| TlsError::File {
            path: path.to_owned(),
            reason,
        };
        let bytes = |path: PathBuf| async move {
            let read = coeval_env::fs::read(&path).await;
            read.map_err(|error| refuse(&path, error.to_string()))
        };
        let pem = bytes(certificate.to_owned()).await?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let chain = chain.map_err(|error| refuse(certificate, error.to_string()))?;
        let Some(own) = chain.first() else {
            let none = "there is no certificate in it".to_owned();
            return Err(refuse(certificate, none));
        };
        let binding = end_point(own).map(Arc::from);
        let pem = bytes(key.to_owned()).await?;
        let private = PrivateKeyDer::from_pem_slice(&pem);
        let private = private.map_err(|error| refuse(key, error.to_string()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, private)?;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            binding,
        })
    }
}

/// The channel binding `tls-server-end-point` of a certificate in DER: its hash, by the
/// hash function of its own signature, or by SHA-256 where that is weaker. `None` when
/// the server does not support the hash of the signature.
pub fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = match signature_hash(certificate)? {
        Hash::Sha256 => &digest::SHA256,
        Hash::Sha384 => &digest::SHA384,
        Hash::Sha512 => &digest::SHA512,
    };
    Some(digest::digest(algorithm, certificate).as_ref().to_vec())
}

/// Hash functions of certificate signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// Object identifiers of signature algorithms, and the hash that the binding uses. Those
/// with MD5 and SHA-1 use SHA-256. Ed25519 has no separate hash, and RSASSA-PSS names its
/// hash in parameters; certificates signed with these have no binding.
const SIGNATURES: [(&[u8], Hash); 8] = [
    // 1.2.840.113549.1.1: with RSA, MD5 (4), SHA-1 (5), SHA-256 (11), SHA-384, SHA-512.
    (&[42, 134, 72, 134, 247, 13, 1, 1, 4], Hash::Sha256),
    (&[42, 134, 72, 134, 247, 13, 1, 1, 5], Hash::Sha256),
    (&[42, 134, 72, 134, 247, 13, 1, 1, 11], Hash::Sha256),
    (&[42, 134, 72, 134, 247, 13, 1, 1, 12], Hash::Sha384),
    (&[42, 134, 72, 134, 247, 13, 1, 1, 13], Hash::Sha512),
    // 1.2.840.10045.4.3: with ECDSA, SHA-256 (2), SHA-384, SHA-512.
    (&[42, 134, 72, 206, 61, 4, 3, 2], Hash::Sha256),
    (&[42, 134, 72, 206, 61, 4, 3, 3], Hash::Sha384),
    (&[42, 134, 72, 206, 61, 4, 3, 4], Hash::Sha512),
];

/// Finds the signature's hash in a certificate: its second element names the algorithm.
///
/// ```text
///   SEQUENCE { SEQUENCE { to be signed }  SEQUENCE { OID, parameters }  BIT STRING }
/// ```
fn signature_hash(certificate: &[u8]) -> Option<Hash> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    let (parts, _) = element(certificate, SEQUENCE)?;
    let (_, rest) = element(parts, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    let (identifier, _) = element(algorithm, OBJECT_IDENTIFIER)?;
    let mut known = SIGNATURES.iter();
    let found = known.find(|(known, _)| *known == identifier);
    found.map(|(_, hash)| *hash)
}

/// The contents of the DER element at the beginning, and the bytes after it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = bytes.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // The low bits give the number of length bytes that follow.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits
                .iter()
                .fold(0, |all, &digit| all << 8 | usize::from(digit));
            (length, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_certificate_is_signed_with() {
        let certificate = |oid: &[u8]| {
            let algorithm = [&[6, oid.len() as u8], oid, &[5, 0]].concat();
            let algorithm = [&[0x30, algorithm.len() as u8][..], &algorithm].concat();
            let body = [&[0x30, 0x81, 130][..], &[7; 130]].concat();
            let parts = [&body[..], &algorithm, &[3, 1, 0]].concat();
            [&[0x30, 0x82, 0, parts.len() as u8][..], &parts].concat()
        };
        for (oid, hash) in SIGNATURES {
            let certificate = certificate(oid);
            assert_eq!(signature_hash(&certificate), Some(hash));
            for end in 0..certificate.len() - 3 {
                assert_eq!(signature_hash(&certificate[..end]), None);
            }
        }
        // Ed25519 has no hash to bind to.
        assert_eq!(signature_hash(&certificate(&[43, 101, 112])), None);
        assert_eq!(signature_hash(b"\x30\x84\xff\xff\xff\xff"), None);
        assert_eq!(signature_hash(b"\x30\x80"), None);
    }
}
