//! Built-in SQL functions that make values of type uuid: `gen_random_uuid`, and those of the
//! extension uuid-ossp.

use super::hashes::Hash;
use super::kinds::{TEXT, UUID};
use crate::Result;
use crate::expression::EvaluationContext;
use crate::expression::function::{Arguments, Function, Place};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("gen_random_uuid", &[], UUID, random).volatile(Place::Anywhere),
    Function::new("uuid_generate_v4", &[], UUID, random).volatile(Place::Anywhere),
    // The node is random in both, and has the bit that no network card's address has.
    Function::new("uuid_generate_v1", &[], UUID, by_time).volatile(Place::Anywhere),
    Function::new("uuid_generate_v1mc", &[], UUID, by_time).volatile(Place::Anywhere),
    Function::new("uuid_generate_v3", &[UUID, TEXT], UUID, |a, context| {
        named(a, 3, Hash::Md5, context)
    }),
    Function::new("uuid_generate_v5", &[UUID, TEXT], UUID, |a, context| {
        named(a, 5, Hash::Sha1, context)
    }),
    Function::new("uuid_nil", &[], UUID, |_, _| Ok(Value::Uuid([0; 16]))),
    Function::new("uuid_ns_dns", &[], UUID, |_, _| Ok(name_space(0x10))),
    Function::new("uuid_ns_url", &[], UUID, |_, _| Ok(name_space(0x11))),
    Function::new("uuid_ns_oid", &[], UUID, |_, _| Ok(name_space(0x12))),
    Function::new("uuid_ns_x500", &[], UUID, |_, _| Ok(name_space(0x14))),
];

/// A name space of RFC 4122, appendix C: they differ in the fourth byte.
const fn name_space(number: u8) -> Value {
    Value::Uuid([
        0x6b, 0xa7, 0xb8, number, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30,
        0xc8,
    ])
}

/// Sets the version and the variant.
fn versioned(mut bytes: [u8; 16], version: u8) -> Value {
    bytes[6] = bytes[6] & 0x0F | version << 4;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    Value::Uuid(bytes)
}

fn random(_: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    let mut bytes = [0; 16];
    coeval_env::random_bytes(&mut bytes);
    Ok(versioned(bytes, 4))
}

/// Microseconds from the first day of the Gregorian calendar to that of Unix.
const GREGORIAN: u128 = 12_219_292_800_000_000;

/// Version 1: tenths of microseconds, a random clock sequence and a random node.
fn by_time(_: Arguments<'_>, _: &mut EvaluationContext<'_>) -> Result<Value> {
    let mut bytes = [0; 16];
    coeval_env::random_bytes(&mut bytes);
    let micros = coeval_env::wall_clock().as_micros() + GREGORIAN;
    // The last digit, which the clock does not have, is random.
    let time = (micros * 10 + u128::from(bytes[0] % 10)) as u64;
    bytes[..4].copy_from_slice(&(time as u32).to_be_bytes());
    bytes[4..6].copy_from_slice(&((time >> 32) as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&((time >> 48) as u16).to_be_bytes());
    bytes[10] |= 0x01;
    Ok(versioned(bytes, 1))
}

/// Versions 3 and 5: the hash of a name in a name space.
fn named(
    a: Arguments<'_>,
    version: u8,
    hash: Hash,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    let Some(Value::Uuid(space)) = a.values.first() else {
        return Ok(Value::Null);
    };
    let hashed = hash.of(&[space, a.text(1).as_bytes()], context)?;
    let mut bytes = [0; 16];
    for (byte, hashed) in bytes.iter_mut().zip(hashed) {
        *byte = hashed;
    }
    Ok(versioned(bytes, version))
}
