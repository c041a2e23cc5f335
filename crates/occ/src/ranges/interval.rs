//! Half-open key intervals, as a scan leaves them.
//!
//! ```text
//!            lower        upper
//!   ···········[────────────)···········     without an upper bound, up to the end
//!   is_below ▲                ▲ is_above     for keys wholly outside the interval: the
//!                                            bounds touch, and no key is in both
//! ```

use smallvec::SmallVec;

/// A key at one end. Most are short, and need no allocation.
pub(crate) type End = SmallVec<[u8; 32]>;

/// The keys at or above `lower` and below `upper`, or all at or above `lower`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    lower: End,
    upper: Option<End>,
}

impl Interval {
    /// The interval of these keys; without an upper bound, of all keys from the lower one
    /// on.
    #[must_use]
    pub fn new(lower: &[u8], upper: Option<&[u8]>) -> Self {
        Self {
            lower: End::from_slice(lower),
            upper: upper.map(End::from_slice),
        }
    }

    /// The least key of the interval.
    #[must_use]
    pub fn lower(&self) -> &[u8] {
        &self.lower
    }

    /// The first key above the interval, if it has an upper bound.
    #[must_use]
    pub fn upper(&self) -> Option<&[u8]> {
        self.upper.as_deref()
    }

    /// Whether every key between these bounds is in the interval.
    pub(crate) fn covers(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        let covers_upper = match (self.upper(), upper) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(end), Some(upper)) => end >= upper,
        };
        self.lower() <= lower && covers_upper
    }

    /// Whether the interval is wholly above keys that end below `upper`.
    pub(crate) fn is_above(&self, upper: Option<&[u8]>) -> bool {
        upper.is_some_and(|end| end <= self.lower())
    }

    /// Whether the interval is wholly below keys that begin at `lower`.
    pub(crate) fn is_below(&self, lower: &[u8]) -> bool {
        self.upper().is_some_and(|end| end <= lower)
    }

    /// Extends the interval by keys that it covers already or that are adjacent. False
    /// when the keys are neither, and the interval is unchanged.
    pub fn extend(&mut self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        if self.covers(lower, upper) {
            return true;
        }
        if self.upper() == Some(lower) {
            self.upper = upper.map(End::from_slice);
            true
        } else if upper == Some(self.lower()) {
            self.lower.clear();
            self.lower.extend_from_slice(lower);
            true
        } else {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(lower: &str, upper: Option<&str>) -> Interval {
        Interval::new(lower.as_bytes(), upper.map(str::as_bytes))
    }

    #[test]
    fn it_covers_what_is_between_its_bounds() {
        let bounded = interval("d", Some("g"));
        assert!(bounded.covers(b"d", Some(b"g")) && bounded.covers(b"e", Some(b"f")));
        assert!(!bounded.covers(b"c", Some(b"g")));
        assert!(!bounded.covers(b"d", Some(b"g\0")));
        assert!(!bounded.covers(b"d", None));
        let open = interval("d", None);
        assert!(open.covers(b"d", None) && open.covers(b"x", Some(b"z")));
        assert!(!open.covers(b"c", None));
        assert!(interval("", None).covers(b"", None));
    }

    #[test]
    fn what_touches_it_lies_beside_it() {
        let bounded = interval("d", Some("g"));
        assert!(bounded.is_above(Some(b"d")) && !bounded.is_above(Some(b"d\0")));
        assert!(!bounded.is_above(None), "they go on to the end");
        assert!(bounded.is_below(b"g") && !bounded.is_below(b"f"));
        assert!(!interval("d", None).is_below(b"z"));
    }

    #[test]
    fn it_grows_on_both_sides_and_over_no_gap() {
        let mut grown = interval("d", Some("g"));
        assert!(grown.extend(b"g", Some(b"k")));
        assert_eq!(grown, interval("d", Some("k")));
        assert!(grown.extend(b"b", Some(b"d")));
        assert_eq!(grown, interval("b", Some("k")));
        assert!(grown.extend(b"c", Some(b"j")), "covered");
        for (lower, upper) in [("l", Some("m")), ("a", Some("a\0")), ("a", Some("c"))] {
            let (lower, upper) = (lower.as_bytes(), upper.map(str::as_bytes));
            assert!(!grown.extend(lower, upper), "{lower:?}");
        }
        assert_eq!(grown, interval("b", Some("k")));
        assert!(grown.extend(b"k", None));
        assert_eq!(grown, interval("b", None));
        assert!(
            !grown.extend(b"a", None),
            "begins before it, and not beside"
        );
    }
}
