//! A small multi-version database with configurable isolation, and clients that record what
//! they see.
//!
//! One thread, one seed: at every step some client begins, executes an operation, or ends.
//! The store keeps every committed state of every object with the time of its commit. Each
//! level is a few lines here that do not use graphs, which makes the store independent of
//! the judges.

use std::collections::BTreeMap;

use coeval_check::history::{History, Operation, Outcome, Register, Transaction};

/// The isolation that the store provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Transactions run one after another, at the time of commit.
    Serial,
    /// Serial as above, but read-only transactions may see any earlier state.
    SerialWithStaleReads,
    /// A snapshot as of begin; the first to commit a write wins.
    StrongSnapshot,
    /// A snapshot as of any time since the process's last commit.
    SessionSnapshot,
    /// A snapshot as of any time.
    AnySnapshot,
    /// Each operation sees the commits so far; writers do not wait, they abort.
    ReadCommitted,
    /// Each operation sees other transactions' writes, committed or not.
    ReadUncommitted,
}

/// The operations that clients execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Append to lists, and read them.
    Lists,
    /// Write registers, and read them.
    Registers,
    /// Move money between registers that are accounts, or read all of them.
    Bank,
    /// Add one amount to each of the registers, as TPC-B adds to account, teller and
    /// branch.
    TpcB,
}

/// Number of objects.
pub const OBJECTS: u64 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    List(Vec<i64>),
    Register(Register),
}

/// A pseudorandom number generator that is determined by its seed.
pub struct Random(pub u64);

impl Random {
    /// A uniformly distributed number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

struct Running {
    started: u64,
    snapshot: u64,
    wants: Vec<(bool, u64)>,
    done: Vec<Operation>,
    own: BTreeMap<u64, State>,
    aborts: bool,
    /// The amount that is moved, where objects are accounts.
    amount: i64,
}

struct Store {
    isolation: Isolation,
    load: Load,
    random: Random,
    clock: u64,
    next_value: i64,
    /// For TPC-B: the sum of the amounts that committed transactions added to each
    /// register.
    added: i64,
    /// By object, its committed states with their times.
    committed: BTreeMap<u64, Vec<(u64, State)>>,
    running: Vec<Option<Running>>,
    last_commit: Vec<u64>,
    transactions: Vec<Transaction>,
}

/// A history of the given number of transactions of four clients on three objects.
pub fn history(isolation: Isolation, lists: bool, transactions: usize, seed: u64) -> History {
    let load = if lists { Load::Lists } else { Load::Registers };
    run(isolation, load, transactions, seed).history
}

/// The result of a run.
pub struct StoreRun {
    pub history: History,
    /// The final values of the registers.
    pub balances: Vec<i64>,
    /// For TPC-B: the sum of all amounts that were added to each register.
    pub added: i64,
}

/// Runs the given number of transactions of four clients on three objects.
pub fn run(isolation: Isolation, load: Load, transactions: usize, seed: u64) -> StoreRun {
    let mut store = Store {
        isolation,
        load,
        random: Random(seed),
        clock: 0,
        next_value: 0,
        added: 0,
        committed: BTreeMap::new(),
        running: (0..4).map(|_| None).collect(),
        last_commit: vec![0; 4],
        transactions: Vec::new(),
    };
    while store.transactions.len() < transactions {
        let client = store.random.below(4) as usize;
        store.clock += 1;
        store.step(client);
    }
    let balances = (0..OBJECTS).map(|key| balance(&store.at(key, store.clock)));
    StoreRun {
        balances: balances.collect(),
        added: store.added,
        history: History {
            transactions: store.transactions,
        },
    }
}

fn balance(state: &State) -> i64 {
    match state {
        State::Register(Register::Value(value)) => *value,
        State::Register(Register::Absent) | State::List(_) => 0,
    }
}

impl Store {
    fn step(&mut self, client: usize) {
        let Some(mut running) = self.running[client].take() else {
            self.running[client] = Some(self.begin(client));
            return;
        };
        let is_serial = matches!(
            self.isolation,
            Isolation::Serial | Isolation::SerialWithStaleReads
        );
        if is_serial {
            // A few steps pass before everything happens at once.
            if self.random.below(3) > 0 {
                self.running[client] = Some(running);
                return;
            }
            let only_reads = running.wants.iter().all(|(writes, _)| !writes);
            let is_stale = self.isolation == Isolation::SerialWithStaleReads && only_reads;
            running.snapshot = match is_stale {
                true => self.random.below(self.clock),
                false => self.clock,
            };
            for (writes, key) in std::mem::take(&mut running.wants).into_iter().rev() {
                self.operation(&mut running, writes, key);
            }
        } else if let Some((writes, key)) = running.wants.pop() {
            if self.operation(&mut running, writes, key) {
                self.running[client] = Some(running);
            } else {
                self.end(client, running, false);
            }
            return;
        }
        let commits = !running.aborts && self.may_commit(&running);
        self.end(client, running, commits);
    }

    fn begin(&mut self, client: usize) -> Running {
        let snapshot = match self.isolation {
            Isolation::AnySnapshot => self.random.below(self.clock + 1),
            Isolation::SessionSnapshot => {
                let since = self.last_commit[client];
                since + self.random.below(self.clock + 1 - since)
            }
            _ => self.clock,
        };
        let wants = self.wants();
        let amount = match self.load {
            Load::Lists | Load::Registers => 0,
            Load::Bank | Load::TpcB => 1 + self.random.below(9) as i64,
        };
        Running {
            amount,
            started: self.clock,
            snapshot,
            wants,
            done: Vec::new(),
            own: BTreeMap::new(),
            aborts: self.random.below(10) == 0,
        }
    }

    /// The remaining operations of a transaction, the first one last.
    fn wants(&mut self) -> Vec<(bool, u64)> {
        let all = |writes| (0..OBJECTS).map(move |key| (writes, key));
        match self.load {
            Load::Lists | Load::Registers => {
                let count = 1 + self.random.below(4);
                (0..count)
                    .map(|_| (self.random.below(2) == 0, self.random.below(OBJECTS)))
                    .collect()
            }
            Load::Bank if self.random.below(2) == 0 => all(false).collect(),
            Load::Bank => {
                let from = self.random.below(OBJECTS);
                let to = (from + 1 + self.random.below(OBJECTS - 1)) % OBJECTS;
                vec![(true, to), (true, from), (false, to), (false, from)]
            }
            Load::TpcB => all(true).chain(all(false)).collect(),
        }
    }

    /// The new balance of an account that a transaction has read.
    fn moved(&self, running: &Running, key: u64) -> i64 {
        let read = running.done.iter().rev().find_map(|done| match done {
            Operation::Read { key: of, value } if *of == key => *value,
            _ => None,
        });
        let before = read.map_or(0, |value| balance(&State::Register(value)));
        let first = running.own.is_empty();
        match self.load {
            Load::Bank if first => before - running.amount,
            _ => before + running.amount,
        }
    }

    /// Executes an operation. Returns whether the transaction continues.
    fn operation(&mut self, running: &mut Running, writes: bool, key: u64) -> bool {
        let by_statement = matches!(
            self.isolation,
            Isolation::ReadCommitted | Isolation::ReadUncommitted
        );
        let others = || {
            self.running
                .iter()
                .flatten()
                .filter_map(|other| other.own.get(&key))
        };
        if self.isolation == Isolation::ReadCommitted && writes && others().count() > 0 {
            return false;
        }
        let moment = if by_statement {
            self.clock
        } else {
            running.snapshot
        };
        let dirty = others()
            .next_back()
            .filter(|_| self.isolation == Isolation::ReadUncommitted);
        let seen = match running.own.get(&key).or(dirty) {
            Some(state) => state.clone(),
            None => self.at(key, moment),
        };
        running.done.push(if writes {
            self.next_value += 1;
            let value = match self.load {
                Load::Lists | Load::Registers => self.next_value,
                Load::Bank | Load::TpcB => self.moved(running, key),
            };
            let (operation, next) = match seen {
                State::List(mut elements) => {
                    elements.push(value);
                    (
                        Operation::Append {
                            key,
                            element: value,
                        },
                        State::List(elements),
                    )
                }
                State::Register(_) => {
                    let next = State::Register(Register::Value(value));
                    (Operation::Write { key, value }, next)
                }
            };
            running.own.insert(key, next);
            operation
        } else {
            match seen {
                State::List(elements) => Operation::ReadList {
                    key,
                    elements: Some(elements),
                },
                State::Register(value) => Operation::Read {
                    key,
                    value: Some(value),
                },
            }
        });
        true
    }

    fn at(&self, key: u64, moment: u64) -> State {
        let mut versions = self.committed.get(&key).into_iter().flatten();
        let seen = versions.rfind(|(at, _)| *at <= moment);
        let initial = if self.load == Load::Lists {
            State::List(Vec::new())
        } else {
            State::Register(Register::Absent)
        };
        seen.map_or(initial, |(_, state)| state.clone())
    }

    /// The first committer wins, where there are snapshots.
    fn may_commit(&self, running: &Running) -> bool {
        let by_snapshot = matches!(
            self.isolation,
            Isolation::StrongSnapshot | Isolation::SessionSnapshot | Isolation::AnySnapshot
        );
        !by_snapshot
            || running.own.keys().all(|key| {
                let versions = self.committed.get(key).into_iter().flatten();
                versions
                    .last()
                    .is_none_or(|(at, _)| *at <= running.snapshot)
            })
    }

    fn end(&mut self, client: usize, running: Running, commits: bool) {
        let is_unknown = self.random.below(12) == 0;
        if commits {
            for (key, state) in running.own {
                self.committed
                    .entry(key)
                    .or_default()
                    .push((self.clock, state));
            }
            self.last_commit[client] = self.clock;
            self.added += running.amount;
        }
        let outcome = match (is_unknown, commits) {
            (true, _) => Outcome::Unknown,
            (false, true) => Outcome::Committed,
            (false, false) => Outcome::Aborted,
        };
        // The client receives the answer later.
        self.clock += 1;
        self.transactions.push(Transaction {
            process: client as u64,
            started: running.started,
            finished: (!is_unknown).then_some(self.clock),
            outcome,
            read_only: false,
            operations: running.done,
        });
    }
}
