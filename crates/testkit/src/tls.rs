//! A self-signed certificate, and a client of tokio-postgres that trusts it alone.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use coeval_server::Settings;
use ring::digest;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{ChannelBinding as Binding, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::server::settings;

/// A certificate for localhost, and its key, in a directory that is removed with it.
pub struct Certificate {
    directory: tempfile::TempDir,
}

impl Default for Certificate {
    fn default() -> Self {
        Self::new()
    }
}

impl Certificate {
    /// A new self-signed certificate.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let certificate = Self { directory };
        certificate.renew();
        certificate
    }

    /// Replaces the certificate and key by new ones.
    #[expect(clippy::disallowed_methods, reason = "a test writes its files")]
    pub fn renew(&self) {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(self.certificate(), made.cert.pem()).unwrap();
        std::fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
    }

    /// The directory, where a test may put files of its own.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Path of the certificate, in PEM.
    pub fn certificate(&self) -> PathBuf {
        self.directory.path().join("certificate.pem")
    }

    /// Path of the private key, in PEM.
    pub fn key(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }

    #[expect(clippy::disallowed_methods, reason = "a test reads its files")]
    fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(&std::fs::read(self.certificate()).unwrap()).unwrap()
    }

    /// Settings of a server with this certificate.
    pub fn settings(&self) -> Settings {
        let mut settings = settings();
        settings.tls_certificate_file.0 = Some(self.certificate());
        settings.tls_key_file.0 = Some(self.key());
        settings
    }

    /// A client that trusts this certificate and no other.
    pub fn client(&self) -> Connect {
        let mut roots = RootCertStore::empty();
        roots.add(self.der()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let hash = digest::digest(&digest::SHA256, &self.der());
        Connect {
            connector: TlsConnector::from(Arc::new(config)),
            binding: hash.as_ref().to_vec(),
        }
    }
}

/// A TLS connector for tokio-postgres, by rustls.
#[derive(Clone)]
pub struct Connect {
    /// The rustls connector that performs the handshake.
    pub connector: TlsConnector,
    /// The channel binding of connections to this server.
    pub binding: Vec<u8>,
}

impl MakeTlsConnect<tokio_postgres::Socket> for Connect {
    type Stream = Encrypted;
    type TlsConnect = Self;
    type Error = io::Error;

    fn make_tls_connect(&mut self, _domain: &str) -> io::Result<Self> {
        Ok(self.clone())
    }
}

impl TlsConnect<tokio_postgres::Socket> for Connect {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: tokio_postgres::Socket) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from("localhost").unwrap();
            let stream = self.connector.connect(name, stream).await?;
            Ok(Encrypted {
                stream,
                binding: self.binding,
            })
        })
    }
}

/// A TLS connection with its channel binding.
pub struct Encrypted {
    stream: TlsStream<tokio_postgres::Socket>,
    binding: Vec<u8>,
}

impl tokio_postgres::tls::TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::tls_server_end_point(self.binding.clone())
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Connects with TLS, which the server must accept.
pub async fn connect(
    address: SocketAddr,
    connect: Connect,
    user: &str,
    password: &str,
    binding: Binding,
) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let mut config = tokio_postgres::Config::new();
    config
        .host("127.0.0.1")
        .port(address.port())
        .user(user)
        .password(password)
        .dbname("bank")
        .ssl_mode(SslMode::Require)
        .channel_binding(binding);
    let (client, connection) = config.connect(connect).await?;
    coeval_env::spawn("connection", async move {
        let _ = connection.await;
    });
    Ok(client)
}
