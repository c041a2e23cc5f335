//! SmallBank workload: short transactions on bank customers, some of whom are hot.
//!
//! Each customer has a savings and a checking account. There are six kinds of
//! transactions:
//!
//! | kind | does | of a hundred |
//! | --- | --- | --- |
//! | balance | reads both accounts of one customer | 15 |
//! | deposit-checking | adds to the checking account | 15 |
//! | transact-savings | adds to or takes from the savings account | 15 |
//! | amalgamate | moves all money of one customer to another's checking account | 15 |
//! | write-check | takes from checking; a penalty when both together do not cover it | 15 |
//! | send-payment | from one checking account to another | 25 |
//!
//! Under snapshot isolation, write-check and transact-savings of one customer can cause
//! write skew, which the benchmark was designed to show (Alomari et al.: *The Cost of
//! Serializability on Platforms That Use Snapshot Isolation*, ICDE 2008; the mix is that
//! of H-Store's version). Amounts are whole cents.
//!
//! An account also has a version number, a new one after each change: balances recur, and
//! version numbers show in a history which write each read observed.
//!
//! At the end each account must hold its opening balance plus the changes of committed
//! transactions; a transaction of unknown outcome must have been applied entirely or not
//! at all. For tables that an earlier run has filled, the check only verifies that no
//! account is missing.

mod accounts;

use serde_json::json;

use super::sized;
use crate::store::{
    Cells, ColumnKind, Failure, Loader, Maker, Row, Scan, Session, Table, Versions,
};
use crate::workload::{Client, Done, Nature, Parameters, Workload};

use accounts::{Accounts, Change, Changes};

const SAVINGS: usize = 0;
const CHECKING: usize = 1;
/// Index of the version column, which gets a new number at each change.
const VERSION: usize = 2;
/// Opening balance of every account.
const OPENING: i64 = 1_000_000;
/// Penalty for a check that is not covered, in cents.
const PENALTY: i64 = 100;

/// The kinds, in order, and their shares in per cent.
const KINDS: [&str; 6] = [
    "balance",
    "deposit-checking",
    "transact-savings",
    "amalgamate",
    "write-check",
    "send-payment",
];
const SHARES: [u64; 6] = [15, 15, 15, 15, 15, 25];

/// The SmallBank workload.
#[derive(Debug)]
pub struct SmallBank {
    customers: u64,
    hot: u64,
    hot_percent: u64,
    tables: [Table; 2],
    /// Expected balances: both accounts of each customer, savings first.
    accounts: Accounts,
}

/// Changes of accounts by a committed transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effect(Changes);

/// One transaction, with its random choices made.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    kind: usize,
    /// Two customers; most kinds use only the first.
    customers: [i64; 2],
    amount: i64,
}

impl SmallBank {
    /// A bank with `customers` customers, at least 2, of whom the first `hot` are chosen
    /// in `hot_percent` per cent of the cases.
    #[must_use]
    pub fn new(customers: u64, hot: u64, hot_percent: u64) -> Self {
        let customers = customers.max(2);
        let columns = ["customer", "balance", "version"].map(|name| (name, ColumnKind::Bigint));
        Self {
            customers,
            hot: hot.clamp(2, customers),
            hot_percent: hot_percent.min(100),
            tables: [
                Table::new("smallbank_savings", 1, &columns),
                Table::new("smallbank_checking", 1, &columns),
            ],
            accounts: Accounts::new(2 * customers as usize, OPENING),
        }
    }

    /// Changes a balance; returns the amount of the change.
    async fn change(
        &self,
        session: &mut Session,
        version: u64,
        table: usize,
        customer: i64,
        change: impl Fn(i64) -> Option<i64>,
    ) -> Result<Change, Failure> {
        let mut row = Row::default();
        if !session.lock(table, &[customer], &mut row).await? {
            return Err(missing(customer));
        }
        let old = row.integer(1);
        let new = change(old).ok_or(Failure::Rollback)?;
        row.set_integer(&self.tables[table], 1, new);
        row.set_integer(&self.tables[table], VERSION, version.cast_signed());
        session.update(table, &row, &[1, VERSION]).await?;
        Ok((account(table, customer), new - old))
    }

    async fn read(session: &mut Session, table: usize, customer: i64) -> Result<i64, Failure> {
        let mut row = Row::default();
        if !session.get(table, &[customer], &mut row).await? {
            return Err(missing(customer));
        }
        Ok(row.integer(1))
    }
}

/// Number of an account.
fn account(table: usize, customer: i64) -> usize {
    2 * usize::try_from(customer).unwrap_or(0) + table
}

/// Name of an account, for messages.
fn named(account: usize) -> String {
    let table = ["savings", "checking"][account % 2];
    format!("{table} of customer {}", account / 2)
}

fn missing(customer: i64) -> Failure {
    Failure::Wrong(format!("customer {customer} is missing"))
}

impl Workload for SmallBank {
    type Request = Request;
    type Effect = Effect;

    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn tables(&self) -> Vec<Table> {
        self.tables.to_vec()
    }

    fn versions(&self) -> Vec<Versions> {
        let of = |table| Versions {
            table,
            column: VERSION,
            first: 0,
        };
        vec![of(SAVINGS), of(CHECKING)]
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn parameters(&self) -> Parameters {
        Parameters::from([
            ("customers".to_owned(), json!(self.customers)),
            ("hot_customers".to_owned(), json!(self.hot)),
            ("hot_percent".to_owned(), json!(self.hot_percent)),
        ])
    }

    async fn load(&self, _part: u64, loader: &mut Loader) -> Result<(), Failure> {
        self.accounts.open();
        let (mut maker, mut row) = (Maker::new(), Row::default());
        for (at, table) in self.tables.iter().enumerate() {
            for customer in 0..self.customers {
                maker.integer(table, customer.cast_signed());
                maker.integer(table, OPENING);
                maker.integer(table, 0).finish(&mut row);
                loader.row(at, &row).await?;
            }
        }
        Ok(())
    }

    async fn resume(&self, session: &mut Session) -> Result<u64, Failure> {
        let mut greatest = 0;
        for (at, table) in self.tables.iter().enumerate() {
            let scan = Scan::of(at, &[]);
            let found = session
                .scan(&scan, &mut |row| {
                    greatest = greatest.max(row.integer(VERSION));
                })
                .await?;
            sized(table, "customers", found as u64, self.customers)?;
        }
        Ok(greatest.unsigned_abs())
    }

    fn draw(&self, client: &mut Client) -> Request {
        let chance = &mut client.chance;
        let mut left = chance.within(0..SHARES.iter().sum());
        let mut kind = 0;
        while left >= SHARES[kind] {
            left -= SHARES[kind];
            kind += 1;
        }
        let of = if chance.within(0..100) < self.hot_percent {
            self.hot
        } else {
            self.customers
        };
        let first = chance.within(0..of);
        let second = (first + chance.within(1..of)) % of;
        let amount = chance.within(1..10_000).cast_signed();
        let take = kind == 2 && chance.once_in(2);
        Request {
            kind,
            customers: [first.cast_signed(), second.cast_signed()],
            amount: if take { -amount } else { amount },
        }
    }

    fn nature(&self, request: &Request) -> Nature {
        Nature {
            kind: request.kind,
            read_only: request.kind == 0,
            single: false,
        }
    }

    async fn run(
        &self,
        request: &Request,
        client: &mut Client,
        session: &mut Session,
    ) -> Result<Effect, Failure> {
        let version = client.unique();
        let &Request {
            kind,
            customers: [one, other],
            amount,
        } = request;
        let nothing = (0, 0);
        let changes = match kind {
            0 => {
                Self::read(session, SAVINGS, one).await?;
                Self::read(session, CHECKING, one).await?;
                [nothing; 3]
            }
            1 => {
                let add = |balance| Some(balance + amount);
                let added = self.change(session, version, CHECKING, one, add).await?;
                [added, nothing, nothing]
            }
            2 => {
                // A withdrawal must not overdraw the account.
                let add = |balance: i64| Some(balance + amount).filter(|new| *new >= 0);
                let added = self.change(session, version, SAVINGS, one, add).await?;
                [added, nothing, nothing]
            }
            3 => {
                let savings = self
                    .change(session, version, SAVINGS, one, |_| Some(0))
                    .await?;
                let checking = self
                    .change(session, version, CHECKING, one, |_| Some(0))
                    .await?;
                let add = |balance| Some(balance - savings.1 - checking.1);
                let added = self.change(session, version, CHECKING, other, add).await?;
                [savings, checking, added]
            }
            4 => {
                let savings = Self::read(session, SAVINGS, one).await?;
                let take = |checking: i64| {
                    let covered = savings + checking >= amount;
                    Some(checking - amount - if covered { 0 } else { PENALTY })
                };
                let taken = self.change(session, version, CHECKING, one, take).await?;
                [taken, nothing, nothing]
            }
            _ => {
                let take = |balance: i64| Some(balance - amount).filter(|new| *new >= 0);
                let taken = self.change(session, version, CHECKING, one, take).await?;
                let add = |balance| Some(balance + amount);
                let added = self.change(session, version, CHECKING, other, add).await?;
                [taken, added, nothing]
            }
        };
        Ok(Effect(changes))
    }

    fn ended(&self, request: &Request, effect: Option<Effect>, done: Done) {
        // A transaction without an effect was lost before its commit, so it cannot have
        // committed.
        if let Some(Effect(changes)) = effect {
            self.accounts.add(changes, done);
        }
        debug_assert!(request.kind < KINDS.len());
    }

    async fn check(&self, session: &mut Session) -> Result<Vec<String>, Failure> {
        let mut found = vec![None; 2 * self.customers as usize];
        let mut wrong = Vec::new();
        for table in [SAVINGS, CHECKING] {
            let scan = Scan::of(table, &[]);
            session
                .scan(&scan, &mut |row| {
                    let account = account(table, row.integer(0));
                    match found.get_mut(account) {
                        Some(balance) => *balance = Some(row.integer(1)),
                        None => wrong.push(format!("there is {}", named(account))),
                    }
                })
                .await?;
        }
        wrong.extend(self.accounts.judge(&found, named));
        Ok(wrong)
    }
}
