//! The first bytes of a client's connection: versions, and who each side is.
//!
//! ```text
//!   client   magic 8 | version 2 | length 1, role … | nonce 32
//!   server   magic 8 | version 2 | node 8 | cluster 16 | wants a proof 1 | nonce 32 | proof 32
//!   client   proof 32                                      if the server wants one
//!   server   0, or 1: refused
//! ```
//!
//! A client of version 1 names no role: the line has none. The server answers in the client's version.
//!
//! Who knows the role's *secret*, or without a role the cluster's, proves it by HMAC-SHA256 under it,
//! over which side it is and both nonces: the secret never travels, a recorded login is worth nothing, and neither side's proof
//! serves as the other's. Proofs can be tried against guesses by one who records them, so a
//! secret is drawn at random and long ([`Secret::new`]).
//!
//! With TLS the certificates say who the sides are, as between nodes; a secret may be asked for
//! beside them. Without, a node lets clients of its own machine in only: see
//! [`Settings::clients`](crate::server::Settings::clients).

use std::fmt;
use std::io;

use coeval_peers::{ClusterId, NodeId};
use ring::hmac;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::roles::{Access, Entry, Rights};

const MAGIC: &[u8; 8] = b"COEVEPOC";
/// The version of the protocol between clients and nodes.
const VERSION: u16 = 2;
/// The oldest version that a node takes: its clients have no roles, and know fewer refusals.
const OLDEST: u16 = 1;
/// Most bytes of a role's name.
pub(crate) const MOST_NAME: usize = 63;
const NONCE: usize = 32;
const PROOF: usize = 32;
const LEAST_SECRET: usize = 16;

/// A secret that clients and nodes of a cluster share.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// A secret is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret has {LEAST_SECRET} bytes or more, drawn at random")]
pub struct ShortSecret;

impl Secret {
    /// A secret of these bytes.
    ///
    /// # Errors
    /// When they are fewer than 16.
    pub fn new(bytes: &[u8]) -> Result<Self, ShortSecret> {
        match bytes.len() >= LEAST_SECRET {
            true => Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))),
            false => Err(ShortSecret),
        }
    }

    fn proof(&self, role: &[u8], nonces: &[[u8; NONCE]; 2]) -> [u8; PROOF] {
        let signed = hmac::sign(&self.0, &[role, &nonces[0], &nonces[1]].concat());
        let mut proof = [0; PROOF];
        proof.copy_from_slice(signed.as_ref());
        proof
    }

    fn verifies(&self, role: &[u8], nonces: &[[u8; NONCE]; 2], proof: &[u8]) -> bool {
        let signed = [role, &nonces[0], &nonces[1]].concat();
        hmac::verify(&self.0, &signed, proof).is_ok()
    }
}

const CLIENT: &[u8] = b"coeval epoch client";
const SERVER: &[u8] = b"coeval epoch server";

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The other side is no client, or no node, of epochs.
    #[error("the other side does not speak the protocol of epochs' clients")]
    Protocol,
    /// Another version.
    #[error("the other side speaks version {0} of the protocol, and this one {VERSION}")]
    Version(u16),
    /// The node wants a proof that its clients know the cluster's secret.
    #[error("the node wants the cluster's secret")]
    SecretWanted,
    /// The secrets differ, or the node does not let the role in.
    #[error("the other side has another secret, or does not know the role")]
    Secret,
    /// A role's name is too long.
    #[error("a role's name has {MOST_NAME} bytes at most, and is text")]
    Name,
    /// The connection.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl LoginError {
    /// Whether the same client would be refused again.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Protocol | Self::Version(_) | Self::SecretWanted | Self::Secret | Self::Name => {
                true
            }
            Self::Io(_) => false,
        }
    }
}

fn nonce() -> [u8; NONCE] {
    let mut nonce = [0; NONCE];
    coeval_env::random_bytes(&mut nonce);
    nonce
}

async fn read<const BYTES: usize, S: AsyncRead + Unpin>(
    stream: &mut S,
) -> Result<[u8; BYTES], io::Error> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn head<S: AsyncRead + Unpin>(stream: &mut S, oldest: u16) -> Result<u16, LoginError> {
    if read(stream).await? != *MAGIC {
        return Err(LoginError::Protocol);
    }
    match u16::from_le_bytes(read(stream).await?) {
        version if (oldest..=VERSION).contains(&version) => Ok(version),
        other => Err(LoginError::Version(other)),
    }
}

/// The client's side, as a role, `""` for none. Returns the node, and its cluster.
pub(crate) async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    role: &str,
    secret: Option<&Secret>,
) -> Result<(ClusterId, NodeId), LoginError> {
    let length = u8::try_from(role.len()).unwrap_or(u8::MAX);
    if usize::from(length) > MOST_NAME {
        return Err(LoginError::Name);
    }
    let own = nonce();
    let mut hello = MAGIC.to_vec();
    hello.extend(VERSION.to_le_bytes());
    hello.push(length);
    hello.extend(role.as_bytes());
    hello.extend(own);
    stream.write_all(&hello).await?;
    stream.flush().await?;
    head(stream, VERSION).await?;
    let node = NodeId(u64::from_le_bytes(read(stream).await?));
    let cluster = ClusterId(u128::from_le_bytes(read(stream).await?));
    let [wants] = read(stream).await?;
    let nonces = [own, read(stream).await?];
    let proof: [u8; PROOF] = read(stream).await?;
    match secret {
        Some(secret) if !secret.verifies(SERVER, &nonces, &proof) => {
            return Err(LoginError::Secret);
        }
        None if wants != 0 => return Err(LoginError::SecretWanted),
        Some(secret) => {
            stream.write_all(&secret.proof(CLIENT, &nonces)).await?;
            stream.flush().await?;
        }
        None => {}
    }
    match read(stream).await? {
        [0] => Ok((cluster, node)),
        _ => Err(LoginError::Secret),
    }
}

/// The node's side: what the client may do, and the version that it speaks. `shows` says whether its
/// certificate is of a number.
pub(crate) async fn let_in<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    (cluster, node): (ClusterId, NodeId),
    access: &Access,
    shows: impl Fn(&S, NodeId) -> bool,
) -> Result<(Rights, u16), LoginError> {
    let version = head(stream, OLDEST).await?;
    let role = match version {
        OLDEST => String::new(),
        _ => {
            let [length] = read(stream).await?;
            let mut name = [0; MOST_NAME];
            let name = name
                .get_mut(..usize::from(length))
                .ok_or(LoginError::Name)?;
            stream.read_exact(name).await?;
            String::from_utf8(name.to_vec()).map_err(|_| LoginError::Name)?
        }
    };
    let entry = access.entry(&role, |number| shows(stream, number));
    // Who cannot come in is asked for a random secret, so that it learns no names.
    let entry = match entry {
        Some(entry) => entry,
        None => Entry {
            rights: Rights::ALL,
            secret: Some(Secret(hmac::Key::new(hmac::HMAC_SHA256, &nonce()))),
        },
    };
    let nonces = [read(stream).await?, nonce()];
    let mut answer = MAGIC.to_vec();
    answer.extend(version.to_le_bytes());
    answer.extend(node.0.to_le_bytes());
    answer.extend(cluster.0.to_le_bytes());
    answer.push(u8::from(entry.secret.is_some()));
    answer.extend(nonces[1]);
    let proof = entry.secret.as_ref();
    let proof = proof.map(|secret| secret.proof(SERVER, &nonces));
    answer.extend(proof.unwrap_or([0; PROOF]));
    stream.write_all(&answer).await?;
    stream.flush().await?;
    let is_let_in = match &entry.secret {
        None => true,
        Some(secret) => {
            let proof: [u8; PROOF] = read(stream).await?;
            secret.verifies(CLIENT, &nonces, &proof)
        }
    };
    stream.write_all(&[u8::from(!is_let_in)]).await?;
    stream.flush().await?;
    match is_let_in {
        true => Ok((entry.rights, version)),
        false => Err(LoginError::Secret),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Ends = (
        Result<(ClusterId, NodeId), LoginError>,
        Result<(Rights, u16), LoginError>,
    );

    fn secret(text: Option<&str>) -> Option<Secret> {
        text.map(|text| Secret::new(text.as_bytes()).unwrap())
    }

    fn meet(client: Option<&str>, server: Option<&str>) -> Ends {
        let access = Access {
            secret: secret(server),
            ..Access::default()
        };
        meet_as("", client, access)
    }

    fn meet_as(role: &'static str, client: Option<&str>, access: Access) -> Ends {
        let client = secret(client);
        let (mut one, mut other) = tokio::io::duplex(1 << 10);
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        let identity = (ClusterId(7), NodeId(3));
        runtime.block_on(async move {
            let logs_in = async move { log_in(&mut one, role, client.as_ref()).await };
            let lets_in = async move { let_in(&mut other, identity, &access, |_, _| false).await };
            tokio::join!(logs_in, lets_in)
        })
    }

    #[test]
    fn only_who_knows_the_secret_is_let_in() {
        let (right, wrong) = (Some("0123456789abcdef"), Some("0123456789abcdeF"));
        for secret in [right, None] {
            let (client, server) = meet(secret, secret);
            assert_eq!(client.unwrap(), (ClusterId(7), NodeId(3)));
            server.unwrap();
        }
        let (client, server) = meet(wrong, right);
        assert!(matches!(client, Err(LoginError::Secret)), "{client:?}");
        server.unwrap_err();
        let (client, server) = meet(None, right);
        assert!(
            matches!(client, Err(LoginError::SecretWanted)),
            "{client:?}"
        );
        server.unwrap_err();
        // A node that does not know the secret is no node of the cluster.
        let (client, _) = meet(right, None);
        assert!(matches!(client, Err(LoginError::Secret)), "{client:?}");
        Secret::new(b"short").unwrap_err();
    }

    #[test]
    fn a_role_has_its_own_secret_and_rights() {
        let access = || Access {
            roles: Access::read("reports get secret of_reports_alone").unwrap(),
            secret: secret(Some("of the whole cluster")),
        };
        let (client, server) = meet_as("reports", Some("of_reports_alone"), access());
        client.unwrap();
        let get = Rights {
            put: false,
            get: true,
        };
        assert_eq!(server.unwrap(), (get, VERSION));
        for (role, secret) in [
            ("reports", "of the whole cluster"),
            ("stranger", "of the whole cluster"),
            ("stranger", "of_reports_alone"),
            ("", "of_reports_alone"),
        ] {
            let (client, server) = meet_as(role, Some(secret), access());
            assert!(matches!(client, Err(LoginError::Secret)), "{client:?}");
            server.unwrap_err();
        }
        let (client, server) = meet_as("", Some("of the whole cluster"), access());
        client.unwrap();
        assert_eq!(server.unwrap().0, Rights::ALL);
    }

    /// A client of version 1 sends no role, and is answered in its version.
    #[test]
    fn a_client_of_the_first_version_is_let_in() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        let (mut one, mut other) = tokio::io::duplex(1 << 10);
        runtime.block_on(async move {
            let asks = async move {
                let mut hello = MAGIC.to_vec();
                hello.extend(1_u16.to_le_bytes());
                hello.extend([7; NONCE]);
                one.write_all(&hello).await.unwrap();
                assert_eq!(read::<8, _>(&mut one).await.unwrap(), *MAGIC);
                assert_eq!(read::<2, _>(&mut one).await.unwrap(), [1, 0]);
                let rest: [u8; 8 + 16 + 1 + NONCE + PROOF + 1] = read(&mut one).await.unwrap();
                assert_eq!(rest[8 + 16], 0, "no secret is wanted");
                assert_eq!(rest.last(), Some(&0), "let in");
            };
            let access = Access::default();
            let identity = (ClusterId(7), NodeId(3));
            let lets_in = let_in(&mut other, identity, &access, |_, _| false);
            let ((), ended) = tokio::join!(asks, lets_in);
            assert_eq!(ended.unwrap(), (Rights::ALL, 1));
        });
    }
}
