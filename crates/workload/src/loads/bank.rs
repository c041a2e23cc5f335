//! Bank workload: transfers between accounts, beside transactions that sum up all
//! balances.
//!
//! ```text
//!   transfer   lock a, lock b; a - amount, b + amount      the sum stays
//!   total      scan all accounts in one read-only transaction
//! ```
//!
//! Every sum that a client reads, and the one at the end, equals the sum at the
//! beginning. A transfer locks its accounts in random order, so that deadlocks occur and
//! clients retry.
//!
//! Amounts are drawn from a range so large that a balance hardly ever recurs: an account
//! that has changed a million times has some balance twice in fewer than one run of ten
//! thousand, and the judge refuses such a history. (An account returns to its opening
//! balance, which would cause a false violation, with a probability of one in ten
//! thousand million.) So a balance identifies a version of its account, and in a history
//! each account is a register with its gain as the value: a transaction that sums up all
//! accounts must find a gain of zero, and the judge knows which write each read observed.

use serde_json::json;

use super::sized;
use crate::store::{
    Cells, ColumnKind, Failure, Loader, Maker, Row, Scan, Session, Table, Versions,
};
use crate::workload::{Client, Nature, Parameters, Workload};

const BALANCE: usize = 1;

/// The bank workload.
#[derive(Clone, Debug)]
pub struct Bank {
    accounts: i64,
    /// Share of transactions that sum up all balances, in per cent.
    totals: u64,
    table: Table,
}

/// One transaction of the bank.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// A transfer from one account to another.
    Transfer {
        /// Account to debit.
        from: i64,
        /// Account to credit.
        to: i64,
        /// Amount of the transfer.
        amount: i64,
    },
    /// The sum of all balances.
    Total,
}

impl Bank {
    /// Opening balance of every account.
    pub const OPENING: i64 = 1_000;
    /// Bound on the amount of a transfer. Sums of a thousand million amounts, positive
    /// and negative, still fit.
    const MOST: u64 = 1 << 44;

    /// A bank of `accounts` accounts, at least 2, in which `totals` per cent of the
    /// transactions are sums.
    #[must_use]
    pub fn new(accounts: u32, totals: u64) -> Self {
        let columns = [("id", ColumnKind::Bigint), ("balance", ColumnKind::Bigint)];
        Self {
            accounts: i64::from(accounts.max(2)),
            totals: totals.min(100),
            table: Table::new("bank_account", 1, &columns),
        }
    }

    /// Violation shown by the number of accounts and the sum of their balances, if any.
    fn judge(&self, accounts: usize, sum: i128) -> Option<String> {
        let wanted = self.accounts;
        let total = i128::from(wanted) * i128::from(Self::OPENING);
        if accounts as i64 != wanted {
            return Some(format!("{accounts} accounts instead of {wanted}"));
        }
        (sum != total).then(|| format!("a sum of {sum} instead of {total}"))
    }

    async fn look(&self, session: &mut Session) -> Result<Option<String>, Failure> {
        let mut sum = 0;
        let accounts = session
            .scan(&Scan::of(0, &[]), &mut |row| {
                sum += i128::from(row.integer(BALANCE));
            })
            .await?;
        Ok(self.judge(accounts, sum))
    }
}

impl Workload for Bank {
    type Request = Request;
    type Effect = ();

    fn name(&self) -> &'static str {
        "bank"
    }

    fn tables(&self) -> Vec<Table> {
        vec![self.table.clone()]
    }

    fn versions(&self) -> Vec<Versions> {
        vec![Versions {
            table: 0,
            column: BALANCE,
            first: Self::OPENING,
        }]
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["transfer", "total"]
    }

    fn parameters(&self) -> Parameters {
        Parameters::from([
            ("accounts".to_owned(), json!(self.accounts)),
            ("totals_percent".to_owned(), json!(self.totals)),
        ])
    }

    async fn load(&self, _part: u64, loader: &mut Loader) -> Result<(), Failure> {
        let (mut maker, mut row) = (Maker::new(), Row::default());
        for account in 0..self.accounts {
            maker.integer(&self.table, account);
            maker.integer(&self.table, Self::OPENING).finish(&mut row);
            loader.row(0, &row).await?;
        }
        Ok(())
    }

    async fn resume(&self, session: &mut Session) -> Result<u64, Failure> {
        let found = session.scan(&Scan::of(0, &[]), &mut |_| {}).await?;
        let wanted = self.accounts.unsigned_abs();
        sized(&self.table, "accounts", found as u64, wanted)?;
        Ok(0)
    }

    fn draw(&self, client: &mut Client) -> Request {
        let chance = &mut client.chance;
        if chance.within(0..100) < self.totals {
            return Request::Total;
        }
        let accounts = self.accounts.unsigned_abs();
        let from = chance.within(0..accounts);
        let to = (from + chance.within(1..accounts)) % accounts;
        Request::Transfer {
            from: from.cast_signed(),
            to: to.cast_signed(),
            amount: chance.within(1..Self::MOST).cast_signed(),
        }
    }

    fn nature(&self, request: &Request) -> Nature {
        let total = matches!(request, Request::Total);
        Nature {
            kind: usize::from(total),
            read_only: total,
            single: total,
        }
    }

    async fn run(
        &self,
        request: &Request,
        _client: &mut Client,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let Request::Transfer { from, to, amount } = *request else {
            let wrong = self.look(session).await?;
            return wrong.map_or(Ok(()), |wrong| Err(Failure::Wrong(wrong)));
        };
        let mut row = Row::default();
        for (account, change) in [(from, -amount), (to, amount)] {
            if !session.lock(0, &[account], &mut row).await? {
                return Err(Failure::Wrong(format!("account {account} is missing")));
            }
            let balance = row.integer(BALANCE) + change;
            row.set_integer(&self.table, BALANCE, balance);
            session.update(0, &row, &[BALANCE]).await?;
        }
        Ok(())
    }

    async fn check(&self, session: &mut Session) -> Result<Vec<String>, Failure> {
        let wrong = self.look(session).await?;
        Ok(wrong.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_money_and_missing_accounts_are_seen() {
        let bank = Bank::new(10, 50);
        assert_eq!(bank.judge(10, 10_000), None);
        assert!(bank.judge(10, 9_999).is_some());
        assert!(bank.judge(9, 10_000).is_some());
    }
}
