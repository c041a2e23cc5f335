//! SCRAM-SHA-256, server side: the client proves that it knows a password without sending
//! it, and the server proves that it knows the password's keys.
//!
//! ```text
//!   client                                             server
//!   n,,n=,r=<client nonce>                     ──▶     first()
//!       ◀──  r=<both nonces>,s=<salt>,i=<iterations>
//!   c=biws,r=<both nonces>,p=<proof>           ──▶     Exchange::finish()
//!       ◀──  v=<server signature>
//! ```
//!
//! The proof depends on both nonces, so a recorded message proves nothing a second time.
//! With `SCRAM-SHA-256-PLUS` it also depends on the certificate of the TLS connection
//! (channel binding `tls-server-end-point`), so it proves nothing to a man in the middle
//! with a certificate of its own.
//!
//! This module neither waits nor generates random numbers: the caller passes the nonce. The
//! client's one answer consumes the [`Exchange`], so there is no second attempt with the
//! same nonce.
//!
//! Invariant: the same steps run whether or not the user exists, has a password, and sends
//! the right proof; only [`Exchange::finish`] reports a failure, and not which.
//!
//! Sources: RFC 5802, sections 3, 5, 7; RFC 7677; RFC 5929, section 4; PostgreSQL
//! documentation, "SASL Authentication".

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac};

/// The mechanism without channel binding.
pub const PLAIN: &str = "SCRAM-SHA-256";
/// The mechanism with channel binding to the TLS connection.
pub const BOUND: &str = "SCRAM-SHA-256-PLUS";
/// Random bytes in the server's nonce, before Base64.
pub const NONCE: usize = 18;

/// Length of a key or a signature, in bytes.
const KEY: usize = digest::SHA256_OUTPUT_LEN;

/// The server's keys for a password.
#[derive(Clone)]
pub struct Keys {
    /// Number of hash iterations.
    pub iterations: u32,
    /// The salt of the hash.
    pub salt: Vec<u8>,
    /// Hash of the key that the client proves to have.
    pub stored_key: [u8; KEY],
    /// The key by which the server proves to know the password.
    pub server_key: [u8; KEY],
    /// Whether the user has such a password. If not, the proof is verified all the same,
    /// and is wrong.
    pub real: bool,
}

impl Keys {
    /// Keys for a user that has no password or does not exist: the same for each attempt
    /// with one name, so that a client learns nothing from a second attempt, and different
    /// for every secret.
    #[must_use]
    pub fn made_up(user: &str, secret: &[u8; 32], iterations: u32) -> Self {
        let part = |what: &str| mac(secret, format!("{what}:{user}").as_bytes());
        Self {
            iterations,
            salt: part("salt")[..16].to_vec(),
            stored_key: part("stored"),
            server_key: part("server"),
            real: false,
        }
    }
}

/// Prints no key, so that none gets into a log.
impl std::fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Keys")
    }
}

/// Why an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The message is no SCRAM message.
    #[error("malformed SCRAM message: {0}")]
    Malformed(&'static str),
    /// The client requests a SCRAM feature that the server does not support.
    #[error("{0}")]
    Unsupported(&'static str),
    /// Client and server disagree on the channel binding, possibly because of a man in the
    /// middle.
    #[error("{0}")]
    Binding(&'static str),
    /// The proof is wrong.
    #[error("the password does not match")]
    Proof,
}

impl Failure {
    /// The failure's SQLSTATE.
    #[must_use]
    pub const fn sqlstate(self) -> &'static str {
        match self {
            Self::Malformed(_) => "08P01",
            Self::Unsupported(_) => "0A000",
            Self::Binding(_) => "28000",
            Self::Proof => "28P01",
        }
    }
}

/// An exchange between the client's two messages.
#[derive(Debug)]
pub struct Exchange {
    keys: Keys,
    /// The client's first message without its header (`client-first-message-bare`).
    client_first: String,
    server_first: String,
    /// The client's and the server's nonce, concatenated.
    nonce: String,
    /// The channel binding that the client's last message must contain.
    binding: Vec<u8>,
}

/// Handles the client's first message for the mechanism that it chose. `channel` is the
/// channel binding of a TLS connection: the hash of the server's certificate. Returns the
/// exchange and the server's answer.
pub fn first(
    mechanism: &str,
    message: &[u8],
    keys: Keys,
    channel: Option<&[u8]>,
    nonce: &[u8; NONCE],
) -> Result<(Exchange, String), Failure> {
    let bound = match mechanism {
        PLAIN => false,
        BOUND if channel.is_some() => true,
        BOUND => {
            let without = "SCRAM-SHA-256-PLUS needs a connection with TLS";
            return Err(Failure::Binding(without));
        }
        _ => return Err(Failure::Malformed("the mechanism was not offered")),
    };
    let message = text(message)?;
    // gs2-header: channel binding flag, authorization identity.
    let mut parts = message.splitn(3, ',');
    let (Some(flag), Some(identity), Some(bare)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(Failure::Malformed("its header is incomplete"));
    };
    match (flag, bound) {
        ("n", false) => {}
        // The client supports channel binding, and believes that the server does not.
        ("y", false) if channel.is_some() => {
            return Err(Failure::Binding(
                "the client supports SCRAM channel binding but thinks the server does not",
            ));
        }
        ("y", false) => {}
        ("p=tls-server-end-point", true) => {}
        ("n" | "y", true) => {
            return Err(Failure::Malformed(
                "the client chose SCRAM-SHA-256-PLUS without channel binding",
            ));
        }
        (flag, false) if flag.starts_with("p=") => {
            return Err(Failure::Malformed(
                "the client chose SCRAM-SHA-256 with channel binding",
            ));
        }
        (flag, true) if flag.starts_with("p=") => {
            return Err(Failure::Unsupported(
                "unsupported SCRAM channel-binding type",
            ));
        }
        _ => return Err(Failure::Malformed("its channel binding flag is none")),
    }
    if !identity.is_empty() {
        return Err(Failure::Unsupported(
            "client uses authorization identity, but it is not supported",
        ));
    }
    if bare.starts_with("m=") {
        return Err(Failure::Unsupported(
            "client requires an unsupported SCRAM extension",
        ));
    }
    // The name is ignored: the startup packet has named the user.
    let mut attributes = bare.split(',');
    let name = attributes.next().and_then(|part| part.strip_prefix("n="));
    let client_nonce = attributes.next().and_then(|part| part.strip_prefix("r="));
    let (Some(_), Some(client_nonce)) = (name, client_nonce) else {
        return Err(Failure::Malformed("a name and a nonce are expected"));
    };
    let printable = |byte: u8| (0x21..=0x7e).contains(&byte) && byte != b',';
    if client_nonce.is_empty() || !client_nonce.bytes().all(printable) {
        return Err(Failure::Malformed(
            "its nonce has characters that no nonce has",
        ));
    }
    let nonce = format!("{client_nonce}{}", STANDARD.encode(nonce));
    let server_first = format!(
        "r={nonce},s={},i={}",
        STANDARD.encode(&keys.salt),
        keys.iterations
    );
    let mut binding = format!("{flag},{identity},").into_bytes();
    if bound {
        binding.extend_from_slice(channel.unwrap_or_default());
    }
    let exchange = Exchange {
        keys,
        client_first: bare.to_owned(),
        server_first: server_first.clone(),
        nonce,
        binding,
    };
    Ok((exchange, server_first))
}

impl Exchange {
    /// Handles the client's last message, and returns the server's, which completes the
    /// exchange: the client has proved that it knows the password.
    pub fn finish(self, message: &[u8]) -> Result<String, Failure> {
        let message = text(message)?;
        let (without_proof, proof) = message
            .rsplit_once(",p=")
            .ok_or(Failure::Malformed("there is no proof"))?;
        let mut attributes = without_proof.split(',');
        let binding = attributes.next().and_then(|part| part.strip_prefix("c="));
        let nonce = attributes.next().and_then(|part| part.strip_prefix("r="));
        let (Some(binding), Some(nonce)) = (binding, nonce) else {
            return Err(Failure::Malformed("channel binding and nonce are expected"));
        };
        let binding = STANDARD.decode(binding);
        let binding = binding.map_err(|_| Failure::Malformed("its binding is not Base64"))?;
        if !same(&binding, &self.binding) {
            return Err(Failure::Binding("SCRAM channel binding check failed"));
        }
        if !same(nonce.as_bytes(), self.nonce.as_bytes()) {
            return Err(Failure::Malformed("its nonce is another one"));
        }
        let proof = STANDARD.decode(proof).ok();
        let proof: [u8; KEY] = proof
            .and_then(|proof| proof.try_into().ok())
            .ok_or(Failure::Malformed("its proof is not Base64 of 32 bytes"))?;
        let signed = format!(
            "{},{},{without_proof}",
            self.client_first, self.server_first
        );
        let client_signature = mac(&self.keys.stored_key, signed.as_bytes());
        let mut client_key = proof;
        for (byte, mask) in client_key.iter_mut().zip(client_signature) {
            *byte ^= mask;
        }
        let hashed = digest::digest(&digest::SHA256, &client_key);
        let server_signature = mac(&self.keys.server_key, signed.as_bytes());
        let right = same(hashed.as_ref(), &self.keys.stored_key);
        if !(right & self.keys.real) {
            return Err(Failure::Proof);
        }
        Ok(format!("v={}", STANDARD.encode(server_signature)))
    }
}

fn text(message: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(message).map_err(|_| Failure::Malformed("it is not UTF-8"))
}

fn mac(key: &[u8], message: &[u8]) -> [u8; KEY] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut tag = [0; KEY];
    tag.copy_from_slice(hmac::sign(&key, message).as_ref());
    tag
}

/// Compares in constant time, so that the duration does not reveal where two secrets
/// differ.
fn same(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |all, (a, b)| all | (a ^ b));
    left.len() == right.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of "pencil" in the example of RFC 7677, section 3.
    fn pencil() -> Keys {
        let key = |text: &str| STANDARD.decode(text).unwrap().try_into().unwrap();
        Keys {
            iterations: 4096,
            salt: STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap(),
            stored_key: key("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="),
            server_key: key("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="),
            real: true,
        }
    }

    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const NONCE: [u8; super::NONCE] = [7; super::NONCE];

    /// The answer of a client that has this client key.
    fn last(
        server_first: &str,
        client_first: &str,
        header: &str,
        client_key: &[u8; KEY],
    ) -> String {
        let nonce = server_first.split(',').next().unwrap();
        let without_proof = format!("c={},{nonce}", STANDARD.encode(header));
        let stored = digest::digest(&digest::SHA256, client_key);
        let signed = format!("{client_first},{server_first},{without_proof}");
        let signature = mac(stored.as_ref(), signed.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(signature)
            .map(|(a, b)| a ^ b)
            .collect();
        format!("{without_proof},p={}", STANDARD.encode(proof))
    }

    /// Keys whose client key is known.
    fn known() -> (Keys, [u8; KEY]) {
        let client_key = [9; KEY];
        let mut keys = pencil();
        keys.stored_key
            .copy_from_slice(digest::digest(&digest::SHA256, &client_key).as_ref());
        (keys, client_key)
    }

    const BARE: &str = "n=user,r=rOprNGfwEbeRWgbNEkqO";

    #[test]
    fn the_rfcs_example() {
        // The example's server nonce is not the Base64 of 18 bytes.
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let server_first = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let exchange = Exchange {
            keys: pencil(),
            client_first: BARE.to_owned(),
            server_first,
            nonce: nonce.to_owned(),
            binding: b"n,,".to_vec(),
        };
        let last = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        assert_eq!(
            exchange.finish(last.as_bytes()).unwrap(),
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn a_proof_is_good_once() {
        let (keys, client_key) = known();
        let (exchange, server_first) = first(PLAIN, FIRST, keys.clone(), None, &NONCE).unwrap();
        let overheard = last(&server_first, BARE, "n,,", &client_key);
        exchange.finish(overheard.as_bytes()).unwrap();
        // The same client message is sent for another server nonce.
        let (exchange, _) = first(PLAIN, FIRST, keys, None, &[8; super::NONCE]).unwrap();
        let replayed = exchange.finish(overheard.as_bytes());
        assert!(matches!(replayed, Err(Failure::Malformed(_))));
    }

    #[test]
    fn wrong_proofs_and_users_that_do_not_exist_fail_alike() {
        let (keys, mut client_key) = known();
        client_key[3] ^= 1;
        let made_up = Keys::made_up("nobody", &[1; 32], 4096);
        for keys in [keys, made_up] {
            let (exchange, server_first) = first(PLAIN, FIRST, keys, None, &NONCE).unwrap();
            let answer = last(&server_first, BARE, "n,,", &client_key);
            assert_eq!(exchange.finish(answer.as_bytes()), Err(Failure::Proof));
        }
    }

    #[test]
    fn made_up_keys_are_the_same_every_time() {
        let one = Keys::made_up("nobody", &[1; 32], 4096);
        assert_eq!(one.salt, Keys::made_up("nobody", &[1; 32], 4096).salt);
        assert_ne!(one.salt, Keys::made_up("nobody", &[2; 32], 4096).salt);
        assert_ne!(one.salt, Keys::made_up("somebody", &[1; 32], 4096).salt);
        // A client that knows the made-up key is refused, too.
        let (mut keys, client_key) = known();
        keys.real = false;
        let (exchange, server_first) = first(PLAIN, FIRST, keys, None, &NONCE).unwrap();
        let answer = last(&server_first, BARE, "n,,", &client_key);
        assert_eq!(exchange.finish(answer.as_bytes()), Err(Failure::Proof));
    }

    #[test]
    fn a_bound_exchange_is_good_on_its_own_channel_only() {
        let (keys, client_key) = known();
        let header = "p=tls-server-end-point,,";
        let message = format!("{header}{BARE}");
        let run = |ours: &[u8], theirs: &str| {
            let keys = keys.clone();
            let (exchange, server_first) =
                first(BOUND, message.as_bytes(), keys, Some(ours), &NONCE).unwrap();
            let said = format!("{header}{theirs}");
            exchange.finish(last(&server_first, BARE, &said, &client_key).as_bytes())
        };
        assert!(run(b"our certificate", "our certificate").is_ok());
        let in_the_middle = run(b"our certificate", "another certificate");
        assert!(matches!(in_the_middle, Err(Failure::Binding(_))));
    }

    #[test]
    fn a_stripped_offer_is_noticed() {
        // The client supports binding and was not offered it: `y` on a channel that
        // supports it.
        let stripped = first(PLAIN, b"y,,n=,r=abc", pencil(), Some(b"hash"), &NONCE);
        assert!(matches!(stripped, Err(Failure::Binding(_))));
        assert!(first(PLAIN, b"y,,n=,r=abc", pencil(), None, &NONCE).is_ok());
        let plain = first(
            BOUND,
            b"p=tls-server-end-point,,n=,r=a",
            pencil(),
            None,
            &NONCE,
        );
        assert!(matches!(plain, Err(Failure::Binding(_))));
    }

    #[test]
    fn malformed_messages_are_refused() {
        for message in [
            &b""[..],
            b"n",
            b"n,,",
            b"n,,n=",
            b"n,,n=,r=",
            b"x,,n=,r=abc",
            b"p=tls-unique,,n=,r=abc",
            b"n,a=admin,n=,r=abc",
            b"n,,m=x,n=,r=abc",
            b"n,,n=,r=a c",
            b"n,,r=abc,n=",
            b"\xff,,n=,r=abc",
        ] {
            assert!(
                first(PLAIN, message, pencil(), None, &NONCE).is_err(),
                "{message:?}"
            );
        }
        assert!(first("SCRAM-SHA-1", FIRST, pencil(), None, &NONCE).is_err());
        for answer in [
            &b""[..],
            b"c=biws",
            b"c=biws,p=",
            b"c=biws,r=x,p=YWJj",
            b"c=!,r=x,p=YWJj",
            b"\xff",
        ] {
            let (exchange, _) = first(PLAIN, FIRST, pencil(), None, &NONCE).unwrap();
            assert!(exchange.finish(answer).is_err(), "{answer:?}");
        }
        let (exchange, server_first) = first(PLAIN, FIRST, pencil(), None, &NONCE).unwrap();
        let nonce = server_first.split(',').next().unwrap();
        let short = format!("c=biws,{nonce},p=YWJj");
        assert!(matches!(
            exchange.finish(short.as_bytes()),
            Err(Failure::Malformed(_))
        ));
    }
}
