//! Integers in as few bytes as they need: seven bits a byte, the lowest first, the top
//! bit set in all but the last.

/// How many bytes `value` takes.
pub(crate) const fn bytes(value: u64) -> u64 {
    let bits = (u64::BITS - value.leading_zeros()) as u64;
    if bits == 0 { 1 } else { bits.div_ceil(7) }
}
