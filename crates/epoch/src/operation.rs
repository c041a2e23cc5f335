//! Operations: what a transaction does to one key, and what a version therefore is.
//!
//! A version is a value, the absence of one, or something to be computed once its epoch is
//! closed (a functor, in the words of ALOHA-DB). The store orders, keeps, logs and collects all
//! three alike and looks into none; only a reader tells them apart. Nothing computes a functor:
//! a read that meets one says so ([`Found::ToCompute`]).

use bytes::Bytes;

/// A key: any bytes.
pub type Key = Bytes;

/// What a transaction does to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The key has this value from then on.
    Value(Bytes),
    /// The key has no value from then on.
    Delete,
    /// The key's value is to be computed from this.
    Compute(Bytes),
}

impl Operation {
    /// Bytes of its contents.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Value(bytes) | Self::Compute(bytes) => bytes.len(),
            Self::Delete => 0,
        }
    }

    /// The same with contents of its own: ones that were cut out of a longer message keep all of that
    /// message in memory.
    pub(crate) fn detached(&self) -> Self {
        match self {
            Self::Value(bytes) => Self::Value(Bytes::copy_from_slice(bytes)),
            Self::Delete => Self::Delete,
            Self::Compute(bytes) => Self::Compute(Bytes::copy_from_slice(bytes)),
        }
    }

    /// Whether it has no contents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: Key,
    /// What happens to it.
    pub operation: Operation,
}

/// What a read finds under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No value, at that timestamp.
    Nothing,
    /// A value.
    Value(Bytes),
    /// A version that has not been computed.
    ToCompute(Bytes),
}

impl From<&Operation> for Found {
    fn from(operation: &Operation) -> Self {
        match operation {
            Operation::Value(bytes) => Self::Value(bytes.clone()),
            Operation::Delete => Self::Nothing,
            Operation::Compute(bytes) => Self::ToCompute(bytes.clone()),
        }
    }
}
