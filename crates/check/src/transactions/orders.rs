//! Order edges: between transactions whose order clients can observe.
//!
//! **Process**: from each transaction of a process to its next. **Real time**: from each
//! transaction to all that started after it had finished. The number of such pairs is
//! quadratic in the history, so the edges lead through barriers, virtual nodes in a row in
//! the order of time:
//!
//! ```text
//!  a |--|       c |-----|                 a ─► B1 ─► c,   B1 ─► B2
//!    b |---|         d |--|               b ─► B2 ─► d
//! time ───B1──B2──────────────►
//! ```
//!
//! A finish leads to the next barrier, a barrier to the starts before the next one and to
//! the next barrier. That makes at most three edges per transaction.
//!
//! Only a transaction whose commit its client has confirmed is the source of an edge: an
//! unknown transaction may take effect at any later time. Equal times define no order.

use super::graph::{Edges, edge, number};
use crate::history::History;

/// Adds the edges of process order.
pub(super) fn by_process(history: &History, takes_part: &[bool], edges: &mut Edges) {
    let transactions = &history.transactions;
    let mut sorted: Vec<u32> = (0..number(transactions.len()))
        .filter(|index| takes_part[*index as usize])
        .collect();
    sorted.sort_by_key(|index| {
        let transaction = &transactions[*index as usize];
        (transaction.process, transaction.started)
    });
    let mut before: Option<u32> = None;
    for index in sorted {
        let transaction = &transactions[index as usize];
        if let Some(before) = before
            && transactions[before as usize].process == transaction.process
        {
            edges.add(before, index, edge::PROCESS);
        }
        if transaction.acknowledged_at().is_some() {
            before = Some(index);
        }
    }
}

/// Adds the edges of real-time order.
pub(super) fn by_real_time(history: &History, takes_part: &[bool], edges: &mut Edges) {
    let mut moments = Vec::new();
    for (index, transaction) in history.transactions.iter().enumerate() {
        if takes_part[index] {
            let index = number(index);
            // At equal times, starts come before finishes: the latter do not precede them.
            moments.push((transaction.started, false, index));
            if let Some(finished) = transaction.acknowledged_at() {
                moments.push((finished, true, index));
            }
        }
    }
    moments.sort_unstable();
    let mut barrier: Option<u32> = None;
    // Whether a transaction started after the barrier.
    let mut is_used = true;
    for (_, finishes, index) in moments {
        if !finishes {
            if let Some(barrier) = barrier {
                edges.add(barrier, index, edge::REALTIME);
            }
            is_used = true;
            continue;
        }
        let next = match barrier {
            Some(barrier) if !is_used => barrier,
            _ => {
                let next = edges.virtual_node();
                if let Some(barrier) = barrier {
                    edges.add(barrier, next, edge::REALTIME);
                }
                next
            }
        };
        barrier = Some(next);
        is_used = false;
        edges.add(index, next, edge::REALTIME);
    }
}
