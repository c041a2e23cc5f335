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
//! # Cycles that a queue makes
//!
//! A transaction that waits only because another came first to the queue, and has not got the
//! lock either, waits by an edge that can be turned: the later one passes the earlier one. So
//! a cycle with such an edge is no deadlock, and has no victim, if the queues can be put
//! in an order without a cycle (PostgreSQL's *soft edges*). The search turns one such edge of
//! the cycle, the farthest from the transaction that closes it first; looks for cycles through
//! the transactions whose order it has changed; and goes on with those, or takes the turn back
//! and tries the next edge. An order that it has decided stays decided below. It gives up after
//! [`MOST_TURNS`] turns.
//!
//! The transaction that closes a cycle that cannot be turned is the victim: it is the one that
//! is running.

use std::collections::{BTreeMap, BTreeSet};

use coeval_memory::sync::Mutex;
use coeval_types::TransactionId;

/// Most edges that the search for an order without a cycle turns.
const MOST_TURNS: u32 = 64;

/// A transaction that another one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) to: TransactionId,
    /// Whether it is only earlier in the queue, and may be passed.
    pub(crate) queued: bool,
}

impl Edge {
    /// To a transaction that holds the lock.
    pub(crate) const fn to_holder(to: TransactionId) -> Self {
        Self { to, queued: false }
    }
}

/// The locks that transactions wait for by `W`.
pub(crate) trait Locks<W> {
    /// What a turn has to know to be taken back.
    type Turn;

    /// Appends the transactions that `waiter` waits for; they may include the waiter itself,
    /// and transactions that have ended since. One that holds the lock *and* is earlier in the
    /// queue is a holder.
    fn edges(&self, waiter: TransactionId, wait: &W, edges: &mut Vec<Edge>);

    /// Lets `waiter` pass `other`, if both still are in the queue.
    fn pass(&self, waiter: TransactionId, wait: &W, other: TransactionId) -> Option<Self::Turn>;

    /// Takes a turn back, as far as those in the queue have not gone on since.
    fn take_back(&self, waiter: TransactionId, wait: &W, turn: Self::Turn);
}

type Waits<W> = BTreeMap<TransactionId, W>;

/// The lock that each waiting transaction waits for.
#[derive(Debug)]
pub(crate) struct WaitGraph<W> {
    waits: Mutex<Waits<W>>,
}

/// A search for an order of the queues without a cycle.
struct Search<'a, W, L: Locks<W>> {
    waits: &'a Waits<W>,
    locks: &'a L,
    start: TransactionId,
    /// Who passes whom.
    turns: Vec<(TransactionId, TransactionId, L::Turn)>,
    left: u32,
}

impl<W, L: Locks<W>> Search<'_, W, L> {
    fn edges(&self, from: TransactionId) -> Vec<Edge> {
        let mut edges = Vec::new();
        if let Some(wait) = self.waits.get(&from) {
            self.locks.edges(from, wait, &mut edges);
            edges.retain(|edge| edge.to != from);
        }
        edges
    }

    /// A cycle through `start`: each of its transactions with the edge to the next one.
    fn cycle(&self, start: TransactionId) -> Option<Vec<(TransactionId, Edge)>> {
        let mut came_by: BTreeMap<TransactionId, (TransactionId, Edge)> = BTreeMap::new();
        let mut seen = BTreeSet::from([start]);
        let mut to_visit = vec![start];
        while let Some(from) = to_visit.pop() {
            for edge in self.edges(from) {
                if edge.to == start {
                    let mut cycle = vec![(from, edge)];
                    let mut at = from;
                    while let Some(&(before, edge)) = came_by.get(&at) {
                        cycle.push((before, edge));
                        at = before;
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if seen.insert(edge.to) {
                    came_by.insert(edge.to, (from, edge));
                    to_visit.push(edge.to);
                }
            }
        }
        None
    }

    fn is_decided(&self, first: TransactionId, second: TransactionId) -> bool {
        let mut turns = self.turns.iter();
        turns.any(|(waiter, other, _)| (*waiter, *other) == (first, second))
    }

    /// Whether no transaction waits for one that it is to pass.
    fn keeps_turns(&self) -> bool {
        self.turns.iter().all(|(waiter, other, _)| {
            let behind = |edge: &Edge| edge.queued && edge.to == *other;
            !self.edges(*waiter).iter().any(behind)
        })
    }

    /// Any cycle through the transactions whose order was changed, or the start.
    fn cycle_left(&self) -> Option<Vec<(TransactionId, Edge)>> {
        let turned = self.turns.iter();
        let changed = turned.flat_map(|(waiter, other, _)| [*waiter, *other]);
        changed.chain([self.start]).find_map(|at| self.cycle(at))
    }

    /// Turns queued edges until there is no cycle. Leaves all as it was if that fails.
    fn turn(&mut self, cycle: &[(TransactionId, Edge)]) -> bool {
        for &(waiter, edge) in cycle.iter().rev().filter(|(_, edge)| edge.queued) {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            let wait = &self.waits[&waiter];
            if self.is_decided(edge.to, waiter) {
                continue;
            }
            let Some(turn) = self.locks.pass(waiter, wait, edge.to) else {
                continue;
            };
            self.turns.push((waiter, edge.to, turn));
            let done = self.keeps_turns()
                && match self.cycle_left() {
                    None => true,
                    Some(next) => self.turn(&next),
                };
            if done {
                return true;
            }
            if let Some((_, _, turn)) = self.turns.pop() {
                self.locks.take_back(waiter, wait, turn);
            }
        }
        false
    }
}

impl<W: Clone> WaitGraph<W> {
    pub(crate) fn new() -> Self {
        Self {
            waits: Mutex::new(BTreeMap::new()),
        }
    }

    /// Enters that `waiter` waits for `wait`. If that closes a cycle that no other order of the
    /// queues avoids, enters nothing and returns the cycle, `waiter` first. Returns the waits
    /// whose queues have another order now: the caller must notify them.
    pub(crate) fn enter(
        &self,
        waiter: TransactionId,
        wait: W,
        locks: &impl Locks<W>,
    ) -> Result<Vec<W>, Vec<TransactionId>> {
        let mut waits = self.waits.lock().expect("no panic in the graph");
        waits.insert(waiter, wait);
        let mut search = Search {
            waits: &waits,
            locks,
            start: waiter,
            turns: Vec::new(),
            left: MOST_TURNS,
        };
        let Some(cycle) = search.cycle(waiter) else {
            return Ok(Vec::new());
        };
        if search.turn(&cycle) {
            let turned = search.turns.iter();
            return Ok(turned.map(|(waiter, ..)| waits[waiter].clone()).collect());
        }
        waits.remove(&waiter);
        Err(cycle.into_iter().map(|(from, _)| from).collect())
    }

    /// A copy of all waits, by waiting transaction.
    pub(crate) fn waits(&self) -> Vec<(TransactionId, W)> {
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
    use std::cell::RefCell;

    use super::*;

    const fn id(number: u64) -> TransactionId {
        TransactionId(number)
    }

    /// Locks by their numbers: the holders of each, and its queue.
    struct Table<'a> {
        held: &'a [&'a [u64]],
        queues: RefCell<Vec<Vec<u64>>>,
    }

    impl Table<'_> {
        fn place(&self, lock: usize, of: TransactionId) -> Option<usize> {
            let queues = self.queues.borrow();
            queues.get(lock)?.iter().position(|each| *each == of.0)
        }

        fn queue(&self, lock: usize) -> Vec<u64> {
            self.queues.borrow()[lock].clone()
        }
    }

    impl Locks<usize> for Table<'_> {
        type Turn = usize;

        fn edges(&self, waiter: TransactionId, &lock: &usize, edges: &mut Vec<Edge>) {
            edges.extend(
                self.held[lock]
                    .iter()
                    .map(|id| Edge::to_holder(TransactionId(*id))),
            );
            let before = self.place(lock, waiter).unwrap_or(0);
            edges.extend(
                self.queues
                    .borrow()
                    .get(lock)
                    .into_iter()
                    .flat_map(|queue| {
                        let queued = true;
                        queue[..before].iter().map(move |id| Edge {
                            to: TransactionId(*id),
                            queued,
                        })
                    }),
            );
        }

        fn pass(
            &self,
            waiter: TransactionId,
            &lock: &usize,
            other: TransactionId,
        ) -> Option<usize> {
            let from = self.place(lock, waiter)?;
            let to = self.place(lock, other)?;
            let queue = &mut self.queues.borrow_mut()[lock];
            let waiter = queue.remove(from);
            queue.insert(to, waiter);
            Some(from)
        }

        fn take_back(&self, waiter: TransactionId, &lock: &usize, turn: usize) {
            let at = self.place(lock, waiter).expect("it waits");
            let queue = &mut self.queues.borrow_mut()[lock];
            let waiter = queue.remove(at);
            queue.insert(turn, waiter);
        }
    }

    /// Enters a wait in a graph in which lock `n` is held by the transactions `held[n]`.
    fn enter(
        graph: &WaitGraph<usize>,
        held: &[&[u64]],
        waiter: u64,
        lock: usize,
    ) -> Result<(), Vec<TransactionId>> {
        let queues = RefCell::default();
        let turned = graph.enter(id(waiter), lock, &Table { held, queues });
        turned.map(|turned| assert!(turned.is_empty(), "there is no queue"))
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

    /// 1 holds lock 0 and 2 holds lock 1; 3 waits for 0 and 4 for 1; then 1 wants 1, and 2
    /// wants 0. Either may pass the one before it, and the farther does.
    #[test]
    fn a_queue_that_closes_a_circle_is_put_in_another_order() {
        let graph = WaitGraph::new();
        let locks = Table {
            held: &[&[1], &[2]],
            queues: RefCell::new(vec![vec![3, 2], vec![4, 1]]),
        };
        // 1 and 2 share with each other's lock, and are excluded by the queue only.
        struct Shared<'a>(&'a Table<'a>);
        impl Locks<usize> for Shared<'_> {
            type Turn = usize;
            fn edges(&self, waiter: TransactionId, wait: &usize, edges: &mut Vec<Edge>) {
                self.0.edges(waiter, wait, edges);
                let shares = waiter.0 <= 2;
                edges.retain(|edge| edge.queued || !shares);
            }
            fn pass(
                &self,
                waiter: TransactionId,
                wait: &usize,
                to: TransactionId,
            ) -> Option<usize> {
                self.0.pass(waiter, wait, to)
            }
            fn take_back(&self, waiter: TransactionId, wait: &usize, turn: usize) {
                self.0.take_back(waiter, wait, turn);
            }
        }
        let shared = Shared(&locks);
        for (waiter, lock) in [(3, 0), (4, 1), (1, 1)] {
            assert_eq!(graph.enter(id(waiter), lock, &shared), Ok(vec![]));
        }
        assert_eq!(graph.enter(id(2), 0, &shared), Ok(vec![1]));
        assert_eq!(locks.queue(0), [3, 2]);
        assert_eq!(locks.queue(1), [1, 4], "1 has passed 4");
    }

    /// Whichever goes first, 2 holds what 3 waits for, and waits for 3.
    #[test]
    fn a_circle_that_no_order_avoids_has_a_victim_and_the_queue_stays() {
        let graph = WaitGraph::new();
        let locks = Table {
            held: &[&[1], &[3]],
            queues: RefCell::new(vec![vec![4, 2], vec![1]]),
        };
        assert_eq!(graph.enter(id(4), 0, &locks), Ok(vec![]));
        assert_eq!(graph.enter(id(2), 0, &locks), Ok(vec![]));
        assert_eq!(graph.enter(id(1), 1, &locks), Ok(vec![]));
        locks.queues.borrow_mut()[0].push(3);
        assert_eq!(graph.enter(id(3), 0, &locks), Err(vec![id(3), id(1)]));
        assert_eq!(locks.queue(0), [4, 2, 3]);
    }
}
