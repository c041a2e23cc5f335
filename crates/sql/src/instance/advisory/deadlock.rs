//! Deadlock detection for advisory locks: a search for a cycle in the waits of sessions,
//! for advisory locks and for the engine's locks.

use std::collections::BTreeSet;

use coeval_txn::{Blocked, Engine};

use super::AdvisoryLocks;

/// The sessions of a cycle that begins and ends with this waiting session, by process id;
/// `None` if it is in none.
///
/// A snapshot of two lists that change meanwhile: a wait that ended between the two may
/// make a cycle that is none. A session of an advisory cycle cannot go on by itself,
/// because every wait in it is for another of its sessions; and the engine reports no wait
/// whose holders are gone. What remains is a transaction that ended between the two looks:
/// so the caller looks twice before it fails a request for a cycle with the engine's waits
/// in it.
pub(super) fn cycle(
    locks: &AdvisoryLocks,
    engine: Option<&dyn Engine>,
    waiter: u64,
) -> Option<Vec<i32>> {
    let blocked = engine.map(Engine::blocked).unwrap_or_default();
    let table = locks.table();
    let mut met = BTreeSet::new();
    // Paths to follow, the last session of each at its end.
    let mut paths = vec![vec![waiter]];
    while let Some(path) = paths.pop() {
        let Some(&last) = path.last() else { continue };
        let mut next = Vec::new();
        table.blockers(last, &mut next);
        let process_id = table.process_id(last);
        for holder in holders(&blocked, process_id) {
            next.extend(table.with_process_id(holder));
        }
        for session in next {
            if session == waiter {
                return Some(path.iter().map(|each| table.process_id(*each)).collect());
            }
            if met.insert(session) {
                let mut longer = path.clone();
                longer.push(session);
                paths.push(longer);
            }
        }
    }
    None
}

/// The sessions that hold what the session with this process id waits for in the engine.
fn holders(blocked: &[Blocked], process_id: i32) -> impl Iterator<Item = i32> {
    // 0 is a transaction without a session.
    blocked
        .iter()
        .filter(move |each| process_id != 0 && each.waiter.session == Some(process_id))
        .flat_map(|each| &each.holders)
        .filter_map(|holder| holder.session)
        .filter(|holder| *holder != 0)
}
