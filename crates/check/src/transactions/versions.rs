//! The versions of all objects: the writer of each, its readers, and its successors.
//!
//! Lists and registers are both converted to this form, and from here on the judge does not
//! distinguish them:
//!
//! ```text
//! versions of key 5     absent ────► [1] ────► [1 2] ────► [1 2 4]
//! written by              –           T3         T0           T7
//! read by                T3           T0       T1, T2          –
//!
//! edges                 T3 wr T0    T3 ww T0    T0 wr T1, T2    T1, T2 rw T7  …
//! ```
//!
//! For each version v and each direct successor s of it:
//!
//! - writer(v) **ww** writer(s),
//! - writer(v) **wr** each reader of v,
//! - each reader of v **rw** writer(s).
//!
//! An order of versions may be partial; then the successors of a version are those that are
//! known to be later and not known to have another in between. A path of edges implies no
//! less than Adya's direct dependency: an rw edge may represent an rw edge followed by ww
//! edges, never anything else. A successor *of readers* has rw edges alone.
//!
//! Source: Adya, "Weak Consistency: A Generalized Theory and Optimistic
//! Implementations for Distributed Transactions", 1999, §3.1 and §4.4.

use super::graph::{Edges, edge, number};
use crate::history::Register;

/// Denotes the absence of a transaction: the initial state, or an unknown writer.
pub(super) const NOBODY: u32 = u32::MAX;

/// The version of an object, by its index in [`Versions`].
pub(super) type Version = u32;

/// The fact that one version directly precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Successor {
    pub(super) before: Version,
    pub(super) after: Version,
    /// Whether the fact holds only if no update is lost: then readers of the first version
    /// missed the second, and nothing is known about the writers.
    pub(super) of_readers: bool,
    /// Whether the fact was inferred from the order of processes or of real time.
    pub(super) by_order: bool,
}

/// All versions of all objects of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions {
    keys: Vec<u64>,
    /// The label of each version: the value that a read of a register shows, or the last
    /// element that a read of a list shows.
    labels: Vec<Register>,
    writers: Vec<u32>,
    /// Pairs of version and reading transaction, sorted, each once.
    readers: Vec<(Version, u32)>,
    /// Sorted, each pair once.
    successors: Vec<Successor>,
}

/// The versions of an object between which an edge leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    /// The key of the object.
    pub key: u64,
    /// The version that the source wrote or read: a value, or a list's last element.
    pub from: Register,
    /// The version that the target wrote or read.
    pub to: Register,
}

impl Versions {
    /// Adds a version with its writer.
    pub(super) fn add(&mut self, key: u64, label: Register, writer: u32) -> Version {
        self.keys.push(key);
        self.labels.push(label);
        self.writers.push(writer);
        number(self.keys.len() - 1)
    }

    /// Records that a transaction read a version.
    pub(super) fn read(&mut self, version: Version, reader: u32) {
        self.readers.push((version, reader));
    }

    /// Records that a version directly precedes another.
    pub(super) fn order(&mut self, before: Version, after: Version, by_order: bool) {
        self.successors.push(Successor {
            before,
            after,
            of_readers: false,
            by_order,
        });
    }

    /// Records that every reader of a version missed another, if no update is lost.
    pub(super) fn missed(&mut self, read: Version, later: Version) {
        self.successors.push(Successor {
            before: read,
            after: later,
            of_readers: true,
            by_order: false,
        });
    }

    /// Sorts the collected facts. Called after the last addition.
    pub(super) fn seal(&mut self) {
        self.readers.sort_unstable();
        self.readers.dedup();
        self.successors.sort_unstable();
        // Facts that hold without an assumed order sort first, and are kept.
        self.successors
            .dedup_by_key(|one| (one.before, one.after, one.of_readers));
    }

    /// Number of versions.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key of a version's object.
    pub(super) fn key(&self, version: Version) -> u64 {
        self.keys[version as usize]
    }

    /// The label of a version: what a read of it shows.
    pub(super) fn label(&self, version: Version) -> Register {
        self.labels[version as usize]
    }

    /// The transaction that wrote the version.
    pub(super) fn writer(&self, version: Version) -> u32 {
        self.writers[version as usize]
    }

    /// The transactions that read the version, each with the version.
    pub(super) fn readers(&self, version: Version) -> &[(Version, u32)] {
        let start = self.readers.partition_point(|(read, _)| *read < version);
        let length = self.readers[start..].partition_point(|(read, _)| *read == version);
        &self.readers[start..start + length]
    }

    /// Adds the edges of all dependencies between transactions.
    pub(super) fn edges(&self, edges: &mut Edges) {
        let mut readers = self.readers.as_slice();
        let mut successors = self.successors.as_slice();
        let mut sources = Vec::new();
        let mut targets: [Vec<u32>; 3] = Default::default();
        for version in 0..number(self.len()) {
            let here = readers.iter().take_while(|(read, _)| *read == version);
            let (here, rest) = readers.split_at(here.count());
            readers = rest;
            let next = successors.iter();
            let next = next.take_while(|successor| successor.before == version);
            let (next, rest) = successors.split_at(next.count());
            successors = rest;

            let writer = self.writer(version);
            sources.clear();
            if writer != NOBODY {
                sources.push((writer, edge::WW));
            }
            for (_, reader) in here {
                // A transaction that read its own write depends on no other.
                if *reader != writer {
                    sources.push((*reader, edge::RW));
                    if writer != NOBODY {
                        edges.add(writer, *reader, edge::WR);
                    }
                }
            }
            const PLAIN: usize = 0;
            const BY_ORDER: usize = 1;
            const OF_READERS: usize = 2;
            for successor in next {
                let kind = match successor {
                    Successor {
                        of_readers: true, ..
                    } => OF_READERS,
                    Successor { by_order: true, .. } => BY_ORDER,
                    _ => PLAIN,
                };
                targets[kind].push(self.writer(successor.after));
            }
            for (kind, targets) in targets.iter_mut().enumerate() {
                match kind {
                    BY_ORDER => {
                        for (_, says) in &mut sources {
                            *says |= edge::BY_ORDER;
                        }
                    }
                    OF_READERS => {
                        sources.retain(|(_, says)| says & edge::RW != 0);
                        for (_, says) in &mut sources {
                            *says = edge::RW;
                        }
                    }
                    _ => {}
                }
                targets.retain(|target| *target != NOBODY);
                targets.sort_unstable();
                targets.dedup();
                if !targets.is_empty() {
                    edges.all_pairs(&sources, targets);
                }
                targets.clear();
            }
        }
    }

    /// Finds the versions because of which there is an edge of this kind between two
    /// transactions. Searches all versions, so it is only for the few edges of a cycle.
    pub(super) fn between(&self, from: u32, to: u32, kind: u8) -> Option<Between> {
        let is_source = |version: Version| match kind {
            edge::RW => {
                let readers = self.readers(version);
                self.writer(version) != from && readers.binary_search(&(version, from)).is_ok()
            }
            _ => self.writer(version) == from,
        };
        let found = if kind == edge::WR {
            let mut read = self.readers.iter().filter(|(_, reader)| *reader == to);
            let version = read.find(|(version, _)| is_source(*version))?.0;
            (version, version)
        } else {
            let mut next = self.successors.iter();
            let successor = next.find(|successor| {
                (kind == edge::RW || !successor.of_readers)
                    && self.writer(successor.after) == to
                    && is_source(successor.before)
            })?;
            (successor.before, successor.after)
        };
        Some(Between {
            key: self.key(found.0),
            from: self.label(found.0),
            to: self.label(found.1),
        })
    }
}
