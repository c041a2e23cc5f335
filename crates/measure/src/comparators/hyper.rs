//! Record layout after HyPer: the newest version in the header, the older ones in a list
//! from the newest to the oldest.

use coeval_storage::chain::Displaced;
use coeval_storage::{Value, Version};
use coeval_types::Timestamp;

use super::header::Header;

/// A header with the newest version in place, or the lock holder's private one.
pub struct InPlace(Displaced);

impl Header for InPlace {
    const NAME: &'static str = "HyPer style";

    fn with(first: Value) -> Self {
        Self(Displaced::of(Timestamp::from_bits(1), first))
    }

    #[inline]
    fn read(&self, snapshot: Timestamp) -> Option<Version<'_>> {
        if let Some(newest) = self.0.in_place(snapshot) {
            return Some(newest);
        }
        let mut jumps = 0;
        for node in self.0.older().nodes() {
            jumps += 1;
            let cts = node.cts();
            if cts <= snapshot {
                return Some(node.version(cts, jumps));
            }
        }
        None
    }

    fn put(&self, value: Value) {
        self.0.displace(value);
    }

    fn stamp(&self, cts: Timestamp) {
        self.0.stamp(cts);
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
