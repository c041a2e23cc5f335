//! Judges that need no timestamps of reads: whether there is any order of the transactions that
//! gives every answer, and whether readers see transactions whole.
//!
//! The order of the versions of a key is that of their timestamps. With it the answers say which
//! transaction must come before which: the writer of a version before the one of the next, and
//! before its readers; a reader before the writer of the next version; and, for *strict*
//! serializability, one that was answered before another began. There is an order if and only if
//! these have no cycle.

use std::collections::BTreeMap;

use coeval_epoch::EpochTimestamp;

/// A transaction as its client saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub begun: u64,
    pub ended: u64,
    /// The timestamp of a write.
    pub at: Option<EpochTimestamp>,
    pub writes: Vec<u64>,
    /// For each key that was read, the index of the transaction whose version was found.
    pub reads: Vec<(u64, Option<usize>)>,
}

/// A cycle in what must come before what, if there is one.
pub fn cycle(all: &[Seen], is_strict: bool) -> Option<Vec<usize>> {
    let mut versions: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, seen) in all.iter().enumerate() {
        for key in &seen.writes {
            versions.entry(*key).or_default().push(index);
        }
    }
    for writers in versions.values_mut() {
        writers.sort_by_key(|index| all[*index].at);
    }
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
    for writers in versions.values() {
        for pair in writers.windows(2) {
            after[pair[0]].push(pair[1]);
        }
    }
    for (reader, seen) in all.iter().enumerate() {
        for (key, writer) in &seen.reads {
            let writers = versions.get(key).map_or(&[][..], Vec::as_slice);
            let place = writer.and_then(|writer| writers.iter().position(|other| *other == writer));
            if let Some(writer) = writer {
                after[*writer].push(reader);
            }
            let next = place.map_or(0, |place| place + 1);
            if let Some(next) = writers.get(next) {
                after[reader].push(*next);
            }
        }
        if is_strict {
            let later = all.iter().enumerate();
            let later = later.filter(|(_, other)| other.begun > seen.ended);
            after[reader].extend(later.map(|(index, _)| index));
        }
    }
    find(&after)
}

/// A depth-first search for a cycle.
fn find(after: &[Vec<usize>]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; after.len()];
    for start in 0..after.len() {
        if marks[start] != Mark::New {
            continue;
        }
        let mut path = vec![(start, 0)];
        marks[start] = Mark::Open;
        while let Some((node, next)) = path.last_mut() {
            let Some(&other) = after[*node].get(*next) else {
                marks[*node] = Mark::Done;
                path.pop();
                continue;
            };
            *next += 1;
            match marks[other] {
                Mark::Open => {
                    let path = path.iter().map(|(node, _)| *node);
                    return Some(path.skip_while(|node| *node != other).collect());
                }
                Mark::New => {
                    marks[other] = Mark::Open;
                    path.push((other, 0));
                }
                Mark::Done => {}
            }
        }
    }
    None
}

/// A reader that sees one version of a transaction, and an older one where it has another.
pub fn torn(all: &[Seen]) -> Option<(usize, usize)> {
    let at = |writer: Option<usize>| writer.and_then(|writer| all[writer].at);
    for (reader, seen) in all.iter().enumerate() {
        for (_, writer) in &seen.reads {
            let Some(writer) = *writer else {
                continue;
            };
            let mut others = seen.reads.iter();
            let is_torn = |(key, other): &(u64, Option<usize>)| {
                all[writer].writes.contains(key) && at(*other) < all[writer].at
            };
            if others.any(is_torn) {
                return Some((reader, writer));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at: u64, writes: &[u64], reads: &[(u64, Option<usize>)], when: (u64, u64)) -> Seen {
        Seen {
            begun: when.0,
            ended: when.1,
            at: (at > 0).then(|| EpochTimestamp::from_bits(at)),
            writes: writes.to_vec(),
            reads: reads.to_vec(),
        }
    }

    #[test]
    fn readers_that_disagree_on_the_order_of_two_writers_have_none() {
        let writers = [seen(1, &[1], &[], (0, 9)), seen(2, &[2], &[], (0, 9))];
        let one = seen(0, &[], &[(1, Some(0)), (2, None)], (0, 9));
        let other = seen(0, &[], &[(1, None), (2, Some(1))], (0, 9));
        let mut all = writers.to_vec();
        all.push(one);
        assert_eq!(cycle(&all, true), None);
        all.push(other);
        assert!(cycle(&all, false).is_some());
        assert_eq!(torn(&all), None, "each is seen whole");
    }

    #[test]
    fn a_reader_after_an_answer_must_see_it_if_it_is_strict() {
        let all = [
            seen(1, &[1], &[], (0, 3)),
            seen(0, &[], &[(1, None)], (4, 5)),
        ];
        assert_eq!(cycle(&all, false), None);
        assert!(cycle(&all, true).is_some());
    }

    #[test]
    fn half_a_transaction_is_torn() {
        let all = [
            seen(1, &[1, 2], &[], (0, 3)),
            seen(0, &[], &[(1, Some(0)), (2, None)], (0, 5)),
        ];
        assert_eq!(torn(&all), Some((1, 0)));
    }
}
