//! TLS for the client commands: connects tokio-postgres to rustls.
//!
//! | `sslmode` | the certificate must be | as libpq does it |
//! | --- | --- | --- |
//! | `disable` | – | no TLS |
//! | `prefer`, `require` | any, with a key that signs the handshake | yes; `require` with a file of authorities is `verify-ca` |
//! | `verify-ca` | signed by an authority in the file | yes |
//! | `verify-full` | the same, and for the requested host | yes |
//!
//! The file of authorities is `sslrootcert`, else `~/.postgresql/root.crt`;
//! `sslrootcert=system` selects those of the operating system, and requires
//! `verify-full`: they are too many for a weaker check.
//!
//! SCRAM is bound to the server's certificate (tls-server-end-point), so that it detects
//! a man in the middle even where the certificate is not verified.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use coeval_server::tls_server_end_point;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::address::{Address, Mode};

/// The value of `sslrootcert` that selects the operating system's authorities.
const SYSTEM: &str = "system";
/// The files of these authorities on several systems.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A TLS connector for one connection string; cheap to clone.
#[derive(Clone)]
pub(super) struct Connect {
    connector: TlsConnector,
    /// The host name of the next connection.
    name: Option<ServerName<'static>>,
}

impl Connect {
    /// A connector as the address asks for. Reads the file of authorities, if there is
    /// one.
    ///
    /// # Errors
    /// A message for the user.
    pub(super) async fn new(address: &Address) -> Result<Self, String> {
        let provider = Arc::new(default_provider());
        let trust = match roots(address).await? {
            None => Trust::Anybody(Arc::clone(&provider)),
            Some(roots) => {
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
                let verifier = verifier.build().map_err(|error| error.to_string())?;
                match address.mode {
                    Mode::VerifyFull => Trust::Full(verifier),
                    _ => Trust::Authority(verifier),
                }
            }
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trust))
            .with_no_client_auth();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name: None,
        })
    }
}

/// The trusted authorities; `None` when any certificate is accepted.
async fn roots(address: &Address) -> Result<Option<RootCertStore>, String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let default = home.map(|home| home.join(".postgresql").join("root.crt"));
    let path = match &address.roots {
        Some(path) if path == Path::new(SYSTEM) => {
            if address.mode != Mode::VerifyFull {
                return Err("sslrootcert=system wants sslmode=verify-full".to_owned());
            }
            let mut found = None;
            for path in SYSTEM_ROOTS {
                if found.is_none() && is_there(Path::new(path)).await {
                    found = Some(PathBuf::from(path));
                }
            }
            found
                .ok_or("there is no file of authorities on this system; name one by sslrootcert")?
        }
        Some(path) if address.mode >= Mode::Require => path.clone(),
        Some(_) => return Ok(None),
        None => match default {
            Some(path) if address.mode >= Mode::Require && is_there(&path).await => path,
            _ if address.mode >= Mode::VerifyCa => {
                return Err(
                    "to verify the server's certificate it takes the authorities that are \
                     trusted: say sslrootcert=FILE, or put them into ~/.postgresql/root.crt"
                        .to_owned(),
                );
            }
            _ => return Ok(None),
        },
    };
    read_roots(&path).await.map(Some)
}

async fn is_there(path: &Path) -> bool {
    coeval_env::fs::exists(path).await.unwrap_or(false)
}

async fn read_roots(path: &Path) -> Result<RootCertStore, String> {
    let failed = |reason: String| format!("{}: {reason}", path.display());
    let pem = coeval_env::fs::read(path).await;
    let pem = pem.map_err(|error| failed(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        // An authority with an unsupported certificate is skipped, because a large file
        // may hold some.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(failed("there is no certificate in it".to_owned()));
    }
    Ok(roots)
}

/// The certificates that the client accepts. In any case it verifies that the server has
/// the certificate's key.
#[derive(Debug)]
enum Trust {
    Anybody(Arc<CryptoProvider>),
    /// Certificates of a trusted authority, for any name.
    Authority(Arc<WebPkiServerVerifier>),
    Full(Arc<WebPkiServerVerifier>),
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verify = |verifier: &WebPkiServerVerifier| {
            verifier.verify_server_cert(certificate, others, name, ocsp, now)
        };
        match self {
            Self::Anybody(_) => Ok(ServerCertVerified::assertion()),
            Self::Full(verifier) => verify(verifier),
            // The verifier checks the name last, so a name error means that all else is
            // valid.
            Self::Authority(verifier) => match verify(verifier) {
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                )) => Ok(ServerCertVerified::assertion()),
                verified => verified,
            },
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self {
            Self::Anybody(provider) => {
                let algorithms = &provider.signature_verification_algorithms;
                verify_tls12_signature(message, certificate, signed, algorithms)
            }
            Self::Authority(verifier) | Self::Full(verifier) => {
                verifier.verify_tls12_signature(message, certificate, signed)
            }
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self {
            Self::Anybody(provider) => {
                let algorithms = &provider.signature_verification_algorithms;
                verify_tls13_signature(message, certificate, signed, algorithms)
            }
            Self::Authority(verifier) | Self::Full(verifier) => {
                verifier.verify_tls13_signature(message, certificate, signed)
            }
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        match self {
            Self::Anybody(provider) => provider
                .signature_verification_algorithms
                .supported_schemes(),
            Self::Authority(verifier) | Self::Full(verifier) => verifier.supported_verify_schemes(),
        }
    }
}

impl MakeTlsConnect<Socket> for Connect {
    type Stream = Encrypted;
    type TlsConnect = Self;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Self> {
        // A Unix socket has no host name, and no TLS either.
        Ok(Self {
            name: ServerName::try_from(host.to_owned()).ok(),
            ..self.clone()
        })
    }
}

impl TlsConnect<Socket> for Connect {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let nameless = || io::Error::other("the server has no name that TLS could be for");
            let name = self.name.ok_or_else(nameless)?;
            let stream = self.connector.connect(name, stream).await?;
            Ok(Encrypted(stream))
        })
    }
}

/// An encrypted connection.
pub(super) struct Encrypted(TlsStream<Socket>);

impl tokio_postgres::tls::TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates();
        let bound = certificates.and_then(|all| tls_server_end_point(all.first()?));
        match bound {
            Some(hash) => ChannelBinding::tls_server_end_point(hash),
            None => ChannelBinding::none(),
        }
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
