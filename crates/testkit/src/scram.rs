//! A SCRAM-SHA-256 client that performs one step at a time, so that tests can send wrong
//! messages.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

use crate::wire::{Answer, Wire, message, start};

/// The client's first message without its header (`client-first-message-bare`).
const BARE: &str = "n=,r=0123456789abcdef";

/// The code of an authentication request.
pub fn request(answer: &Answer) -> u32 {
    assert_eq!(answer.kind, 'R', "{answer:?}");
    u32::from_be_bytes(answer.contents[..4].try_into().unwrap())
}

/// Starts a session as this user, and returns the mechanisms that the server offers.
pub async fn begin(wire: &mut Wire, user: &str) -> Vec<String> {
    begin_with(wire, &[("user", user), ("database", "bank")]).await
}

/// [`begin`], with these parameters.
pub async fn begin_with(wire: &mut Wire, parameters: &[(&str, &str)]) -> Vec<String> {
    wire.send(&start(parameters)).await;
    let offer = wire.receive().await.unwrap();
    assert_eq!(request(&offer), 10, "{offer:?}");
    let names = offer.contents[4..].split(|&byte| byte == 0);
    names
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8(name.to_vec()).unwrap())
        .collect()
}

/// SASLInitialResponse with this message.
pub fn initial(mechanism: &str, text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    let contents = [mechanism.as_bytes(), b"\0", &length, text.as_bytes()].concat();
    message(b'p', &contents)
}

/// The client's first message, without channel binding.
pub fn first() -> Vec<u8> {
    initial("SCRAM-SHA-256", &format!("n,,{BARE}"))
}

/// The client's answer to the server's first message.
pub fn last(answer: &Answer, password: &str) -> Vec<u8> {
    assert_eq!(request(answer), 11, "{answer:?}");
    last_bound(answer, password, b"n,,")
}

/// [`last`], with these bytes as channel binding.
pub fn last_bound(answer: &Answer, password: &str, binding: &[u8]) -> Vec<u8> {
    let server_first = std::str::from_utf8(&answer.contents[4..]).unwrap();
    let mut parts = server_first.split(',');
    let nonce = parts.next().unwrap();
    let salt = parts.next().unwrap().strip_prefix("s=").unwrap();
    let salt = STANDARD.decode(salt).unwrap();
    let iterations = parts.next().unwrap().strip_prefix("i=").unwrap();
    let iterations: NonZeroU32 = iterations.parse().unwrap();
    let mut salted = [0; 32];
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(
        algorithm,
        iterations,
        &salt,
        password.as_bytes(),
        &mut salted,
    );
    let mac = |key: &[u8], text: &[u8]| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        hmac::sign(&key, text).as_ref().to_vec()
    };
    let client_key = mac(&salted, b"Client Key");
    let stored_key = digest::digest(&digest::SHA256, &client_key);
    let without_proof = format!("c={},{nonce}", STANDARD.encode(binding));
    let signed = format!("{BARE},{server_first},{without_proof}");
    let signature = mac(stored_key.as_ref(), signed.as_bytes());
    let proof: Vec<u8> = client_key
        .iter()
        .zip(signature)
        .map(|(a, b)| a ^ b)
        .collect();
    let last = format!("{without_proof},p={}", STANDARD.encode(proof));
    message(b'p', last.as_bytes())
}

/// Logs in; returns the answers up to the session's start or its refusal.
pub async fn log_in(wire: &mut Wire, user: &str, password: &str) -> Vec<Answer> {
    log_in_with(wire, &[("user", user), ("database", "bank")], password).await
}

/// [`log_in`], with these parameters.
pub async fn log_in_with(
    wire: &mut Wire,
    parameters: &[(&str, &str)],
    password: &str,
) -> Vec<Answer> {
    begin_with(wire, parameters).await;
    wire.send(&first()).await;
    let answer = wire.receive().await.unwrap();
    wire.send(&last(&answer, password)).await;
    wire.until_ready_or_closed().await
}
