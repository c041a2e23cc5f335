//! Random transactions, recorded with their answers, and a judge that searches for a
//! serial order which explains the answers.
//!
//! Every committed transaction leaves its steps with their answers. The judge sorts the
//! transactions by commit timestamp and replays them on a plain map:
//!
//! - a SERIALIZABLE transaction must answer the same *at its position in that order*;
//! - a snapshot isolation transaction must answer the same *at its snapshot*, and no
//!   other transaction may have written a row of its between its snapshot and its commit;
//! - of a READ COMMITTED transaction only its writes count.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use coeval_txn::{
    Direction, Engine, Error, Insert, Isolation, Savepoint, ScanSource, Transaction, Update,
};
use coeval_types::Timestamp;

use crate::support::{
    PRIMARY, Row, SECONDARY, begin, change, commit, delete, get, get_many, insert, lock_table, scan,
};

/// Random numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ word >> 31) % limit
    }
}

const KEYS: u64 = 6;
const VALUES: u64 = 4;

#[derive(Clone, Debug)]
enum HistoryStep {
    Get(u64),
    /// Reads the first key, and the key at this distance after it, at once.
    GetMany(u64, u64),
    Scan(u64, u64, Direction, usize),
    Where(u64),
    Table,
    Insert(u64, u64),
    Set(u64, u64),
    Add(u64),
    /// Moves a row from one key to another.
    Move(u64, u64),
    Delete(u64),
    Savepoint,
    Rollback,
}

impl HistoryStep {
    fn random(chance: &mut Chance) -> Self {
        let (key, value) = (chance.below(KEYS), chance.below(VALUES));
        match chance.below(16) {
            0..=1 => Self::Get(key),
            2..=3 => Self::GetMany(key, chance.below(KEYS)),
            4..=5 => {
                let direction = if chance.below(2) == 0 {
                    Direction::Forward
                } else {
                    Direction::Backward
                };
                let chunk = chance.below(3) as usize + 1;
                Self::Scan(key, key + chance.below(3), direction, chunk)
            }
            6..=7 => Self::Where(value),
            8 => Self::Table,
            9..=10 => Self::Insert(key, value),
            11 => Self::Set(key, value),
            12 => Self::Add(key),
            13 => Self::Delete(key),
            14 => Self::Move(key, chance.below(KEYS)),
            _ if chance.below(2) == 0 => Self::Savepoint,
            _ => Self::Rollback,
        }
    }
}

/// The answer to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Value(Option<u64>),
    Rows(Vec<Row>),
    Done(bool),
}

/// The final state of a key: its value, or none.
type Effect = (u64, Option<u64>);

/// A committed transaction.
#[derive(Clone, Debug)]
struct Committed {
    isolation: Isolation,
    snapshot: Timestamp,
    timestamp: Timestamp,
    steps: Vec<(HistoryStep, Answer)>,
    /// In order, without the effects that were rolled back.
    effects: Vec<Effect>,
}

/// The recorded transactions of all sessions of a run.
#[derive(Debug, Default)]
pub struct History {
    committed: Mutex<Vec<Committed>>,
    failed: Mutex<Vec<Error>>,
}

/// The transactions of one session: their number, their isolation levels, and the random
/// number generator.
#[derive(Clone, Debug)]
pub struct Plan {
    pub transactions: usize,
    pub levels: &'static [Isolation],
    pub chance: Chance,
}

struct Running<'history> {
    transaction: Box<dyn Transaction>,
    history: &'history History,
    steps: Vec<(HistoryStep, Answer)>,
    effects: Vec<Effect>,
    savepoints: Vec<(Savepoint, usize)>,
}

impl Running<'_> {
    async fn step(&mut self, step: HistoryStep) -> Result<(), Error> {
        let transaction = &mut *self.transaction;
        transaction.begin_statement()?;
        let writes = !matches!(
            step,
            HistoryStep::Get(_)
                | HistoryStep::GetMany(..)
                | HistoryStep::Scan(..)
                | HistoryStep::Where(_)
                | HistoryStep::Table
        );
        if writes {
            lock_table(transaction).await?;
        }
        let answer = match step {
            HistoryStep::Get(key) => Answer::Value(get(transaction, key)?.map(|(_, value)| value)),
            HistoryStep::GetMany(first, second) => {
                Answer::Rows(get_many(transaction, &[first, second, first + 1])?)
            }
            HistoryStep::Scan(first, last, direction, chunk) => {
                let source = ScanSource::Index(PRIMARY);
                Answer::Rows(scan(transaction, source, first, last, direction, chunk)?)
            }
            HistoryStep::Where(value) => {
                let source = ScanSource::Index(SECONDARY);
                let forward = Direction::Forward;
                Answer::Rows(sorted(scan(transaction, source, value, value, forward, 2)?))
            }
            HistoryStep::Table => {
                let (source, forward) = (ScanSource::Table, Direction::Forward);
                Answer::Rows(sorted(scan(transaction, source, 0, u64::MAX, forward, 3)?))
            }
            HistoryStep::Insert(key, value) => {
                let done = matches!(
                    insert(transaction, (key, value)).await?,
                    Insert::Inserted(_)
                );
                if done {
                    self.effects.push((key, Some(value)));
                }
                Answer::Done(done)
            }
            HistoryStep::Set(key, value) => {
                let done = change(transaction, key, |_| value).await?.is_some();
                if done {
                    self.effects.push((key, Some(value)));
                }
                Answer::Done(done)
            }
            HistoryStep::Add(key) => {
                let added = std::cell::Cell::new(0);
                let add = |value: u64| {
                    added.set((value + 1) % VALUES);
                    added.get()
                };
                let done = change(transaction, key, add).await?.is_some();
                if done {
                    self.effects.push((key, Some(added.get())));
                }
                Answer::Done(done)
            }
            HistoryStep::Move(from, to) => {
                let moved = crate::support::move_row(transaction, from, to).await?;
                if let Some((Update::Updated(_), value)) = moved {
                    self.effects.push((from, None));
                    self.effects.push((to, Some(value)));
                }
                Answer::Done(matches!(moved, Some((Update::Updated(_), _))))
            }
            HistoryStep::Delete(key) => {
                let done = delete(transaction, key).await?;
                if done {
                    self.effects.push((key, None));
                }
                Answer::Done(done)
            }
            HistoryStep::Savepoint => {
                self.savepoints
                    .push((transaction.savepoint(), self.effects.len()));
                Answer::Done(true)
            }
            HistoryStep::Rollback => {
                if let Some(&(savepoint, length)) = self.savepoints.last() {
                    transaction.rollback_to(savepoint)?;
                    self.effects.truncate(length);
                }
                Answer::Done(true)
            }
        };
        self.steps.push((step, answer));
        Ok(())
    }

    async fn commit(mut self) -> Result<(), Error> {
        let (isolation, snapshot) = (self.transaction.isolation(), self.transaction.snapshot());
        let timestamp = commit(&mut *self.transaction).await?;
        let mut committed = self.history.committed.lock().expect("no panic");
        committed.push(Committed {
            isolation,
            snapshot,
            timestamp,
            steps: self.steps,
            effects: self.effects,
        });
        Ok(())
    }
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_unstable();
    rows
}

/// Runs one session's transactions, and lets other sessions run before every step.
pub async fn session(engine: &dyn Engine, history: &History, plan: Plan) {
    let mut chance = plan.chance;
    for _ in 0..plan.transactions {
        let isolation = plan.levels[chance.below(plan.levels.len() as u64) as usize];
        let steps: Vec<HistoryStep> = (0..chance.below(6) + 1)
            .map(|_| HistoryStep::random(&mut chance))
            .collect();
        let mut running = Running {
            transaction: begin(engine, isolation).await,
            history,
            steps: Vec::new(),
            effects: Vec::new(),
            savepoints: Vec::new(),
        };
        let mut result = Ok(());
        for step in steps {
            yield_now().await;
            result = running.step(step).await;
            if result.is_err() {
                break;
            }
        }
        yield_now().await;
        let result = match result {
            Ok(()) => running.commit().await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            history.failed.lock().expect("no panic").push(error);
        }
    }
}

async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

struct Awake(AtomicBool);

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs sessions in one thread, in random order. A session runs only when it was woken,
/// so that a lost wake-up is found.
pub fn interleave<'a>(sessions: Vec<Pin<Box<dyn Future<Output = ()> + 'a>>>, chance: &mut Chance) {
    let mut tasks: Vec<_> = sessions
        .into_iter()
        .map(|session| (Arc::new(Awake(AtomicBool::new(true))), session))
        .collect();
    while !tasks.is_empty() {
        let awake: Vec<usize> = (0..tasks.len())
            .filter(|&at| tasks[at].0.0.load(Ordering::Acquire))
            .collect();
        assert!(
            !awake.is_empty(),
            "every session sleeps: a wake-up was lost"
        );
        let at = awake[chance.below(awake.len() as u64) as usize];
        let (flag, session) = &mut tasks[at];
        flag.0.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(flag));
        let mut context = Context::from_waker(&waker);
        if session.as_mut().poll(&mut context).is_ready() {
            drop(tasks.swap_remove(at));
        }
    }
}

type Map = BTreeMap<u64, u64>;

fn apply(map: &mut Map, effects: &[Effect]) {
    for &(key, value) in effects {
        match value {
            Some(value) => map.insert(key, value),
            None => map.remove(&key),
        };
    }
}

/// Replays the steps on a map, and reports the first step that answered otherwise.
fn replay(mut map: Map, steps: &[(HistoryStep, Answer)]) -> Result<(), String> {
    let mut savepoints: Vec<Map> = Vec::new();
    for (at, (step, answer)) in steps.iter().enumerate() {
        let rows = |map: &Map, keep: &dyn Fn(&Row) -> bool| {
            let rows = map.iter().map(|(&key, &value)| (key, value));
            Answer::Rows(rows.filter(keep).collect())
        };
        let expected = match *step {
            HistoryStep::Get(key) => Answer::Value(map.get(&key).copied()),
            HistoryStep::GetMany(first, second) => {
                let keys = [first, second, first + 1].into_iter();
                Answer::Rows(
                    keys.filter_map(|key| Some((key, *map.get(&key)?)))
                        .collect(),
                )
            }
            HistoryStep::Scan(first, last, direction, _) => {
                let inside = |row: &Row| (first..=last).contains(&row.0);
                match (rows(&map, &inside), direction) {
                    (Answer::Rows(mut rows), Direction::Backward) => {
                        rows.reverse();
                        Answer::Rows(rows)
                    }
                    (rows, _) => rows,
                }
            }
            HistoryStep::Where(value) => rows(&map, &|row| row.1 == value),
            HistoryStep::Table => rows(&map, &|_| true),
            HistoryStep::Insert(key, value) => {
                let free = !map.contains_key(&key);
                if free {
                    map.insert(key, value);
                }
                Answer::Done(free)
            }
            HistoryStep::Set(key, value) => {
                Answer::Done(map.get_mut(&key).map(|there| *there = value).is_some())
            }
            HistoryStep::Add(key) => Answer::Done(
                map.get_mut(&key)
                    .map(|there| *there = (*there + 1) % VALUES)
                    .is_some(),
            ),
            HistoryStep::Move(from, to) => {
                let possible = map.contains_key(&from) && (from == to || !map.contains_key(&to));
                if possible {
                    let value = map.remove(&from).expect("just looked");
                    map.insert(to, value);
                }
                Answer::Done(possible)
            }
            HistoryStep::Delete(key) => Answer::Done(map.remove(&key).is_some()),
            HistoryStep::Savepoint => {
                savepoints.push(map.clone());
                Answer::Done(true)
            }
            HistoryStep::Rollback => {
                if let Some(savepoint) = savepoints.last() {
                    map.clone_from(savepoint);
                }
                Answer::Done(true)
            }
        };
        if expected != *answer {
            return Err(format!(
                "step {at}, {step:?}, answered {answer:?} instead of {expected:?}"
            ));
        }
    }
    Ok(())
}

impl History {
    /// The number of transactions that committed, and of those that did not.
    pub fn counts(&self) -> (usize, usize) {
        let committed = self.committed.lock().expect("no panic").len();
        (committed, self.failed.lock().expect("no panic").len())
    }

    /// The errors that transactions ended with.
    pub fn failures(&self) -> Vec<Error> {
        self.failed.lock().expect("no panic").clone()
    }

    /// Finds the order that explains everything, from `rows` at the beginning to `end`,
    /// or reports the first transaction that no order explains.
    pub fn judge(&self, rows: &[Row], end: &[Row]) -> Result<(), String> {
        let mut all = self.committed.lock().expect("no panic").clone();
        // Writers come first among equal timestamps: a snapshot includes them.
        all.sort_by_key(|one| (one.timestamp, one.effects.is_empty()));
        // The state after everything up to a timestamp.
        let mut states: Vec<(Timestamp, Map)> =
            vec![(Timestamp::ZERO, rows.iter().copied().collect())];
        for (at, one) in all.iter().enumerate() {
            let before = &states.last().expect("one at least").1;
            let place = match one.isolation {
                Isolation::Serializable => before,
                _ => {
                    let after = states.partition_point(|state| state.0 <= one.snapshot);
                    &states[after - 1].1
                }
            };
            if one.isolation != Isolation::ReadCommitted {
                replay(place.clone(), &one.steps)
                    .map_err(|why| format!("{why}\nin {one:?}\nof {all:#?}"))?;
            }
            if one.isolation == Isolation::SnapshotIsolation {
                // A key that was absent and is absent again has no version to lose: the
                // record that had the key meanwhile may be gone.
                let absent = |key: &u64| !place.contains_key(key) && !before.contains_key(key);
                let mine: BTreeSet<u64> = one
                    .effects
                    .iter()
                    .map(|effect| effect.0)
                    .filter(|key| !absent(key))
                    .collect();
                let meanwhile = all[..at]
                    .iter()
                    .filter(|other| other.timestamp > one.snapshot);
                for other in meanwhile {
                    if other.effects.iter().any(|effect| mine.contains(&effect.0)) {
                        return Err(format!("lost update: {other:?}, then {one:?}"));
                    }
                }
            }
            let mut state = before.clone();
            apply(&mut state, &one.effects);
            states.push((one.timestamp, state));
        }
        let last: Vec<Row> = states
            .last()
            .expect("one at least")
            .1
            .iter()
            .map(|(&key, &value)| (key, value))
            .collect();
        if last != end {
            return Err(format!("ended with {end:?} instead of {last:?}\n{all:#?}"));
        }
        Ok(())
    }
}
