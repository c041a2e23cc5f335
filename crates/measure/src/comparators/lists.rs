//! Record layouts that keep all versions in one list: from the newest to the oldest
//! (N2O), and from the oldest to the newest (O2N).

use coeval_storage::chain::{Chain, Queue};
use coeval_storage::{Value, Version};
use coeval_types::Timestamp;

use super::header::Header;

/// Every version in a list, the newest first.
pub struct NewestFirst(Chain);

impl Header for NewestFirst {
    const NAME: &'static str = "pure N2O";

    fn with(first: Value) -> Self {
        let versions = Chain::default();
        versions.push(Timestamp::from_bits(1), first);
        Self(versions)
    }

    #[inline]
    fn read(&self, snapshot: Timestamp) -> Option<Version<'_>> {
        let mut jumps = 0;
        for node in self.0.nodes() {
            jumps += 1;
            let cts = node.cts();
            if cts <= snapshot {
                return Some(node.version(cts, jumps));
            }
        }
        None
    }

    fn put(&self, value: Value) {
        self.0.push(Timestamp::INFINITE, value);
    }

    fn stamp(&self, cts: Timestamp) {
        let newest = self.0.nodes().next();
        newest.expect("the holder's private one").stamp(cts);
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// Every version in a list, the oldest first.
pub struct OldestFirst(Queue);

impl Header for OldestFirst {
    const NAME: &'static str = "pure O2N";

    fn with(first: Value) -> Self {
        Self(Queue::of(Timestamp::from_bits(1), first))
    }

    #[inline]
    fn read(&self, snapshot: Timestamp) -> Option<Version<'_>> {
        let mut found = None;
        let mut jumps = 0;
        for node in self.0.nodes() {
            let cts = node.cts();
            if cts > snapshot {
                break;
            }
            jumps += 1;
            found = Some((node, cts));
        }
        found.map(|(node, cts)| node.version(cts, jumps))
    }

    fn put(&self, value: Value) {
        self.0.push(Timestamp::INFINITE, value);
    }

    fn stamp(&self, cts: Timestamp) {
        self.0.last().stamp(cts);
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
