//! Variable-length integers (LEB128): seven bits a byte, the lowest first, the top bit
//! set in all bytes but the last.

/// Most bytes that a value takes.
pub(crate) const MAX_BYTES: usize = 10;

/// Appends `value` to `out`.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a value off the front of `bytes`; `None` when they end too early or the
/// value does not fit 64 bits.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7F);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_come_back(value: u64, shift in 0..64_u32) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            prop_assert!(bytes.len() <= MAX_BYTES);
            let mut rest = &bytes[..];
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert!(rest.is_empty());
            for length in 0..bytes.len() {
                prop_assert_eq!(take(&mut &bytes[..length]), None);
            }
        }
    }

    #[test]
    fn too_many_bits_are_refused() {
        assert_eq!(take(&mut &[0xFF; 11][..]), None);
        let mut largest = [0xFF; 10];
        largest[9] = 1;
        assert_eq!(take(&mut &largest[..]), Some(u64::MAX));
        largest[9] = 2;
        assert_eq!(take(&mut &largest[..]), None);
    }
}
