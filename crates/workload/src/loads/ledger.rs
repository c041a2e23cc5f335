//! Ledger workload: transfers that each insert a line into a ledger, so that every
//! transaction leaves a trace.
//!
//! ```text
//!   transfer   debit a, credit b, a line (client, sequence, a, b, amount), and the
//!              client's own row, which carries the number of its newest line
//!   look       read another client's row: the transfer it shows must not vanish
//! ```
//!
//! Where [bank](super::bank) has a sum, this workload has a trace of every transaction:
//! at the end the judge of ledgers (`coeval_check::ledger`) reports acknowledged
//! transfers that are missing, transfers that no client sent, and transfers with only
//! part of their writes. The index on the ledger must agree with its table.
//!
//! A sequence number is used for one attempt only, so the line of an aborted attempt
//! counts as a transfer that no client sent.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use coeval_check::ledger::{
    Account, Client as Sender, Ledger as Judge, Sequence, Shown, Told, Transfer, TransferId,
};
use serde_json::json;

use crate::store::{Cells, ColumnKind, Failure, Loader, Maker, Row, Scan, Session, Table, Value};
use crate::workload::{Client, Done, Nature, Parameters, Workload};

/// Opening balance of every account.
const OPENING: i64 = 1_000_000;
const ACCOUNTS: usize = 0;
const CLIENTS: usize = 1;
const LINES: usize = 2;
/// How many violations of a kind are reported.
const TOLD: usize = 5;

/// The ledger workload.
#[derive(Debug)]
pub struct Ledger {
    accounts: i64,
    tables: [Table; 3],
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    judge: Judge,
    /// Transfers of other clients that reads have returned; compared with the transfers
    /// sent when all clients have ended.
    seen: Vec<TransferId>,
}

/// One transaction of the ledger.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// A transfer from one account to another.
    Transfer(Transfer),
    /// A read of another client's newest line.
    Look(i64),
}

/// State kept of a completed transaction.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// The transaction made this transfer.
    Transferred(TransferId, Transfer),
    /// The transaction read this transfer of another client.
    Saw(Option<TransferId>),
}

impl Ledger {
    /// A ledger with `accounts` accounts, at least 2.
    #[must_use]
    pub fn new(accounts: u32) -> Self {
        let accounts = accounts.max(2);
        let number = ColumnKind::Bigint;
        let line = [
            ("client", number),
            ("sequence", number),
            ("source", number),
            ("target", number),
            ("amount", number),
        ];
        Self {
            accounts: i64::from(accounts),
            tables: [
                Table::new("ledger_account", 1, &[("id", number), ("balance", number)]),
                Table::new("ledger_client", 1, &[("id", number), ("newest", number)]),
                Table::new("ledger_line", 2, &line).with_index("ledger_line_source", &[2]),
            ],
            state: Mutex::new(State {
                judge: Judge::new(accounts, OPENING),
                seen: Vec::new(),
            }),
        }
    }

    /// Number of acknowledged transfers.
    #[must_use]
    pub fn acknowledged(&self) -> usize {
        self.state().judge.acknowledged()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it was held")
    }

    async fn transfer(
        &self,
        transfer: Transfer,
        client: &mut Client,
        session: &mut Session,
    ) -> Result<TransferId, Failure> {
        let Transfer { from, to, amount } = transfer;
        let sequence = client.unique();
        let id = TransferId {
            client: Sender(u32::try_from(client.number).unwrap_or(u32::MAX)),
            sequence: Sequence(sequence),
        };
        let mut row = Row::default();
        for (account, change) in [(from, -amount), (to, amount)] {
            let key = [i64::from(account.0)];
            if !session.lock(ACCOUNTS, &key, &mut row).await? {
                return Err(Failure::Wrong(format!("account {} is missing", account.0)));
            }
            let balance = row.integer(1) + change;
            row.set_integer(&self.tables[ACCOUNTS], 1, balance);
            session.update(ACCOUNTS, &row, &[1]).await?;
        }
        let mut maker = Maker::new();
        let line = [
            client.number.cast_signed(),
            sequence.cast_signed(),
            i64::from(from.0),
            i64::from(to.0),
            amount,
        ];
        for cell in line {
            maker.integer(&self.tables[LINES], cell);
        }
        maker.finish(&mut row);
        session.insert(LINES, &row).await?;
        for cell in &line[..2] {
            maker.integer(&self.tables[CLIENTS], *cell);
        }
        maker.finish(&mut row);
        if !session.put(CLIENTS, &row, &[1]).await? {
            // An attempt of unknown outcome may insert the same row concurrently.
            let inserted = session.insert(CLIENTS, &row).await;
            inserted.map_err(Failure::or_retry_duplicate)?;
        }
        Ok(id)
    }

    async fn shown(&self, session: &mut Session) -> Result<(Shown, BTreeMap<u32, u64>), Failure> {
        let mut shown = Shown::default();
        let small = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
        let balances = &mut shown.balances;
        session
            .scan(&Scan::of(ACCOUNTS, &[]), &mut |row| {
                balances.insert(Account(small(row.integer(0))), row.integer(1));
            })
            .await?;
        let mut newest = BTreeMap::new();
        session
            .scan(&Scan::of(CLIENTS, &[]), &mut |row| {
                newest.insert(small(row.integer(0)), row.integer(1).cast_unsigned());
            })
            .await?;
        let lines = &mut shown.lines;
        session
            .scan(&Scan::of(LINES, &[]), &mut |row| {
                let id = TransferId {
                    client: Sender(small(row.integer(0))),
                    sequence: Sequence(row.integer(1).cast_unsigned()),
                };
                let transfer = Transfer {
                    from: Account(small(row.integer(2))),
                    to: Account(small(row.integer(3))),
                    amount: row.integer(4),
                };
                lines.push((id, transfer));
            })
            .await?;
        Ok((shown, newest))
    }

    /// Checks that every client's row carries the number of its newest line, and that a
    /// count through the index equals a count by a table scan.
    async fn compare(
        &self,
        shown: &Shown,
        newest: &BTreeMap<u32, u64>,
        session: &mut Session,
    ) -> Result<Vec<String>, Failure> {
        let (mut last, mut by_source) = (BTreeMap::new(), BTreeMap::new());
        for (id, transfer) in &shown.lines {
            let last = last.entry(id.client.0).or_insert(0);
            *last = id.sequence.0.max(*last);
            *by_source.entry(transfer.from.0).or_insert(0_usize) += 1;
        }
        let mut wrong = Vec::new();
        if last != *newest {
            wrong.push(format!(
                "the clients' newest lines are {last:?}, and their rows say {newest:?}"
            ));
        }
        for account in 0..self.accounts {
            let prefix = [Value::Integer(account)];
            let scan = Scan {
                index: Some(0),
                ..Scan::of(LINES, &prefix)
            };
            let found = session.scan(&scan, &mut |_| {}).await?;
            let account = u32::try_from(account).unwrap_or(u32::MAX);
            let expected = by_source.get(&account).copied().unwrap_or(0);
            if found != expected {
                wrong.push(format!(
                    "{expected} lines from account {account}, and {found} by the index"
                ));
            }
        }
        Ok(wrong)
    }
}

impl Workload for Ledger {
    type Request = Request;
    type Effect = Effect;

    fn name(&self) -> &'static str {
        "ledger"
    }

    fn tables(&self) -> Vec<Table> {
        self.tables.to_vec()
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["transfer", "look"]
    }

    fn parameters(&self) -> Parameters {
        Parameters::from([("accounts".to_owned(), json!(self.accounts))])
    }

    async fn load(&self, _part: u64, loader: &mut Loader) -> Result<(), Failure> {
        let (mut maker, mut row) = (Maker::new(), Row::default());
        for account in 0..self.accounts {
            maker.integer(&self.tables[ACCOUNTS], account);
            maker
                .integer(&self.tables[ACCOUNTS], OPENING)
                .finish(&mut row);
            loader.row(ACCOUNTS, &row).await?;
        }
        Ok(())
    }

    fn draw(&self, client: &mut Client) -> Request {
        let chance = &mut client.chance;
        if client.of > 1 && chance.once_in(5) {
            let other = (client.number + chance.within(1..client.of)) % client.of;
            return Request::Look(other.cast_signed());
        }
        let accounts = self.accounts.unsigned_abs();
        let from = chance.within(0..accounts);
        let to = (from + chance.within(1..accounts)) % accounts;
        let account = |number| Account(u32::try_from(number).unwrap_or(u32::MAX));
        Request::Transfer(Transfer {
            from: account(from),
            to: account(to),
            amount: chance.within(1..100).cast_signed(),
        })
    }

    fn nature(&self, request: &Request) -> Nature {
        let look = matches!(request, Request::Look(_));
        Nature {
            kind: usize::from(look),
            read_only: look,
            single: look,
        }
    }

    async fn run(
        &self,
        request: &Request,
        client: &mut Client,
        session: &mut Session,
    ) -> Result<Effect, Failure> {
        match *request {
            Request::Transfer(transfer) => {
                let id = self.transfer(transfer, client, session).await?;
                Ok(Effect::Transferred(id, transfer))
            }
            Request::Look(other) => {
                let mut row = Row::default();
                let found = session.get(CLIENTS, &[other], &mut row).await?;
                Ok(Effect::Saw(found.then(|| TransferId {
                    client: Sender(u32::try_from(other).unwrap_or(u32::MAX)),
                    sequence: Sequence(row.integer(1).cast_unsigned()),
                })))
            }
        }
    }

    fn ended(&self, _request: &Request, effect: Option<Effect>, done: Done) {
        let mut state = self.state();
        match (effect, done) {
            (Some(Effect::Transferred(id, transfer)), Done::Committed) => {
                state.judge.record(id, transfer, Told::Acknowledged);
            }
            (Some(Effect::Transferred(id, transfer)), Done::Perhaps) => {
                state.judge.record(id, transfer, Told::Unknown);
            }
            (Some(Effect::Saw(Some(id))), Done::Committed) => state.seen.push(id),
            // Without an effect the transaction wrote no line.
            (Some(Effect::Saw(_)) | None, _) => {}
        }
    }

    async fn check(&self, session: &mut Session) -> Result<Vec<String>, Failure> {
        let (shown, newest) = self.shown(session).await?;
        let mut wrong = self.compare(&shown, &newest, session).await?;
        let mut state = self.state();
        for id in std::mem::take(&mut state.seen) {
            if !state.judge.saw(id) {
                wrong.push(format!("a client read {id}, which no client sent"));
            }
        }
        let verdict = state.judge.judge(&shown);
        if !verdict.is_clean() {
            wrong.push(verdict.to_string());
            let lost = verdict.lost.iter().take(TOLD);
            wrong.extend(lost.map(|lost| format!("lost: {lost:?}")));
            let invented = verdict.invented.iter().take(TOLD);
            wrong.extend(invented.map(|invented| format!("invented: {invented:?}")));
            let torn = verdict.torn.iter().take(TOLD);
            wrong.extend(torn.map(|torn| format!("torn: {torn:?}")));
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_is_remembered_with_what_it_was_told() {
        let ledger = Ledger::new(4);
        let mut client = Client::new(1, 2, 3);
        let Some(Request::Transfer(transfer)) = (0..100)
            .map(|_| ledger.draw(&mut client))
            .find(|request| matches!(request, Request::Transfer(_)))
        else {
            panic!("no transfers");
        };
        let request = Request::Transfer(transfer);
        let effect = |sequence| {
            let id = TransferId {
                client: Sender(1),
                sequence: Sequence(sequence),
            };
            Some(Effect::Transferred(id, transfer))
        };
        ledger.ended(&request, effect(1), Done::Committed);
        ledger.ended(&request, effect(2), Done::Perhaps);
        ledger.ended(&request, None, Done::Perhaps);
        assert_eq!(ledger.acknowledged(), 1);
        assert_eq!(ledger.state().judge.unknown(), 1);
    }
}
