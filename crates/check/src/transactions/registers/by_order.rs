//! Inference of the order of versions from the order of the transactions that accessed
//! them.
//!
//! The functions do not return every pair, only enough that all others follow: for each
//! version, those that precede it in real time without another version in between. A level
//! that respects real time respects each process's order, too: real time implies all of
//! that order except for a transaction that starts at the very moment at which the previous
//! one of its process finished.

use super::super::graph::number;
use super::super::versions::Version;
use super::{Registers, Touch};
use crate::history::{History, Transaction};

/// A version that a process accessed last precedes the one it accesses next.
pub(super) fn of_processes(touches: &[Touch], history: &History) -> Vec<(Version, Version)> {
    in_succession(touches, history, |_, _| true)
}

/// Like [`of_processes`], but only for consecutive transactions without time in between.
fn of_touching(touches: &[Touch], history: &History) -> Vec<(Version, Version)> {
    in_succession(touches, history, |before, after| !before.precedes(after))
}

fn in_succession(
    touches: &[Touch],
    history: &History,
    select: impl Fn(&Transaction, &Transaction) -> bool,
) -> Vec<(Version, Version)> {
    let of = |touch: &Touch| &history.transactions[touch.transaction as usize];
    let mut touches = touches.to_vec();
    touches.sort_by_key(|touch| {
        let transaction = of(touch);
        (touch.initial, transaction.process, transaction.started)
    });
    let mut order = Vec::new();
    // The process's last access to this register whose transaction it knows to have
    // committed.
    let mut before: Option<Touch> = None;
    for touch in touches {
        let transaction = of(&touch);
        if let Some(before) = before
            && before.initial == touch.initial
            && of(&before).process == transaction.process
            && select(of(&before), transaction)
        {
            order.push((before.last, touch.first));
        }
        if transaction.acknowledged_at().is_some() {
            before = Some(touch);
        }
    }
    order
}

/// A version accessed by a transaction that had finished precedes a version accessed by a
/// transaction that started after that, or that follows it in the same process.
pub(super) fn of_real_time(registers: &Registers, history: &History) -> Vec<(Version, Version)> {
    let mut ended = vec![u64::MAX; registers.versions.len()];
    let mut started = vec![None; registers.versions.len()];
    for touch in &registers.touches {
        let transaction = &history.transactions[touch.transaction as usize];
        for version in [touch.first as usize, touch.last as usize] {
            let at = transaction.acknowledged_at().unwrap_or(u64::MAX);
            ended[version] = ended[version].min(at);
            started[version] = started[version].max(Some(transaction.started));
        }
    }
    let mut order = of_touching(&registers.touches, history);
    let mut by_end: Vec<Version> = Vec::new();
    let all = registers.initials.iter().skip(1).copied();
    let ends = all.chain([number(registers.versions.len())]);
    for (initial, end) in registers.initials.iter().zip(ends) {
        by_end.clear();
        by_end.extend((*initial..end).filter(|version| ended[*version as usize] < u64::MAX));
        by_end.sort_unstable_by_key(|version| ended[*version as usize]);
        // For each prefix of `by_end`, the three versions that were accessed last.
        let mut latest: Vec<[Option<(u64, Version)>; 3]> = Vec::new();
        let mut best = [None; 3];
        for version in &by_end {
            let this = started[*version as usize].map(|at| (at, *version));
            best = match this {
                _ if this > best[0] => [this, best[0], best[1]],
                _ if this > best[1] => [best[0], this, best[1]],
                _ => [best[0], best[1], best[2].max(this)],
            };
            latest.push(best);
        }
        for after in *initial..end {
            let Some(start) = started[after as usize] else {
                continue;
            };
            // All of these precede it.
            let upto = by_end.partition_point(|version| ended[*version as usize] < start);
            let Some(met_last) = upto.checked_sub(1).map(|last| latest[last]) else {
                continue;
            };
            let mut others = met_last.into_iter().flatten();
            let mut other = || others.find(|(_, version)| *version != after);
            let Some((at, newest)) = other() else {
                continue;
            };
            if at > ended[after as usize] {
                // Each precedes the other.
                order.push((after, newest));
                order.push((newest, after));
            }
            // Most of those that precede it also precede the newest.
            let nearest = by_end[..upto]
                .iter()
                .rev()
                .take_while(|before| ended[**before as usize] >= at)
                .filter(|before| **before != after);
            order.extend(nearest.map(|before| (*before, after)));
            let beside = other().map_or(0, |(at, _)| at);
            if ended[newest as usize] >= beside {
                order.push((newest, after));
            }
        }
    }
    order
}
