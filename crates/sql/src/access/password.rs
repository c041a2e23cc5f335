//! Password verifiers (SCRAM): enough to check a password, but not to log in with.
//!
//! ```text
//!   SCRAM-SHA-256$4096:c2FsdA==$<stored key>:<server key>
//!                 │    │
//!                 │    salt            keys and salt in Base64, as PostgreSQL
//!                 iterations           writes them into pg_authid
//! ```
//!
//! The server stores neither the password nor a key that proves knowledge of it: the
//! stored key is a hash of the key that a client proves to have. So a dump of roles can
//! be restored here and in PostgreSQL.
//!
//! Sources: RFC 5802, section 3; RFC 7677; RFC 4013 (SASLprep).

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

/// Name of the scheme, with which the text of a verifier begins.
const SCHEME: &str = "SCRAM-SHA-256";
/// Iterations for a new password, as in PostgreSQL; the minimum in RFC 7677.
pub const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("not zero");
/// Length of a new salt, in bytes.
pub const SALT: usize = 16;
/// Length of a key, in bytes.
const KEY: usize = digest::SHA256_OUTPUT_LEN;

/// The data with which the server checks a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// Number of hash iterations.
    pub iterations: NonZeroU32,
    /// Random bytes that were hashed with the password.
    pub salt: Vec<u8>,
    /// Hash of the key that clients prove to have.
    pub stored_key: [u8; KEY],
    /// Key with which the server proves that it knows the verifier.
    pub server_key: [u8; KEY],
}

impl Verifier {
    /// Creates a verifier for a new password, with a new salt. Takes about a millisecond.
    #[must_use]
    pub fn new(password: &str) -> Self {
        let mut salt = vec![0; SALT];
        coeval_env::random_bytes(&mut salt);
        Self::with_salt(password, salt, ITERATIONS)
    }

    /// Creates a verifier with this salt.
    #[must_use]
    pub fn with_salt(password: &str, salt: Vec<u8>, iterations: NonZeroU32) -> Self {
        // PostgreSQL and its clients hash a password unchanged if the profile rejects it.
        let prepared = stringprep::saslprep(password);
        let prepared = prepared.as_deref().unwrap_or(password);
        let mut salted = [0; KEY];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(
            algorithm,
            iterations,
            &salt,
            prepared.as_bytes(),
            &mut salted,
        );
        let client_key = mac(&salted, b"Client Key");
        let mut stored_key = [0; KEY];
        stored_key.copy_from_slice(digest::digest(&digest::SHA256, &client_key).as_ref());
        Self {
            iterations,
            salt,
            stored_key,
            server_key: mac(&salted, b"Server Key"),
        }
    }

    /// Parses a verifier; `None` if the text is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once('$')?;
        let (hashing, keys) = rest.split_once('$')?;
        let (iterations, salt) = hashing.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        if scheme != SCHEME {
            return None;
        }
        let key = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
        Some(Self {
            iterations: iterations.parse().ok()?,
            salt: STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        })
    }
}

impl std::fmt::Display for Verifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{SCHEME}${}:{}${}:{}",
            self.iterations,
            STANDARD.encode(&self.salt),
            STANDARD.encode(self.stored_key),
            STANDARD.encode(self.server_key)
        )
    }
}

/// Prints no part of the verifier, so that none can get into a log.
impl std::fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Verifier")
    }
}

fn mac(key: &[u8], message: &[u8]) -> [u8; KEY] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut tag = [0; KEY];
    tag.copy_from_slice(hmac::sign(&key, message).as_ref());
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3, from which PostgreSQL makes these keys.
    #[test]
    fn the_rfcs_example() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::with_salt("pencil", salt, ITERATIONS);
        assert_eq!(
            verifier.to_string(),
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
             WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
             wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
        assert_eq!(Verifier::parse(&verifier.to_string()), Some(verifier));
    }

    #[test]
    fn what_is_no_verifier_is_none() {
        let good = Verifier::new("secret").to_string();
        assert!(Verifier::parse(&good).is_some());
        assert_ne!(good, Verifier::new("secret").to_string(), "salts differ");
        for bad in [
            "secret",
            "",
            "SCRAM-SHA-256$",
            "SCRAM-SHA-256$0:c2FsdA==$a:b",
            "SCRAM-SHA-256$4096:c2FsdA==$YWJj:YWJj",
            "md5c7ff5ea2e1f2a0b9c3f6c3f6c3f6c3f6",
            &good.replace('$', ":"),
            &good[..good.len() - 2],
        ] {
            assert_eq!(Verifier::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn debug_output_says_nothing() {
        assert_eq!(format!("{:?}", Verifier::new("secret")), "Verifier");
    }
}
