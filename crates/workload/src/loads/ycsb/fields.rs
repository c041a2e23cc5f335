//! Contents of YCSB fields, which show whether a field is whole.
//!
//! ```text
//!   tag, 8 hexadecimal digits │ letters that follow from tag, key and field
//! ```

use coeval_types::RowRef;

use crate::chance::Chance;
use crate::store::Cells;

/// Length of a tag, in bytes.
pub(in super::super) const TAG: usize = 8;

/// Builds a field's text. Only the lower 32 bits of the tag are significant.
pub(in super::super) fn fill(text: &mut String, key: u64, field: usize, tag: u64, bytes: usize) {
    use std::fmt::Write;
    text.clear();
    let tag = tag as u32;
    // Writing to a string does not fail.
    let _ = write!(text, "{tag:08x}");
    let mut chance = chance(key, field, tag);
    while text.len() < bytes {
        let mut bits = chance.next();
        // Twelve letters of five bits each, out of an alphabet of 32 single-byte letters.
        for _ in 0..12.min(bytes - text.len()) {
            text.push(char::from(b'@' + (bits & 31) as u8));
            bits >>= 5;
        }
    }
}

fn chance(key: u64, field: usize, tag: u32) -> Chance {
    Chance::of(key, u64::from(tag) << 8 | field as u64)
}

/// The tag of a field, if it has one.
pub(in super::super) fn tag(text: &str) -> Option<u32> {
    u32::from_str_radix(text.get(..TAG)?, 16).ok()
}

/// Whether the fields of a row match their tags and the row's key.
pub(in super::super) fn is_whole(row: RowRef<'_>, fields: usize, bytes: usize) -> bool {
    let key = row.integer(0).cast_unsigned();
    (0..fields).all(|field| {
        let Some(tag) = tag(row.text(field + 1)) else {
            return false;
        };
        let text = row.text(field + 1).as_bytes();
        if text.len() != bytes {
            return false;
        }
        let mut chance = chance(key, field, tag);
        text[TAG..].chunks(12).all(|letters| {
            let mut bits = chance.next();
            letters.iter().all(|&letter| {
                let expected = b'@' + (bits & 31) as u8;
                bits >>= 5;
                letter == expected
            })
        })
    })
}
