//! The wait-for graph: maps each waiting transaction to the lock it waits for, and
//! detects deadlocks.
//!
//! A transaction enters its wait, then searches for a path from the lock's holder back to
//! itself. The *holder* of a lock is read from the lock at that moment, because locks
//! change hands without the graph being updated.
//!
//! # Why every cycle is found
//!
//! Every transaction in a cycle waits, so a cycle persists. Its last edge arose either
//! when a transaction began to wait, and that transaction searches, under the graph's
//! mutex, after all the others entered; or when a transaction got a lock that others were
//! waiting for. But that transaction is not waiting, so the cycle is not closed; it
//! closes when that transaction waits, and searches.
//!
//! A lock with several holders has as many edges. Of a row that is shared, an edge to a new
//! sharer arises while others wait; the sharer is running, so the argument holds for it, too.
//!
//! The requests for a table are in an order, and a request waits for those before it, too.
//! One that enters before others, which then wait for it as well, is a new edge of theirs;
//! but it waits itself, or will not, and so searches. A transaction that waits for a table
//! searches again after each failed attempt all the same, which costs little. So does a
//! transaction that waits to share a row: it may come to wait for a writer that has been
//! passed over too often ([`super::queues`]).
//!
//! The transaction that closes the cycle is the victim: it is the one that is running.

use std::collections::{BTreeMap, BTreeSet};

use coeval_memory::sync::Mutex;
use coeval_types::TransactionId;

/// The lock that each waiting transaction waits for.
#[derive(Debug)]
pub(crate) struct WaitGraph<W> {
    waits: Mutex<BTreeMap<TransactionId, W>>,
}

impl<W> WaitGraph<W> {
    pub(crate) fn new() -> Self {
        Self {
            waits: Mutex::new(BTreeMap::new()),
        }
    }

    /// Enters that `waiter` waits for `wait`. If that closes a cycle, enters nothing and
    /// returns the cycle, `waiter` first. `holders` appends the holders of the lock that a
    /// transaction waits for; they may include the waiter itself, and transactions that have ended
    /// since.
    pub(crate) fn enter(
        &self,
        waiter: TransactionId,
        wait: W,
        holders: impl Fn(TransactionId, &W, &mut Vec<TransactionId>),
    ) -> Result<(), Vec<TransactionId>> {
        let mut waits = self.waits.lock().expect("no panic in the graph");
        let mut came_from: BTreeMap<TransactionId, TransactionId> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut held_by = Vec::new();
        holders(waiter, &wait, &mut held_by);
        let mut to_visit: Vec<(TransactionId, TransactionId)> = held_by
            .drain(..)
            .filter(|holder| *holder != waiter)
            .map(|holder| (waiter, holder))
            .collect();
        while let Some((from, at)) = to_visit.pop() {
            if at == waiter {
                let mut circle = vec![from];
                let mut step = from;
                while let Some(&before) = came_from.get(&step) {
                    if before == waiter {
                        break;
                    }
                    circle.push(before);
                    step = before;
                }
                circle.push(waiter);
                circle.reverse();
                return Err(circle);
            }
            if !seen.insert(at) {
                continue;
            }
            came_from.insert(at, from);
            if let Some(next) = waits.get(&at) {
                holders(at, next, &mut held_by);
                to_visit.extend(
                    held_by
                        .drain(..)
                        .filter(|holder| *holder != at)
                        .map(|holder| (at, holder)),
                );
            }
        }
        waits.insert(waiter, wait);
        Ok(())
    }

    /// A copy of all waits, by waiting transaction.
    pub(crate) fn waits(&self) -> Vec<(TransactionId, W)>
    where
        W: Clone,
    {
        let waits = self.waits.lock().expect("no panic in the graph");
        waits
            .iter()
            .map(|(waiter, wait)| (*waiter, wait.clone()))
            .collect()
    }

    /// Removes the wait of `waiter`.
    pub(crate) fn leave(&self, waiter: TransactionId) {
        let mut waits = self.waits.lock().expect("no panic in the graph");
        waits.remove(&waiter);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const fn id(number: u64) -> TransactionId {
        TransactionId(number)
    }

    /// Enters a wait in a graph in which lock `n` is held by the transactions `held[n]`.
    fn enter(
        graph: &WaitGraph<usize>,
        held: &[&[u64]],
        waiter: u64,
        lock: usize,
    ) -> Result<(), Vec<TransactionId>> {
        graph.enter(id(waiter), lock, |_, &lock, holders| {
            holders.extend(held[lock].iter().copied().map(TransactionId));
        })
    }

    #[test]
    fn a_circle_is_found_by_the_one_that_closes_it() {
        let graph = WaitGraph::new();
        let held: &[&[u64]] = &[&[1], &[2], &[3]];
        assert_eq!(enter(&graph, held, 1, 1), Ok(()));
        assert_eq!(enter(&graph, held, 2, 2), Ok(()));
        assert_eq!(enter(&graph, held, 4, 0), Ok(()), "a tail is no circle");
        assert_eq!(
            enter(&graph, held, 3, 0),
            Err(vec![id(3), id(1), id(2)]),
            "3 waits for 1 waits for 2 waits for 3"
        );
        graph.leave(id(1));
        assert_eq!(enter(&graph, held, 3, 0), Ok(()), "1 waits no more");
    }

    #[test]
    fn one_waits_for_several_holders_of_a_table() {
        let graph = WaitGraph::new();
        let held: &[&[u64]] = &[&[5, 6, 1], &[1]];
        assert_eq!(enter(&graph, held, 6, 1), Ok(()));
        assert_eq!(enter(&graph, held, 1, 0), Err(vec![id(1), id(6)]));
    }

    #[test]
    fn a_lock_granted_meanwhile_is_no_circle() {
        let graph = WaitGraph::new();
        assert_eq!(enter(&graph, &[&[1]], 1, 0), Ok(()));
        assert_eq!(enter(&graph, &[&[1]], 2, 0), Ok(()));
    }
}
