//! The directory: the part of the cluster's state that the council keeps. A [`Machine`] whose
//! state is the [`Configuration`].
//!
//! | decision | proposed when | effect |
//! | --- | --- | --- |
//! | found | a cluster begins | the first configuration |
//! | admit | a front end has started | its new incarnation, from an epoch on |
//! | fence | a front end is dead | its number is gone; what it left are orphans |
//! | readmit | a back end has started again, with its log | its new incarnation |
//! | remove | a back end is dead | its copies are gone; refused for the last copy |
//! | place | a partition lacks a copy | a node begins to make one; a stranger comes in empty |
//! | promote | it has made it | the copy is whole |
//!
//! No close of an epoch is among them. Invariant: the version grows with each change.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use coeval_council::{Machine, NodeId, Position, RestoreFailed};

use crate::codec::{Malformed, Reader, put_u64};
use crate::configuration::{Configuration, FrontEndPlace};
use crate::timestamp::{Epoch, FrontEndId};

/// A change of the configuration. See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The first configuration of a cluster.
    Found(Configuration),
    /// A front end, in place of an earlier incarnation that may have drawn up to this epoch.
    Admit(FrontEndId, FrontEndPlace, Epoch),
    /// This incarnation of a front end is gone, and may have drawn up to this epoch.
    Fence(FrontEndId, u64, Epoch),
    /// A back end has a new incarnation.
    Readmit(NodeId, u64),
    /// A back end is gone.
    Remove(NodeId),
    /// This incarnation of a node makes copies of partitions: of what is later than an epoch by
    /// taking it, of the rest from a whole copy.
    Place(NodeId, u64, Vec<usize>, Epoch),
    /// This incarnation of a node has made its copy of a partition.
    Promote(NodeId, u64, usize),
}

const FOUND: u8 = 0;
const ADMIT: u8 = 1;
const FENCE: u8 = 2;
const READMIT: u8 = 3;
const REMOVE: u8 = 4;
const PLACE: u8 = 5;
const PROMOTE: u8 = 6;

impl Decision {
    /// The decision as an entry of the council.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            Self::Found(configuration) => {
                out.push(FOUND);
                configuration.encode(&mut out);
            }
            Self::Admit(id, place, orphans) => {
                out.extend([ADMIT, id.0]);
                let fields = [place.node.0, place.incarnation, place.first.0, orphans.0];
                fields.iter().for_each(|field| put_u64(&mut out, *field));
            }
            Self::Fence(id, incarnation, orphans) => {
                out.extend([FENCE, id.0]);
                put_u64(&mut out, *incarnation);
                put_u64(&mut out, orphans.0);
            }
            Self::Readmit(node, incarnation) => {
                out.push(READMIT);
                put_u64(&mut out, node.0);
                put_u64(&mut out, *incarnation);
            }
            Self::Remove(node) => {
                out.push(REMOVE);
                put_u64(&mut out, node.0);
            }
            Self::Place(node, incarnation, partitions, after) => {
                out.push(PLACE);
                let fields = [node.0, *incarnation, after.0, partitions.len() as u64];
                fields.iter().for_each(|field| put_u64(&mut out, *field));
                let partitions = partitions.iter();
                partitions.for_each(|partition| put_u64(&mut out, *partition as u64));
            }
            Self::Promote(node, incarnation, partition) => {
                out.push(PROMOTE);
                let fields = [node.0, *incarnation, *partition as u64];
                fields.iter().for_each(|field| put_u64(&mut out, *field));
            }
        }
        out.into()
    }

    /// The decision of an entry.
    ///
    /// # Errors
    /// When the entry is none.
    pub fn decode(entry: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(Bytes::copy_from_slice(entry));
        let decision = match reader.u8()? {
            FOUND => Self::Found(Configuration::decode(&mut reader)?),
            ADMIT => {
                let id = FrontEndId(reader.u8()?);
                let place = FrontEndPlace {
                    node: NodeId(reader.u64()?),
                    incarnation: reader.u64()?,
                    first: reader.epoch()?,
                };
                Self::Admit(id, place, reader.epoch()?)
            }
            FENCE => {
                let id = FrontEndId(reader.u8()?);
                Self::Fence(id, reader.u64()?, reader.epoch()?)
            }
            READMIT => Self::Readmit(NodeId(reader.u64()?), reader.u64()?),
            REMOVE => Self::Remove(NodeId(reader.u64()?)),
            PLACE => {
                let (node, incarnation) = (NodeId(reader.u64()?), reader.u64()?);
                let after = reader.epoch()?;
                let count = reader.u64()?;
                let partitions = (0..count).map(|_| reader.index());
                let partitions = partitions.collect::<Result<_, _>>()?;
                Self::Place(node, incarnation, partitions, after)
            }
            PROMOTE => {
                let (node, incarnation) = (NodeId(reader.u64()?), reader.u64()?);
                Self::Promote(node, incarnation, reader.index()?)
            }
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(decision)
    }
}

/// The configuration after all decisions so far, shared with the node that hosts the machine.
#[derive(Clone, Debug, Default)]
pub struct Directory(Arc<Mutex<Arc<Configuration>>>);

impl Directory {
    /// The configuration in force.
    #[must_use]
    pub fn configuration(&self) -> Arc<Configuration> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, configuration: Configuration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(configuration);
    }

    /// Applies a decision. Returns whether it changed anything: one that was overtaken by
    /// another does not.
    pub fn decide(&self, decision: &Decision) -> bool {
        let before = self.configuration();
        let mut after = Configuration::clone(&before);
        match decision {
            Decision::Found(configuration) if before.version == 0 => {
                after = configuration.clone();
                after.version = 0;
            }
            Decision::Admit(id, place, orphans) => {
                if !before.may_admit(*id, place.incarnation) {
                    return false;
                }
                after.front_ends.insert(*id, *place);
                after.orphans_through = before.orphans_through.max(*orphans);
            }
            Decision::Fence(id, incarnation, orphans) => {
                let place = before.front_ends.get(id);
                if place.is_none_or(|place| place.incarnation != *incarnation) {
                    return false;
                }
                after.front_ends.remove(id);
                after.fenced.insert(*id, *incarnation);
                after.orphans_through = before.orphans_through.max(*orphans);
            }
            Decision::Readmit(node, incarnation) => {
                // Whatever copy it was making is not whole: it comes in again, empty.
                if !before.partitions.is_empty() && !before.hosts_any(*node) {
                    return false;
                }
                match after.back_ends.get_mut(node) {
                    Some(known) if *known < *incarnation => *known = *incarnation,
                    _ => return false,
                };
            }
            Decision::Remove(node) if before.only_on(*node).is_empty() => {
                let Some(incarnation) = after.back_ends.remove(node) else {
                    return false;
                };
                after.removed.insert(*node, incarnation);
                after.enlisted.remove(node);
                after.joining.retain(|(_, other), _| other != node);
                for copies in &mut after.partitions {
                    copies.retain(|other| other != node);
                }
            }
            Decision::Place(node, incarnation, partitions, epoch) => {
                if before.may_enlist(*node, *incarnation) {
                    after.back_ends.insert(*node, *incarnation);
                    after.enlisted.insert(*node, *incarnation);
                } else if !before.is_back_end(*node, *incarnation) {
                    return false;
                }
                for &partition in partitions {
                    let exists = partition < before.partitions.len();
                    if exists && !before.hosts(*node, partition) {
                        after.joining.entry((partition, *node)).or_insert(*epoch);
                    }
                }
            }
            Decision::Promote(node, incarnation, partition) => {
                let is_joining = after.joining.remove(&(*partition, *node)).is_some();
                if !is_joining || !before.is_back_end(*node, *incarnation) {
                    return false;
                }
                if let Some(copies) = after.partitions.get_mut(*partition) {
                    copies.push(*node);
                }
            }
            Decision::Found(_) | Decision::Remove(_) => {}
        }
        if after == *before {
            return false;
        }
        after.version = before.version + 1;
        self.set(after);
        true
    }
}

impl Machine for Directory {
    fn apply(&mut self, _at: Position, entry: &[u8]) -> Bytes {
        // An entry of a newer program, or of none: it changes nothing here.
        let changed = Decision::decode(entry).is_ok_and(|decision| self.decide(&decision));
        Bytes::from(vec![u8::from(changed)])
    }

    fn snapshot(&self) -> Bytes {
        let mut out = Vec::new();
        self.configuration().encode(&mut out);
        out.into()
    }

    fn restore(&mut self, snapshot: Option<&[u8]>) -> Result<(), RestoreFailed> {
        let Some(snapshot) = snapshot else {
            self.set(Configuration::default());
            return Ok(());
        };
        let mut reader = Reader::new(Bytes::copy_from_slice(snapshot));
        let read = Configuration::decode(&mut reader);
        let whole = read.and_then(|configuration| reader.end().map(|()| configuration));
        self.set(whole.map_err(|_| RestoreFailed("it is no configuration of epochs"))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use coeval_council::{Lsn, Term};

    use super::*;

    fn founded() -> Configuration {
        Configuration {
            partitions: vec![vec![NodeId(1), NodeId(2)], vec![NodeId(2), NodeId(3)]],
            back_ends: (1..=3).map(|node| (NodeId(node), 1)).collect(),
            degree: 2,
            ..Configuration::default()
        }
    }

    fn place(incarnation: u64) -> FrontEndPlace {
        FrontEndPlace {
            node: NodeId(1),
            incarnation,
            first: Epoch(8),
        }
    }

    #[test]
    fn decisions_come_back_and_a_snapshot_is_the_state() {
        let decisions = [
            Decision::Found(founded()),
            Decision::Admit(FrontEndId(1), place(4), Epoch(7)),
            Decision::Fence(FrontEndId(1), 4, Epoch(9)),
            Decision::Readmit(NodeId(2), 5),
            Decision::Remove(NodeId(3)),
            Decision::Place(NodeId(4), 6, vec![0, 1], Epoch(11)),
            Decision::Promote(NodeId(4), 6, 1),
        ];
        let mut directory = Directory::default();
        for (index, decision) in decisions.iter().enumerate() {
            let entry = decision.encode();
            assert!(entry.len() <= coeval_council::MAX_ENTRY_BYTES);
            assert_eq!(Decision::decode(&entry).as_ref(), Ok(decision));
            for length in 0..entry.len() {
                Decision::decode(&entry[..length]).unwrap_err();
            }
            let at = Position {
                term: Term(1),
                end: Lsn(index as u64),
            };
            directory.apply(at, &entry);
        }
        let now = directory.configuration();
        assert_eq!(
            now.partitions,
            [vec![NodeId(1), NodeId(2)], vec![NodeId(2), NodeId(4)]]
        );
        assert_eq!(now.joining, [((0, NodeId(4)), Epoch(11))].into());
        assert_eq!(now.removed, [(NodeId(3), 1)].into());
        assert_eq!(now.orphans_through, Epoch(9));
        assert_eq!(now.fenced, [(FrontEndId(1), 4)].into());
        let mut other = Directory::default();
        other.restore(Some(&directory.snapshot())).unwrap();
        assert_eq!(other.configuration(), now);
    }

    #[test]
    fn the_last_copy_stays_and_old_incarnations_do_not_come_back() {
        let directory = Directory::default();
        assert!(directory.decide(&Decision::Found(founded())));
        assert!(!directory.decide(&Decision::Found(founded())));
        assert!(directory.decide(&Decision::Remove(NodeId(2))));
        assert!(
            !directory.decide(&Decision::Remove(NodeId(1))),
            "its last copy"
        );
        assert_eq!(directory.configuration().only_on(NodeId(1)), [0]);
        assert!(directory.decide(&Decision::Admit(FrontEndId(0), place(4), Epoch(7))));
        assert!(!directory.decide(&Decision::Admit(FrontEndId(0), place(3), Epoch(9))));
        assert!(
            !directory.decide(&Decision::Readmit(NodeId(2), 9)),
            "it was removed"
        );
        assert!(!directory.decide(&Decision::Fence(FrontEndId(0), 3, Epoch(9))));
        assert!(directory.decide(&Decision::Fence(FrontEndId(0), 4, Epoch(9))));
        assert!(!directory.decide(&Decision::Admit(FrontEndId(0), place(4), Epoch(9))));
        assert!(directory.decide(&Decision::Readmit(NodeId(1), 2)));
        assert!(!directory.decide(&Decision::Readmit(NodeId(1), 2)));
    }

    #[test]
    fn a_copy_counts_once_it_is_whole_and_one_that_starts_again_comes_in_empty() {
        let directory = Directory::default();
        directory.decide(&Decision::Found(founded()));
        directory.decide(&Decision::Remove(NodeId(2)));
        let place = |incarnation| Decision::Place(NodeId(2), incarnation, vec![0], Epoch(9));
        assert!(!directory.decide(&place(1)), "it was removed");
        assert!(directory.decide(&place(2)));
        let now = directory.configuration();
        assert_eq!(now.only_on(NodeId(1)), [0], "no copy yet");
        let takes = |epoch| now.takes(NodeId(2), 0, Epoch(epoch));
        assert!(!takes(9) && takes(10) && !now.hosts(NodeId(2), 0));
        assert!(!directory.decide(&Decision::Readmit(NodeId(2), 3)));
        assert!(!directory.decide(&Decision::Promote(NodeId(2), 1, 0)));
        assert!(directory.decide(&Decision::Promote(NodeId(2), 2, 0)));
        assert!(!directory.decide(&Decision::Promote(NodeId(2), 2, 0)));
        assert!(directory.configuration().only_on(NodeId(1)).is_empty());
        assert!(directory.decide(&Decision::Readmit(NodeId(2), 3)));
    }
}
