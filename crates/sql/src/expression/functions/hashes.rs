//! Built-in SQL functions that hash: `md5`, `sha256` and their like, and `digest`, `hmac` and
//! `gen_random_bytes` of the extension pgcrypto.

use std::sync::Arc;

use md5::Md5;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::kinds::{BYTEA, INT4, TEXT};
use crate::expression::EvaluationContext;
use crate::expression::function::{Arguments, Function, Place};
use crate::value::Value;
use crate::value::types::bytes::hex;
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("md5", &[TEXT], TEXT, md5_of),
    Function::new("md5", &[BYTEA], TEXT, md5_of),
    Function::new("sha224", &[BYTEA], BYTEA, |a, context| {
        Hash::Sha224.of(&[a.bytes(0)], context).map(bytes)
    }),
    Function::new("sha256", &[BYTEA], BYTEA, |a, context| {
        Hash::Sha256.of(&[a.bytes(0)], context).map(bytes)
    }),
    Function::new("sha384", &[BYTEA], BYTEA, |a, context| {
        Hash::Sha384.of(&[a.bytes(0)], context).map(bytes)
    }),
    Function::new("sha512", &[BYTEA], BYTEA, |a, context| {
        Hash::Sha512.of(&[a.bytes(0)], context).map(bytes)
    }),
    Function::new("digest", &[TEXT, TEXT], BYTEA, digest),
    Function::new("digest", &[BYTEA, TEXT], BYTEA, digest),
    Function::new("hmac", &[TEXT, TEXT, TEXT], BYTEA, hmac),
    Function::new("hmac", &[BYTEA, BYTEA, TEXT], BYTEA, hmac),
    Function::new("gen_random_bytes", &[INT4], BYTEA, |a, _| {
        let length = usize::try_from(a.integer(0)).unwrap_or(0);
        if !(1..=1024).contains(&length) {
            return Err(Error::new(SqlState("39000"), "Length not in range"));
        }
        let mut random = vec![0; length];
        coeval_env::random_bytes(&mut random);
        Ok(bytes(random))
    })
    .volatile(Place::Anywhere),
];

/// Bytes that are hashed between two looks at the work meter.
const CHUNK: usize = 16 << 10;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    fn named(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "md5" => Self::Md5,
            "sha1" => Self::Sha1,
            "sha224" => Self::Sha224,
            "sha256" => Self::Sha256,
            "sha384" => Self::Sha384,
            "sha512" => Self::Sha512,
            _ => {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("Cannot use \"{name}\": No such hash algorithm"),
                ));
            }
        })
    }

    /// Length of the blocks that the function hashes, in bytes.
    const fn block(self) -> usize {
        match self {
            Self::Md5 | Self::Sha1 | Self::Sha224 | Self::Sha256 => 64,
            Self::Sha384 | Self::Sha512 => 128,
        }
    }

    /// The hash of these bytes, one after the other.
    pub(super) fn of(
        self,
        parts: &[&[u8]],
        context: &mut EvaluationContext<'_>,
    ) -> Result<Vec<u8>> {
        match self {
            Self::Md5 => run::<Md5>(parts, context),
            Self::Sha1 => {
                let algorithm = &ring::digest::SHA1_FOR_LEGACY_USE_ONLY;
                let mut state = ring::digest::Context::new(algorithm);
                each_chunk(parts, context, &mut |chunk| state.update(chunk))?;
                Ok(state.finish().as_ref().to_vec())
            }
            Self::Sha224 => run::<Sha224>(parts, context),
            Self::Sha256 => run::<Sha256>(parts, context),
            Self::Sha384 => run::<Sha384>(parts, context),
            Self::Sha512 => run::<Sha512>(parts, context),
        }
    }
}

fn each_chunk(
    parts: &[&[u8]],
    context: &mut EvaluationContext<'_>,
    visit: &mut dyn FnMut(&[u8]),
) -> Result<()> {
    for chunk in parts.iter().flat_map(|part| part.chunks(CHUNK)) {
        context.work(chunk.len())?;
        visit(chunk);
    }
    Ok(())
}

fn run<D: Digest>(parts: &[&[u8]], context: &mut EvaluationContext<'_>) -> Result<Vec<u8>> {
    let mut state = D::new();
    each_chunk(parts, context, &mut |chunk| state.update(chunk))?;
    Ok(state.finalize().as_slice().to_vec())
}

fn bytes(bytes: Vec<u8>) -> Value {
    Value::Bytes(Arc::from(bytes))
}

fn md5_of(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let hash = Hash::Md5.of(&[a.bytes(0)], context)?;
    let digits: Vec<u8> = hash.into_iter().flat_map(hex).collect();
    Ok(Value::text(String::from_utf8_lossy(&digits)))
}

fn digest(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    Hash::named(a.text(1))?
        .of(&[a.bytes(0)], context)
        .map(bytes)
}

/// RFC 2104: `H(key ⊕ 5c…, H(key ⊕ 36…, data))`.
fn hmac(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let hash = Hash::named(a.text(2))?;
    let mut key = a.bytes(1).to_vec();
    if key.len() > hash.block() {
        key = hash.of(&[&key], context)?;
    }
    key.resize(hash.block(), 0);
    let padded = |pad: u8| key.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>();
    let inner = hash.of(&[&padded(0x36), a.bytes(0)], context)?;
    hash.of(&[&padded(0x5C), &inner], context).map(bytes)
}
