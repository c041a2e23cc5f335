//! Registers: the order of versions has to be inferred.
//!
//! A read of a register shows one value, and so identifies its writer, but does not show
//! the previous value. These inferences are made, each with the reason why it is sound:
//!
//! 1. **The initial state comes first.** By definition.
//! 2. **Writes follow reads.** A transaction that reads v and then writes w puts w after v.
//!    If w were before v, then ww edges would lead from it to the writer of v, and a wr
//!    edge back: G1c, which every level forbids. So under any guaranteed level, either v
//!    precedes w, or the guarantee is violated.
//! 3. **The order of a process**, for levels that guarantee to respect it: the version that
//!    a process accessed last precedes the one it accesses next. Else the two transactions
//!    would be in a cycle with at most one rw edge.
//! 4. **Real time**, for levels that guarantee it: a version that some transaction read or
//!    wrote before another one started precedes the version that the other read or wrote.
//!    The order of a process (3) is part of it, also where a transaction starts at the
//!    moment at which the previous one finished: a stronger level permits nothing that a
//!    weaker one forbids.
//! 5. **No version comes between the one an update read and the one it wrote**, for levels
//!    that prevent lost updates: [`chains`].
//!
//! Inferences from 3 and 4 are marked, and an anomaly that is based on them has the order
//! in its name. *Not* inferred: the order of unrelated blind writes; the order of values by
//! their size; the order of two reads in one transaction (read committed guarantees it, but
//! it adds nothing).
//!
//! Versions that precede each other are an anomaly by themselves, cyclic versions. The
//! judge then ignores the orders they came from for this register.
//!
//! ```text
//! T1  w 5 1                     initial ─► 1      (1)
//! T2  r 5 → 1, w 5 2                       1 ─► 2 (2)
//! T3  w 5 3                     initial ─► 3      3 is not ordered against 1 and 2, or
//!                                          is after both: if T3 began after T1 finished
//!                                          (4, 5), or if T1 had read the initial
//! ```
//!
//! For 4, let e(v) be the first moment at which a transaction that read or wrote v had
//! finished, and s(v) the last at which one started. Then v precedes w exactly if e(v) <
//! s(w): two numbers per version replace the pairs of all transactions. (3) is added for
//! transactions of a process without time in between.
//!
//! Source: Elle, §4.3 (recoverability of registers), where 1 to 4 are options.

mod by_order;
mod chains;

use std::collections::BTreeSet;

use chains::Chains;

use super::Unjudgeable;
use super::accesses::{Access, CollectionKind, Written, accesses, find, written};
use super::anomaly::{Order, Phenomenon};
use super::findings::Findings;
use super::graph::{Graph, edge, number};
use super::inside;
use super::lists::lost_updates;
use super::versions::{NOBODY, Version, Versions};
use crate::history::{History, Operation, Outcome, Register};

/// One transaction's accesses to a register: the first version it accessed there, and the
/// last.
#[derive(Clone, Copy, Debug)]
struct Touch {
    /// The initial version, which identifies the register.
    initial: Version,
    transaction: u32,
    first: Version,
    last: Version,
}

/// All registers, before an order of transactions is taken into account.
pub(super) struct Registers {
    /// Every register's initial version, followed by all versions that were written to it.
    versions: Versions,
    /// Pairs of versions, inferred from writes that follow reads.
    follows: Vec<(Version, Version)>,
    touches: Vec<Touch>,
    /// The initial versions, at which registers begin.
    initials: Vec<Version>,
}

impl Registers {
    /// Collects versions and readers. Adds the anomalies other than cycles to `findings`.
    pub(super) fn collect(
        history: &History,
        takes_part: &[bool],
        findings: &mut Findings,
    ) -> Result<Self, Unjudgeable> {
        let all = accesses(history, takes_part, CollectionKind::Register);
        let mut registers = Self {
            versions: Versions::default(),
            follows: Vec::new(),
            touches: Vec::new(),
            initials: Vec::new(),
        };
        let mut writes = Vec::new();
        let mut updates = Vec::new();
        for of_key in all.chunk_by(|a, b| a.key == b.key) {
            let key = of_key[0].key;
            written(history, of_key, &mut writes)?;
            writes.retain(|write| {
                takes_part[write.transaction as usize]
                    || history.transactions[write.transaction as usize].outcome == Outcome::Aborted
            });
            let initial = registers.versions.add(key, Register::Absent, NOBODY);
            registers.initials.push(initial);
            for write in &writes {
                let takes_part = takes_part[write.transaction as usize];
                let writer = if takes_part {
                    write.transaction
                } else {
                    NOBODY
                };
                let label = Register::Value(write.value);
                registers.versions.add(key, label, writer);
            }
            for of_transaction in of_key.chunk_by(|a, b| a.transaction == b.transaction) {
                if takes_part[of_transaction[0].transaction as usize] {
                    inside::register(history, of_transaction, findings);
                    let one = One {
                        history,
                        writes: &writes,
                        initial,
                    };
                    registers.touch(&one, of_transaction, &mut updates, findings);
                }
            }
        }
        registers.versions.seal();
        lost_updates(&registers.versions, updates, "register", findings);
        Ok(registers)
    }

    /// Adds one transaction's accesses to one register.
    fn touch(
        &mut self,
        one: &One<'_>,
        of_transaction: &[Access],
        updates: &mut Vec<(Version, u32)>,
        findings: &mut Findings,
    ) {
        let transaction = of_transaction[0].transaction;
        let mut first = None;
        let mut last = None;
        let mut has_written = false;
        for access in of_transaction {
            let version = match access.operation(one.history) {
                Operation::Write { value, .. } => {
                    let version = one.version(*value);
                    if let (Some(before), Some(version)) = (last, version) {
                        self.follows.push((before, version));
                        if !has_written {
                            updates.push((before, transaction));
                        }
                    }
                    has_written = true;
                    version
                }
                Operation::Read {
                    value: Some(value), ..
                } if !has_written => {
                    let version = one.read(*value, access, findings);
                    if let Some(version) = version {
                        self.versions.read(version, transaction);
                    }
                    version
                }
                _ => continue,
            };
            first = first.or(version);
            last = version.or(last);
        }
        if let (Some(first), Some(last)) = (first, last) {
            self.touches.push(Touch {
                initial: one.initial,
                transaction,
                first,
                last,
            });
        }
    }

    /// The versions, ordered under the assumption that this order of transactions holds.
    pub(super) fn versions(
        &self,
        history: &History,
        order: Order,
        findings: &mut Findings,
    ) -> Versions {
        let mut versions = self.versions.clone();
        let mut plain = self.follows.clone();
        plain.retain(|(before, after)| before != after);
        let cyclic = self.cyclic(&plain);
        plain.retain(|(before, _)| !cyclic.contains(&self.initial(*before)));
        if order == Order::Values {
            self.note(history, &cyclic, order, findings);
        }
        let mut by_order = match order {
            Order::Values => Vec::new(),
            Order::Process => by_order::of_processes(&self.touches, history),
            Order::RealTime => by_order::of_real_time(self, history),
        };
        by_order
            .retain(|(before, after)| before != after && !cyclic.contains(&self.initial(*before)));
        if !by_order.is_empty() {
            let mut both = by_order.clone();
            both.extend(&plain);
            let cyclic = self.cyclic(&both);
            self.note(history, &cyclic, order, findings);
            by_order.retain(|(before, _)| !cyclic.contains(&self.initial(*before)));
        }
        let chains = Chains::new(&self.versions, &plain, |version| self.initial(version));
        for (before, after) in chains.behind_initial(&self.versions, &self.initials) {
            versions.missed(before, after);
        }
        for (before, after) in self.first_versions(&plain) {
            versions.order(before, after, false);
        }
        for (before, after) in plain {
            versions.order(before, after, false);
        }
        for (before, after) in by_order {
            versions.order(before, after, true);
            if let Some((before, after)) = chains.of_all(before, after) {
                versions.order(before, after, true);
            }
        }
        versions.seal();
        versions
    }

    /// The initial version of a version's register.
    fn initial(&self, version: Version) -> Version {
        let place = self.initials.partition_point(|initial| *initial <= version);
        self.initials[place - 1]
    }

    /// Pairs of the initial state and every version that follows no other.
    fn first_versions(&self, order: &[(Version, Version)]) -> Vec<(Version, Version)> {
        let mut follows = vec![false; self.versions.len()];
        for initial in &self.initials {
            follows[*initial as usize] = true;
        }
        for (before, after) in order {
            // Every version follows the initial state anyway.
            if self.initials.binary_search(before).is_err() {
                follows[*after as usize] = true;
            }
        }
        (0..number(self.versions.len()))
            .filter(|version| !follows[*version as usize])
            .map(|version| (self.initial(version), version))
            .collect()
    }

    /// The registers whose versions precede each other in this order.
    fn cyclic(&self, order: &[(Version, Version)]) -> BTreeSet<Version> {
        let mut edges: Vec<_> = self.first_versions(order);
        edges.extend(order);
        let edges: Vec<_> = edges
            .into_iter()
            .map(|(before, after)| (before, after, edge::WW))
            .collect();
        let nodes = number(self.versions.len());
        let components = Graph::new(nodes, nodes, &edges).components(edge::WW);
        components
            .iter()
            .map(|members| self.initial(members[0]))
            .collect()
    }

    fn note(
        &self,
        history: &History,
        cyclic: &BTreeSet<Version>,
        order: Order,
        findings: &mut Findings,
    ) {
        for initial in cyclic {
            findings.add(Phenomenon::CyclicVersions, order, || {
                let key = self.versions.key(*initial);
                let touches = self.touches.iter();
                let mut touches: Vec<&Touch> =
                    touches.filter(|touch| touch.initial == *initial).collect();
                touches
                    .sort_by_key(|touch| history.transactions[touch.transaction as usize].started);
                touches
                    .into_iter()
                    .take(12)
                    .map(|touch| {
                        let label = |version| inside::state(self.versions.label(version));
                        let (first, last) = (label(touch.first), label(touch.last));
                        let step = if first == last {
                            format!("met register {key} as {first}")
                        } else {
                            format!("met register {key} as {first} and left it as {last}")
                        };
                        (touch.transaction, step)
                    })
                    .collect()
            });
        }
    }
}

/// One register, with its writes.
struct One<'run> {
    history: &'run History,
    writes: &'run [Written],
    initial: Version,
}

impl One<'_> {
    fn version(&self, value: i64) -> Option<Version> {
        let place = self
            .writes
            .binary_search_by_key(&value, |write| write.value)
            .ok()?;
        Some(self.initial + 1 + number(place))
    }

    /// The version that a read returned, if it is a valid one; reports what is wrong with
    /// it.
    fn read(&self, value: Register, access: &Access, findings: &mut Findings) -> Option<Version> {
        let (key, reader) = (access.key, access.transaction);
        let Register::Value(value) = value else {
            return Some(self.initial);
        };
        let Some(write) = find(self.writes, value) else {
            findings.add(Phenomenon::GarbageRead, Order::Values, || {
                let step = format!("read {value} in register {key}, which no transaction wrote");
                vec![(reader, step)]
            });
            return None;
        };
        let writer = write.transaction;
        let wrote = |then: &str| format!("wrote {value} to register {key}, and {then}");
        if self.history.transactions[writer as usize].outcome == Outcome::Aborted {
            findings.add(Phenomenon::G1a, Order::Values, || {
                vec![(writer, wrote("aborted")), (reader, "read it".to_owned())]
            });
            return None;
        }
        if !write.is_last && writer != reader {
            findings.add(Phenomenon::G1b, Order::Values, || {
                vec![
                    (writer, wrote("replaced it itself")),
                    (reader, format!("read {value}")),
                ]
            });
        }
        self.version(value)
    }
}
