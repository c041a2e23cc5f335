//! SmallBank: short transactions on customers, some of whom are hot.
//!
//! Each customer has a savings and a checking account. Six kinds of transactions:
//!
//! | kind | does | of a hundred |
//! | --- | --- | --- |
//! | balance | reads both accounts of one customer | 15 |
//! | deposit-checking | adds to the checking account | 15 |
//! | transact-savings | adds to or takes from the savings account | 15 |
//! | amalgamate | moves everything of one customer to another's checking account | 15 |
//! | write-check | takes from checking; a penalty when both together do not cover it | 15 |
//! | send-payment | from one checking account to another | 25 |
//!
//! Under snapshot isolation write-check and transact-savings of one customer can skew:
//! it was made to show that (Alomari et al.: *The Cost of Serializability on Platforms
//! That Use Snapshot Isolation*, ICDE 2008; the mix is that of H-Store's version).
//! Amounts are whole cents.
//!
//! At the end all money together is what it was at the beginning plus what committed
//! transactions have paid in and out.

use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::json;

use crate::store::{Cells, Failure, Kind, Loader, Maker, Row, Scan, Session, Table};
use crate::workload::{Client, Done, Nature, Parameters, Workload};

const SAVINGS: usize = 0;
const CHECKING: usize = 1;
/// What every account opens with.
const OPENING: i64 = 1_000_000;
/// For a check that is not covered.
const PENALTY: i64 = 100;

/// The kinds, in their order, and their shares of a hundred.
const KINDS: [&str; 6] = [
    "balance",
    "deposit-checking",
    "transact-savings",
    "amalgamate",
    "write-check",
    "send-payment",
];
const SHARES: [u64; 6] = [15, 15, 15, 15, 15, 25];

/// A small bank.
#[derive(Debug)]
pub struct SmallBank {
    customers: u64,
    hot: u64,
    hot_percent: u64,
    tables: [Table; 2],
    /// What commits have paid in, less what they have paid out.
    paid: AtomicI64,
    /// What transactions of unknown end may have paid in, and out.
    perhaps_in: AtomicI64,
    perhaps_out: AtomicI64,
}

/// One transaction.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    kind: usize,
    /// Two customers; most kinds have to do with the first.
    customers: [i64; 2],
    amount: i64,
}

impl SmallBank {
    /// Of so many customers, at least 2, of whom `hot` are met in `hot_percent` of a
    /// hundred cases.
    #[must_use]
    pub fn new(customers: u64, hot: u64, hot_percent: u64) -> Self {
        let customers = customers.max(2);
        let columns = [("customer", Kind::Bigint), ("balance", Kind::Bigint)];
        Self {
            customers,
            hot: hot.clamp(2, customers),
            hot_percent: hot_percent.min(100),
            tables: [
                Table::new("smallbank_savings", 1, &columns),
                Table::new("smallbank_checking", 1, &columns),
            ],
            paid: AtomicI64::new(0),
            perhaps_in: AtomicI64::new(0),
            perhaps_out: AtomicI64::new(0),
        }
    }

    /// Changes a balance; what it was.
    async fn change(
        &self,
        session: &mut Session,
        table: usize,
        customer: i64,
        change: impl Fn(i64) -> Option<i64>,
    ) -> Result<i64, Failure> {
        let mut row = Row::default();
        if !session.lock(table, &[customer], &mut row).await? {
            return Err(missing(customer));
        }
        let old = row.integer(1);
        let new = change(old).ok_or(Failure::Rollback)?;
        row.set_integer(&self.tables[table], 1, new);
        session.update(table, &row, &[1]).await?;
        Ok(old)
    }

    async fn read(session: &mut Session, table: usize, customer: i64) -> Result<i64, Failure> {
        let mut row = Row::default();
        if !session.get(table, &[customer], &mut row).await? {
            return Err(missing(customer));
        }
        Ok(row.integer(1))
    }

    /// What is wrong with so many accounts and their sum.
    fn judge(&self, accounts: usize, sum: i64) -> Vec<String> {
        let mut wrong = Vec::new();
        if accounts as u64 != 2 * self.customers {
            wrong.push(format!(
                "{accounts} accounts of {} customers",
                self.customers
            ));
        }
        let opened = 2 * self.customers.cast_signed() * OPENING;
        let expected = opened + self.paid.load(Ordering::Acquire);
        let least = expected + self.perhaps_out.load(Ordering::Acquire);
        let most = expected + self.perhaps_in.load(Ordering::Acquire);
        if !(least..=most).contains(&sum) {
            wrong.push(format!("a sum of {sum} instead of {least} to {most}"));
        }
        wrong
    }
}

fn missing(customer: i64) -> Failure {
    Failure::Wrong(format!("customer {customer} is missing"))
}

impl Workload for SmallBank {
    type Request = Request;
    /// What was paid in, less what was paid out.
    type Effect = i64;

    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn tables(&self) -> Vec<Table> {
        self.tables.to_vec()
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
        let (mut maker, mut row) = (Maker::new(), Row::default());
        for (at, table) in self.tables.iter().enumerate() {
            for customer in 0..self.customers {
                maker.integer(table, customer.cast_signed());
                maker.integer(table, OPENING).finish(&mut row);
                loader.row(at, &row).await?;
            }
        }
        Ok(())
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
        _client: &mut Client,
        session: &mut Session,
    ) -> Result<i64, Failure> {
        let &Request {
            kind,
            customers: [one, other],
            amount,
        } = request;
        match kind {
            0 => {
                Self::read(session, SAVINGS, one).await?;
                Self::read(session, CHECKING, one).await?;
                Ok(0)
            }
            1 => {
                let add = |balance| Some(balance + amount);
                self.change(session, CHECKING, one, add).await?;
                Ok(amount)
            }
            2 => {
                // What is not there cannot be taken.
                let add = |balance: i64| Some(balance + amount).filter(|new| *new >= 0);
                self.change(session, SAVINGS, one, add).await?;
                Ok(amount)
            }
            3 => {
                let savings = self.change(session, SAVINGS, one, |_| Some(0)).await?;
                let checking = self.change(session, CHECKING, one, |_| Some(0)).await?;
                let add = |balance| Some(balance + savings + checking);
                self.change(session, CHECKING, other, add).await?;
                Ok(0)
            }
            4 => {
                let savings = Self::read(session, SAVINGS, one).await?;
                let charge = |checking: i64| {
                    let covered = savings + checking >= amount;
                    amount + if covered { 0 } else { PENALTY }
                };
                let take = |checking| Some(checking - charge(checking));
                let checking = self.change(session, CHECKING, one, take).await?;
                Ok(-charge(checking))
            }
            _ => {
                let take = |balance: i64| Some(balance - amount).filter(|new| *new >= 0);
                self.change(session, CHECKING, one, take).await?;
                let add = |balance| Some(balance + amount);
                self.change(session, CHECKING, other, add).await?;
                Ok(0)
            }
        }
    }

    fn ended(&self, request: &Request, effect: Option<i64>, done: Done) {
        let effect = effect.unwrap_or(0);
        match done {
            Done::Committed => self.paid.fetch_add(effect, Ordering::AcqRel),
            Done::Perhaps if effect > 0 => self.perhaps_in.fetch_add(effect, Ordering::AcqRel),
            Done::Perhaps => self.perhaps_out.fetch_add(effect, Ordering::AcqRel),
        };
        debug_assert!(request.kind < KINDS.len());
    }

    async fn check(&self, session: &mut Session) -> Result<Vec<String>, Failure> {
        let (mut accounts, mut sum) = (0, 0);
        for table in [SAVINGS, CHECKING] {
            let scan = Scan::of(table, &[]);
            accounts += session
                .scan(&scan, &mut |row| sum += row.integer(1))
                .await?;
        }
        Ok(self.judge(accounts, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_money_is_seen_and_doubtful_money_is_not() {
        let bank = SmallBank::new(10, 5, 90);
        let request = bank.draw(&mut Client::new(0, 1, 1));
        bank.ended(&request, Some(7), Done::Committed);
        assert!(bank.judge(20, 20 * OPENING + 7).is_empty());
        assert_eq!(bank.judge(20, 20 * OPENING).len(), 1);
        assert_eq!(bank.judge(19, 20 * OPENING + 7).len(), 1);
        bank.ended(&request, Some(-7), Done::Perhaps);
        assert!(bank.judge(20, 20 * OPENING).is_empty());
        assert_eq!(bank.judge(20, 20 * OPENING - 1).len(), 1);
    }
}
