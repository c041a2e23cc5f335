//! Mutual TLS between nodes.
//!
//! A node's certificate is signed by the cluster's authority and has the DNS name
//! `node-3.shop`: the node's id, and the cluster's name as administrators gave it (decision
//! 0021). The name is no address; no DNS server is ever asked for it. The connecting node
//! verifies the name of the node that it means to reach, the accepting node the name of the
//! node that the other side claims to be.
//!
//! TLS 1.3 by rustls, with ring for the cryptography. Sessions are not resumed, so that
//! every connection verifies the certificates anew.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use coeval_env::Stream;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::time_provider::TimeProvider;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    self, AlertDescription, CertificateError, ClientConfig, RootCertStore, ServerConfig,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::identity::NodeId;
use crate::security::{Channel, Shown};

/// The name in a node's certificate.
#[must_use]
pub fn node_name(node: NodeId, cluster: &str) -> String {
    format!("node-{node}.{cluster}")
}

/// Whether certificates can name nodes of a cluster with this name.
pub fn check_cluster_name(cluster: &str) -> Result<(), TlsError> {
    name(NodeId(u64::MAX), cluster).map(|_| ())
}

/// An invalid certificate, key or authority.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A text is not valid PEM of its kind.
    #[error("{what}: {reason}")]
    Text {
        /// Which of the PEM texts: authority, certificate or key.
        what: &'static str,
        /// Why the text is not valid.
        reason: String,
    },
    /// The cluster's name cannot be part of a certificate's name.
    #[error(
        "{0:?} cannot be a cluster's name in a certificate: it takes letters, digits and hyphens, \
         as in shop or shop.example"
    )]
    Cluster(String),
    /// Other nodes would not accept the certificate.
    #[error("this certificate is of no use to node {node}: {reason}")]
    Own {
        /// The node whose certificate it should be.
        node: NodeId,
        /// Why other nodes would not accept it.
        reason: String,
    },
    /// Certificate and key do not match, or rustls does not support them.
    #[error("the certificate and key cannot be used: {0}")]
    Configuration(#[from] rustls::Error),
}

/// A node's certificate and key, and the authority that signs every node's certificate. All
/// in PEM.
#[derive(Clone, Copy)]
pub struct Pem<'text> {
    /// Certificates of the cluster's authority; several while a new one replaces an old
    /// one.
    pub authority: &'text [u8],
    /// The node's certificate, followed by its chain if it has one.
    pub certificate: &'text [u8],
    /// The node's private key.
    pub key: &'text [u8],
}

/// A node's TLS configuration, for connecting and accepting; cheap to clone.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    cluster: Arc<str>,
}

/// The clock by which rustls checks validity periods.
#[derive(Debug)]
struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(coeval_env::wall_clock()))
    }
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refuse = |reason: String| TlsError::Text { what, reason };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| refuse(error.to_string()))?;
    if read.is_empty() {
        return Err(refuse("there is no certificate in it".to_owned()));
    }
    Ok(read)
}

impl Tls {
    /// The configuration of `node` in the cluster of this name. Rejects a certificate that
    /// other nodes would not accept, with the reason.
    pub fn new(pem: Pem<'_>, cluster: &str, node: NodeId) -> Result<Self, TlsError> {
        let name = name(node, cluster)?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates("the authority", pem.authority)? {
            roots.add(certificate)?;
        }
        let roots = Arc::new(roots);
        let chain = certificates("the certificate", pem.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(pem.key);
        let key = key.map_err(|error| TlsError::Text {
            what: "the key",
            reason: error.to_string(),
        })?;

        let provider = Arc::new(default_provider());
        let unusable = |error: &dyn std::fmt::Display| TlsError::Text {
            what: "the authority",
            reason: error.to_string(),
        };
        let accepts =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let accepts = accepts.build().map_err(|error| unusable(&error))?;
        let connects =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let connects = connects.build().map_err(|error| unusable(&error))?;

        // The checks that another node would make are made now.
        let now = UnixTime::since_unix_epoch(coeval_env::wall_clock());
        let (own, others) = chain.split_first().expect("one certificate at least");
        let refuse = |error: rustls::Error| TlsError::Own {
            node,
            reason: explain(&error, &node_name(node, cluster)),
        };
        let verified = connects.verify_server_cert(own, others, &name, &[], now);
        verified.map_err(refuse)?;
        accepts
            .verify_client_cert(own, others, now)
            .map_err(refuse)?;

        let mut server = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::new(Clock))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(accepts)
            .with_single_cert(chain.clone(), key.clone_key())?;
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_details(provider, Arc::new(Clock))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        client.resumption = Resumption::disabled();
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
            cluster: cluster.into(),
        })
    }

    /// Opens TLS to this node, and accepts no other node's certificate.
    pub(crate) async fn connect(&self, stream: Stream, node: NodeId) -> Result<Channel, String> {
        let name = name(node, &self.cluster).map_err(|error| error.to_string())?;
        let connected = self.connector.connect(name, stream).await;
        let stream = connected.map_err(|error| self.explain(&error, Some(node)))?;
        let shown = self.shown(stream.get_ref().1.peer_certificates())?;
        Ok(Channel::guarded(stream, shown))
    }

    /// Accepts TLS from any node of the cluster.
    pub(crate) async fn accept(&self, stream: Stream) -> Result<Channel, String> {
        let accepted = self.acceptor.accept(stream).await;
        let stream = accepted.map_err(|error| self.explain(&error, None))?;
        let shown = self.shown(stream.get_ref().1.peer_certificates())?;
        Ok(Channel::guarded(stream, shown))
    }

    fn shown(&self, certificates: Option<&[CertificateDer<'_>]>) -> Result<Shown, String> {
        let own = certificates.and_then(<[_]>::first);
        let certificate = own.ok_or("the other side shows no certificate")?;
        Ok(Shown {
            tls: self.clone(),
            certificate: certificate.clone().into_owned(),
        })
    }

    /// Whether a certificate, whose issuer has been verified, names this node.
    pub(crate) fn vouches(
        &self,
        certificate: &CertificateDer<'_>,
        node: NodeId,
    ) -> Result<(), String> {
        let named = || -> Result<(), rustls::Error> {
            let certificate = ParsedCertificate::try_from(certificate)?;
            let other = |_| rustls::Error::General("the name cannot be".to_owned());
            let name = name(node, &self.cluster).map_err(other)?;
            verify_server_name(&certificate, &name)
        };
        named().map_err(|error| explain(&error, &node_name(node, &self.cluster)))
    }

    fn explain(&self, error: &io::Error, node: Option<NodeId>) -> String {
        let name = node.map(|node| node_name(node, &self.cluster));
        let explained = explain_within(error, name.as_deref().unwrap_or("a node"));
        explained.unwrap_or_else(|| error.to_string())
    }
}

fn name(node: NodeId, cluster: &str) -> Result<ServerName<'static>, TlsError> {
    let ends = cluster.is_empty() || cluster.ends_with('.');
    match ServerName::try_from(node_name(node, cluster)) {
        Ok(name @ ServerName::DnsName(_)) if !ends => Ok(name),
        _ => Err(TlsError::Cluster(cluster.to_owned())),
    }
}

/// Explains the TLS error within a connection's error.
pub(crate) fn explain_io(error: &io::Error) -> Option<String> {
    explain_within(error, "a node")
}

fn explain_within(error: &io::Error, name: &str) -> Option<String> {
    let within = error.get_ref()?.downcast_ref()?;
    Some(explain(within, name))
}

/// Explains a TLS error. `name` is the node whose certificate was expected.
fn explain(error: &rustls::Error, name: &str) -> String {
    use rustls::Error;
    match error {
        Error::NoCertificatesPresented => "the other side shows no certificate".to_owned(),
        Error::InvalidMessage(_) => "the other side does not speak TLS".to_owned(),
        Error::InvalidCertificate(reason) => match reason {
            CertificateError::Expired => "the certificate has expired".to_owned(),
            CertificateError::ExpiredContext { time, not_after } => format!(
                "the certificate has expired, {} ago",
                age(time.as_secs().saturating_sub(not_after.as_secs()))
            ),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the certificate is not valid yet; are the clocks right?".to_owned()
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "the certificate is not of this cluster's authority".to_owned()
            }
            CertificateError::NotValidForName => {
                format!("the certificate does not name {name}")
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                let presented: Vec<_> = presented.iter().map(|name| shorten(name)).collect();
                format!(
                    "the certificate does not name {name}, but {}",
                    presented.join(", ")
                )
            }
            other => format!("the certificate cannot be used: {other:?}"),
        },
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateExpired => {
                "the other side refuses our certificate: it has expired".to_owned()
            }
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                "the other side refuses our certificate: it is not of its cluster's authority"
                    .to_owned()
            }
            AlertDescription::CertificateRequired => {
                "the other side wants a certificate".to_owned()
            }
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown => {
                format!("the other side refuses our certificate ({alert:?})")
            }
            AlertDescription::ProtocolVersion => "the other side does not speak TLS 1.3".to_owned(),
            other => format!("the other side ends it: {other:?}"),
        },
        other => other.to_string(),
    }
}

/// Reduces `DnsName("node-3.shop")` to the name.
fn shorten(name: &str) -> &str {
    let inner = name
        .split_once('"')
        .and_then(|(_, rest)| rest.split_once('"'));
    inner.map_or(name, |(name, _)| name)
}

fn age(seconds: u64) -> String {
    const DAY: u64 = 24 * 3600;
    match Duration::from_secs(seconds).as_secs() {
        short if short < DAY => format!("{} hours", short / 3600),
        long => format!("{} days", long / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clusters_name_is_part_of_a_name() {
        for good in ["shop", "shop.example.org", "a-1"] {
            name(NodeId(3), good).unwrap();
            check_cluster_name(good).unwrap();
        }
        for wrong in ["", "a shop", ".", "shop.", "shop..x", "ä", "x\n", "shop/1"] {
            let refused = name(NodeId(3), wrong);
            assert!(matches!(refused, Err(TlsError::Cluster(_))), "{wrong:?}");
        }
        assert_eq!(node_name(NodeId(3), "shop"), "node-3.shop");
    }
}
