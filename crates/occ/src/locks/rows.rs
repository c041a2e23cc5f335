//! Row locks in four modes: the writer's in the record's lock word, sharers beside it.
//!
//! Of the modes that allow a change, NO KEY UPDATE and UPDATE, one transaction at a time
//! holds one, so it fits the record's lock word: owner and mode in one compare-and-swap,
//! which is all that an UPDATE of a free row pays. KEY SHARE and SHARE are held by any
//! number of transactions, so their holders are listed in a side table, by record:
//!
//! ```text
//!   lock word of record 7        (1, p, NO KEY UPDATE, 12)        one writer
//!   side table, shard of 7       7 → 15 KEY SHARE, 16 KEY SHARE   sharers
//!                                entries = 2                      read by writers
//! ```
//!
//! A transaction may be in both places: it held SHARE, set a savepoint and took UPDATE. A
//! rollback to the savepoint frees the word and leaves the entry.
//!
//! # Why a writer and a sharer do not miss each other
//!
//! Both write first and read second, in the one order of sequentially consistent operations:
//!
//! ```text
//!   writer                              sharer, under the shard's mutex
//!   W1 lock word = 12                   S1 entries += 1
//!   W2 entries > 0 ?                    S2 fence
//!                                       S3 lock word held, in a mode that conflicts ?
//! ```
//!
//! If W2 does not see S1, then S3 sees W1, and the sharer withdraws. If W2 does, the writer
//! waits for the mutex and looks at the entries: a sharer that is still there did not see
//! W1, and the writer gives the word back.
//!
//! A writer that finds `entries > 0` before W1 does both steps under the mutex, where no
//! sharer is halfway, and has nothing to give back. So two writers that wait for one sharer
//! cannot hand the word to and fro: only a sharer that arrives between a writer's two looks
//! costs it one word given back. A stronger mode is set in a held word under the mutex too.
//!
//! `shuttled` checks this against random schedules, and finds a sharer that looks at the word
//! before it has entered.

use std::collections::BTreeMap;

use coeval_memory::sync::Mutex;
use coeval_memory::sync::atomic::{AtomicUsize, Ordering, fence};
use coeval_storage::{RecordRef, TryLock};
use coeval_types::{Rid, RowLock, StorageId, TransactionId};

const SHARDS: usize = 256;

/// A record, by the table and its place there.
type Name = (StorageId, Rid);

type Sharers = Vec<(TransactionId, RowLock)>;

#[derive(Debug, Default)]
struct Shard {
    /// Number of entries of all records of the shard, which writers read without the mutex.
    entries: AtomicUsize,
    sharers: Mutex<BTreeMap<Name, Sharers>>,
}

/// Answer to an attempt to lock a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// The caller held no lock on the row, and has this one now.
    Locked,
    /// The caller held the row in this weaker mode.
    Strengthened(RowLock),
    /// The caller held the row in this mode or a stronger one.
    Held,
    /// This other transaction holds the row in a mode that conflicts.
    HeldBy(TransactionId),
    /// As `HeldBy`; and the record's lock word was held for a moment, in which others may
    /// have begun to wait for it: the caller must wake them.
    GaveBack(TransactionId),
    /// The record is dead: the caller must look the key up again.
    Dead,
}

/// The lock word of a record, as row locks use it.
pub(crate) trait Word {
    fn is_dead(&self) -> bool;
    fn held(&self) -> Option<(TransactionId, RowLock)>;
    fn try_lock(&self, owner: TransactionId, mode: RowLock) -> TryLock;
    fn set_mode(&self, owner: TransactionId, mode: RowLock);
    fn unlock(&self, owner: TransactionId);
}

impl Word for RecordRef<'_> {
    fn is_dead(&self) -> bool {
        self.is_dead()
    }

    fn held(&self) -> Option<(TransactionId, RowLock)> {
        self.held()
    }

    fn try_lock(&self, owner: TransactionId, mode: RowLock) -> TryLock {
        self.try_lock_as(owner, mode)
    }

    fn set_mode(&self, owner: TransactionId, mode: RowLock) {
        self.set_mode(owner, mode);
    }

    fn unlock(&self, owner: TransactionId) {
        self.unlock(owner);
    }
}

/// The row locks of an engine.
#[derive(Debug)]
pub(crate) struct RowLocks {
    shards: Box<[Shard]>,
}

impl RowLocks {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    fn shard(&self, (storage, rid): Name) -> &Shard {
        let hash = (rid.0 ^ u64::from(storage.0) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.shards[hash as usize % SHARDS]
    }

    /// Locks a row for `owner`, unless another transaction holds it in a mode that
    /// conflicts. Never waits for a transaction.
    #[inline]
    pub(crate) fn try_lock(
        &self,
        name: Name,
        word: &impl Word,
        owner: TransactionId,
        mode: RowLock,
    ) -> Tried {
        let shard = self.shard(name);
        if mode.is_shared() {
            return share(shard, name, word, owner, mode);
        }
        if shard.entries.load(Ordering::SeqCst) != 0 {
            return lock_beside_sharers(shard, name, word, owner, mode);
        }
        match word.try_lock(owner, mode) {
            TryLock::Locked => match shard.entries.load(Ordering::SeqCst) {
                0 => Tried::Locked,
                _ => check_locked(shard, name, word, owner, mode),
            },
            TryLock::AlreadyLocked => lock_more(shard, name, word, owner, mode),
            TryLock::HeldBy(other) => Tried::HeldBy(other),
            TryLock::Dead => Tried::Dead,
        }
    }

    /// Gives `owner`'s entry for a record this mode, weaker than before, or removes it. The
    /// caller must then notify the queues.
    pub(crate) fn set_share(&self, name: Name, owner: TransactionId, mode: Option<RowLock>) {
        let shard = self.shard(name);
        let mut all = shard.sharers.lock().expect("no panic in a shard");
        let sharers = all.get_mut(&name).expect("only a sharer changes its entry");
        let at = sharers
            .iter()
            .position(|(sharer, _)| *sharer == owner)
            .expect("only a sharer changes its entry");
        if let Some(mode) = mode {
            sharers[at].1 = mode;
            return;
        }
        sharers.swap_remove(at);
        if sharers.is_empty() {
            all.remove(&name);
        }
        shard.entries.fetch_sub(1, Ordering::SeqCst);
    }

    /// The mode in which `owner` shares the record.
    pub(crate) fn share_of(&self, name: Name, owner: TransactionId) -> Option<RowLock> {
        let all = self
            .shard(name)
            .sharers
            .lock()
            .expect("no panic in a shard");
        let mut sharers = all.get(&name)?.iter();
        sharers
            .find(|(sharer, _)| *sharer == owner)
            .map(|(_, mode)| *mode)
    }

    /// Whether any transaction shares the record.
    #[inline]
    pub(crate) fn is_shared(&self, name: Name) -> bool {
        let shard = self.shard(name);
        shard.entries.load(Ordering::SeqCst) != 0 && {
            let all = shard.sharers.lock().expect("no panic in a shard");
            all.contains_key(&name)
        }
    }

    /// Appends the transactions that `owner` waits for, if it wants the record in this mode.
    pub(crate) fn holders(
        &self,
        name: Name,
        word: Option<&impl Word>,
        (owner, mode): (TransactionId, RowLock),
        holders: &mut Vec<TransactionId>,
    ) {
        if let Some((writer, held)) = word.and_then(Word::held)
            && writer != owner
            && mode.conflicts_with(held)
        {
            holders.push(writer);
        }
        let all = self
            .shard(name)
            .sharers
            .lock()
            .expect("no panic in a shard");
        let sharers = all.get(&name).into_iter().flatten();
        holders.extend(in_the_way(sharers, owner, mode));
    }
}

/// The sharers that keep `owner` from locking the record in this mode.
fn in_the_way<'a>(
    sharers: impl Iterator<Item = &'a (TransactionId, RowLock)>,
    owner: TransactionId,
    mode: RowLock,
) -> impl Iterator<Item = TransactionId> {
    sharers
        .filter(move |(sharer, held)| *sharer != owner && mode.conflicts_with(*held))
        .map(|(sharer, _)| *sharer)
}

fn first_in_the_way(
    all: &BTreeMap<Name, Sharers>,
    name: Name,
    owner: TransactionId,
    mode: RowLock,
) -> Option<TransactionId> {
    in_the_way(all.get(&name)?.iter(), owner, mode).next()
}

/// The mode in which `owner` holds the lock word.
fn held_by(word: &impl Word, owner: TransactionId) -> Option<RowLock> {
    let held = word.held().filter(|(holder, _)| *holder == owner);
    held.map(|(_, mode)| mode)
}

/// S1 to S3: enters `owner` as a sharer, and withdraws it if a writer is in the way.
#[cold]
fn share(
    shard: &Shard,
    name: Name,
    word: &impl Word,
    owner: TransactionId,
    mode: RowLock,
) -> Tried {
    if held_by(word, owner).is_some() {
        return Tried::Held;
    }
    let mut all = shard.sharers.lock().expect("no panic in a shard");
    let before = all
        .get(&name)
        .and_then(|sharers| sharers.iter().position(|(sharer, _)| *sharer == owner))
        .map(|at| (at, all[&name][at].1));
    if let Some((_, held)) = before
        && held >= mode
    {
        return Tried::Held;
    }
    if before.is_none() {
        shard.entries.fetch_add(1, Ordering::SeqCst);
    }
    fence(Ordering::SeqCst);
    let refused = if word.is_dead() {
        Some(Tried::Dead)
    } else {
        let writer = word.held().filter(|(_, held)| mode.conflicts_with(*held));
        writer.map(|(writer, _)| Tried::HeldBy(writer))
    };
    match (refused, before) {
        (Some(refused), Some(_)) => refused,
        (Some(refused), None) => {
            shard.entries.fetch_sub(1, Ordering::SeqCst);
            refused
        }
        (None, Some((at, held))) => {
            all.get_mut(&name).expect("it was just found")[at].1 = mode;
            Tried::Strengthened(held)
        }
        (None, None) => {
            all.entry(name).or_default().push((owner, mode));
            Tried::Locked
        }
    }
}

/// Takes the word, or a stronger mode in it, where no sharer is in the way and none can
/// arrive meanwhile.
#[cold]
fn lock_beside_sharers(
    shard: &Shard,
    name: Name,
    word: &impl Word,
    owner: TransactionId,
    mode: RowLock,
) -> Tried {
    if held_by(word, owner).is_some_and(|held| held >= mode) {
        return Tried::Held;
    }
    let all = shard.sharers.lock().expect("no panic in a shard");
    if let Some(sharer) = first_in_the_way(&all, name, owner, mode) {
        return Tried::HeldBy(sharer);
    }
    match word.try_lock(owner, mode) {
        TryLock::Locked => Tried::Locked,
        TryLock::AlreadyLocked => {
            word.set_mode(owner, mode);
            Tried::Strengthened(RowLock::NoKeyUpdate)
        }
        TryLock::HeldBy(other) => Tried::HeldBy(other),
        TryLock::Dead => Tried::Dead,
    }
}

/// W2 found sharers in the shard, after W1: gives the word back if one is in the way.
#[cold]
fn check_locked(
    shard: &Shard,
    name: Name,
    word: &impl Word,
    owner: TransactionId,
    mode: RowLock,
) -> Tried {
    let all = shard.sharers.lock().expect("no panic in a shard");
    match first_in_the_way(&all, name, owner, mode) {
        None => Tried::Locked,
        Some(sharer) => {
            word.unlock(owner);
            Tried::GaveBack(sharer)
        }
    }
}

/// The word is `owner`'s already, perhaps in a weaker mode than it wants.
#[inline]
fn lock_more(
    shard: &Shard,
    name: Name,
    word: &impl Word,
    owner: TransactionId,
    mode: RowLock,
) -> Tried {
    if held_by(word, owner).is_some_and(|held| held >= mode) {
        return Tried::Held;
    }
    lock_beside_sharers(shard, name, word, owner, mode)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const NAME: Name = (StorageId(1), Rid(7));
    const OTHER: Name = (StorageId(1), Rid(8));
    const A: TransactionId = TransactionId(1);
    const B: TransactionId = TransactionId(2);
    const C: TransactionId = TransactionId(3);

    #[test]
    fn a_sharer_may_be_a_writer_and_become_a_sharer_again() {
        let (locks, word) = (RowLocks::new(), fake::Word::default());
        let try_lock = |owner, mode| locks.try_lock(NAME, &word, owner, mode);
        assert_eq!(try_lock(A, RowLock::KeyShare), Tried::Locked);
        assert_eq!(
            try_lock(A, RowLock::Share),
            Tried::Strengthened(RowLock::KeyShare)
        );
        assert_eq!(try_lock(B, RowLock::KeyShare), Tried::Locked);
        assert_eq!(try_lock(A, RowLock::NoKeyUpdate), Tried::Locked);
        assert_eq!(try_lock(A, RowLock::Share), Tried::Held);
        assert_eq!(try_lock(B, RowLock::Share), Tried::HeldBy(A));
        assert_eq!(try_lock(A, RowLock::Update), Tried::HeldBy(B));
        locks.set_share(NAME, B, None);
        assert_eq!(
            try_lock(A, RowLock::Update),
            Tried::Strengthened(RowLock::NoKeyUpdate)
        );
        assert_eq!(try_lock(B, RowLock::KeyShare), Tried::HeldBy(A));
        word.unlock(A);
        assert_eq!(try_lock(B, RowLock::NoKeyUpdate), Tried::HeldBy(A));
        locks.set_share(NAME, A, Some(RowLock::KeyShare));
        assert_eq!(try_lock(B, RowLock::NoKeyUpdate), Tried::Locked);
        locks.set_share(NAME, A, None);
        assert!(!locks.is_shared(NAME));
        assert_eq!(try_lock(C, RowLock::Update), Tried::HeldBy(B));
    }

    #[test]
    fn the_holders_are_those_in_the_way() {
        let (locks, word) = (RowLocks::new(), fake::Word::default());
        assert_eq!(
            locks.try_lock(NAME, &word, A, RowLock::Share),
            Tried::Locked
        );
        assert_eq!(
            locks.try_lock(NAME, &word, B, RowLock::KeyShare),
            Tried::Locked
        );
        assert_eq!(
            locks.try_lock(OTHER, &word, C, RowLock::NoKeyUpdate),
            Tried::Locked
        );
        let of = |owner, mode| {
            let mut holders = Vec::new();
            locks.holders(NAME, Some(&word), (owner, mode), &mut holders);
            holders
        };
        assert_eq!(of(TransactionId(4), RowLock::Update), [C, A, B]);
        assert_eq!(of(TransactionId(4), RowLock::NoKeyUpdate), [C, A]);
        assert_eq!(of(TransactionId(4), RowLock::Share), [C]);
        assert_eq!(of(A, RowLock::KeyShare), []);
        assert_eq!(of(C, RowLock::Update), [A, B]);
    }
}

/// Run with `RUSTFLAGS="--cfg shuttle" cargo test -p coeval-occ --lib shuttled`.
#[cfg(all(test, shuttle))]
mod shuttled {
    use std::sync::Arc;

    use coeval_memory::sync::atomic::AtomicU64;
    use shuttle::thread;

    use super::*;

    const NAME: Name = (StorageId(1), Rid(7));

    #[derive(Default)]
    struct Inside {
        writers: AtomicU64,
        key_sharers: AtomicU64,
        sharers: AtomicU64,
    }

    impl Inside {
        fn of(&self, mode: RowLock) -> &AtomicU64 {
            match mode {
                RowLock::KeyShare => &self.key_sharers,
                RowLock::Share => &self.sharers,
                RowLock::NoKeyUpdate | RowLock::Update => &self.writers,
            }
        }

        /// Asserts that no transaction holds a mode that conflicts with this one, which the
        /// caller holds.
        fn check(&self, mode: RowLock) {
            let now = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
            let own = u64::from(!mode.is_shared());
            if mode != RowLock::KeyShare {
                assert_eq!(now(&self.writers), own, "a writer beside {mode}");
            }
            if !mode.is_shared() {
                assert_eq!(now(&self.sharers), 0, "a sharer beside {mode}");
            }
            if mode == RowLock::Update {
                assert_eq!(
                    now(&self.key_sharers),
                    0,
                    "a sharer of the key beside {mode}"
                );
            }
        }
    }

    /// A sharer that looks at the word first, and enters then.
    fn share_late(
        locks: &RowLocks,
        word: &fake::Word,
        owner: TransactionId,
        mode: RowLock,
    ) -> Tried {
        let shard = locks.shard(NAME);
        let mut all = shard.sharers.lock().expect("no panic in a shard");
        if let Some((writer, held)) = word.held()
            && mode.conflicts_with(held)
        {
            return Tried::HeldBy(writer);
        }
        shard.entries.fetch_add(1, Ordering::SeqCst);
        all.entry(NAME).or_default().push((owner, mode));
        Tried::Locked
    }

    fn contend(modes: [RowLock; 3], late: bool) {
        let shared = Arc::new((RowLocks::new(), fake::Word::default(), Inside::default()));
        let threads: Vec<_> = modes
            .into_iter()
            .zip(1..)
            .map(|(mode, owner)| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (locks, word, inside) = &*shared;
                    let owner = TransactionId(owner);
                    for _ in 0..2 {
                        loop {
                            let tried = match late && mode.is_shared() {
                                true => share_late(locks, word, owner, mode),
                                false => locks.try_lock(NAME, word, owner, mode),
                            };
                            if tried == Tried::Locked {
                                break;
                            }
                            thread::yield_now();
                        }
                        inside.of(mode).fetch_add(1, Ordering::SeqCst);
                        inside.check(mode);
                        if mode == RowLock::NoKeyUpdate
                            && let Tried::Strengthened(_) =
                                locks.try_lock(NAME, word, owner, RowLock::Update)
                        {
                            inside.check(RowLock::Update);
                            word.set_mode(owner, RowLock::NoKeyUpdate);
                        }
                        inside.of(mode).fetch_sub(1, Ordering::SeqCst);
                        match mode.is_shared() {
                            true => locks.set_share(NAME, owner, None),
                            false => word.unlock(owner),
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert!(!shared.0.is_shared(NAME));
    }

    const MODES: [[RowLock; 3]; 4] = [
        [RowLock::Share, RowLock::NoKeyUpdate, RowLock::Share],
        [RowLock::KeyShare, RowLock::Update, RowLock::KeyShare],
        [RowLock::KeyShare, RowLock::NoKeyUpdate, RowLock::Share],
        [RowLock::Update, RowLock::NoKeyUpdate, RowLock::KeyShare],
    ];

    #[test]
    fn no_two_hold_modes_that_conflict() {
        for modes in MODES {
            shuttle::check_random(move || contend(modes, false), 1000);
        }
    }

    #[test]
    #[should_panic(expected = "beside")]
    fn a_sharer_that_looks_too_early_is_found() {
        shuttle::check_random(|| contend(MODES[0], true), 5000);
    }
}

/// A lock word without a record.
#[cfg(test)]
mod fake {
    use coeval_memory::sync::atomic::AtomicU64;

    use super::*;

    const WEAK: u64 = 1 << 61;

    #[derive(Default)]
    pub(super) struct Word(AtomicU64);

    fn of(owner: TransactionId, mode: RowLock) -> u64 {
        match mode {
            RowLock::Update => owner.0,
            _ => owner.0 | WEAK,
        }
    }

    impl super::Word for Word {
        fn is_dead(&self) -> bool {
            false
        }

        fn held(&self) -> Option<(TransactionId, RowLock)> {
            match self.0.load(Ordering::SeqCst) {
                0 => None,
                weak if weak & WEAK != 0 => {
                    Some((TransactionId(weak & !WEAK), RowLock::NoKeyUpdate))
                }
                strong => Some((TransactionId(strong), RowLock::Update)),
            }
        }

        fn try_lock(&self, owner: TransactionId, mode: RowLock) -> TryLock {
            let to = of(owner, mode);
            match self
                .0
                .compare_exchange(0, to, Ordering::SeqCst, Ordering::SeqCst)
            {
                Ok(_) => TryLock::Locked,
                Err(held) if held & !WEAK == owner.0 => TryLock::AlreadyLocked,
                Err(held) => TryLock::HeldBy(TransactionId(held & !WEAK)),
            }
        }

        fn set_mode(&self, owner: TransactionId, mode: RowLock) {
            assert_eq!(self.held().map(|(holder, _)| holder), Some(owner));
            self.0.store(of(owner, mode), Ordering::SeqCst);
        }

        fn unlock(&self, owner: TransactionId) {
            assert_eq!(self.held().map(|(holder, _)| holder), Some(owner));
            self.0.store(0, Ordering::SeqCst);
        }
    }
}
