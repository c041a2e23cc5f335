//! Simulated bank workload: transfers between accounts, each with a line in a ledger.
//!
//! The history is judged by `coeval_check::ledger`; and at every isolation level, a
//! statement that reads all accounts must see the total amount, which
//! `coeval_check::bank` verifies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use coeval_check::bank;
use coeval_check::history::{History, Operation, Outcome, Register, Transaction};
use coeval_check::ledger::{Account, Client, Ledger, Sequence, Shown, Told, Transfer, TransferId};

use super::{Answer, CLIENTS, Clients, TOLD, below};
use crate::client_session::{Failure, Row, Session};

const ACCOUNTS: u32 = 5;
const OPENING: i64 = 1000;
/// The ledger lines of client n begin at key (n + 1) times this.
const LINES: u64 = 1 << 32;

#[derive(Default)]
struct State {
    next: [u64; CLIENTS],
    /// Transfers with their last answers; unknown until there is one.
    sent: BTreeMap<TransferId, (Transfer, Told)>,
    seen: BTreeSet<TransferId>,
    /// Transfers that a client did not see, although they had been acknowledged before.
    missed: BTreeSet<TransferId>,
    /// Reads of all accounts.
    sums: History,
    shown: Option<Shown>,
}

/// The bank workload, with the answers its clients received.
pub(super) struct Bank(Mutex<State>);

fn line_key(id: TransferId) -> u64 {
    (u64::from(id.client.0) + 1) * LINES + id.sequence.0
}

fn line(key: u64, row: &[i64]) -> (TransferId, Transfer) {
    let id = TransferId {
        client: Client(u32::try_from(key / LINES - 1).unwrap_or(u32::MAX)),
        sequence: Sequence(key % LINES),
    };
    let number = |at: usize| row.get(at).copied().unwrap_or(i64::MIN);
    let account = |at| Account(u32::try_from(number(at)).unwrap_or(u32::MAX));
    let transfer = Transfer {
        from: account(0),
        to: account(1),
        amount: number(2),
    };
    (id, transfer)
}

fn balance(row: Option<Row>) -> i64 {
    row.and_then(|row| row.first().copied())
        .unwrap_or(i64::MIN / 2)
}

impl Bank {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while it was held")
    }

    pub(super) fn opening(&self) -> Vec<(u64, Row)> {
        (0..u64::from(ACCOUNTS))
            .map(|account| (account, vec![OPENING]))
            .collect()
    }

    pub(super) async fn step(
        &self,
        clients: &Clients,
        session: &mut Session,
        client: usize,
    ) -> Result<(), Failure> {
        match below(10) {
            0 => self.sum(clients, session, client).await,
            1 => self.read(clients, session, client).await,
            _ => self.transfer(clients, session, client).await,
        }
    }

    pub(super) async fn read_step(
        &self,
        clients: &Clients,
        session: &mut Session,
        client: usize,
    ) -> Result<(), Failure> {
        match below(2) {
            0 => self.sum(clients, session, client).await,
            _ => self.read(clients, session, client).await,
        }
    }

    async fn transfer(
        &self,
        clients: &Clients,
        session: &mut Session,
        client: usize,
    ) -> Result<(), Failure> {
        let from = below(u64::from(ACCOUNTS));
        let to = (from + 1 + below(u64::from(ACCOUNTS) - 1)) % u64::from(ACCOUNTS);
        let amount = below(50) as i64 + 1;
        let transfer = Transfer {
            from: Account(from as u32),
            to: Account(to as u32),
            amount,
        };
        let id = {
            let mut state = self.state();
            state.next[client] += 1;
            let id = TransferId {
                client: Client(client as u32),
                sequence: Sequence(state.next[client]),
            };
            // Before its commit is sent, the transfer cannot take effect.
            state.sent.insert(id, (transfer, Told::Failed));
            id
        };
        let mut span = clients.begin(session, false).await?;
        let row = [from as i64, to as i64, amount];
        session
            .change(from, |row| vec![balance(row) - amount])
            .await?;
        session
            .change(to, |row| vec![balance(row) + amount])
            .await?;
        session.put(line_key(id), &row).await?;
        self.told(id, Told::Unknown);
        let answer = clients.commit(session, client, &mut span).await;
        self.told(
            id,
            match answer {
                Answer::Committed => Told::Acknowledged,
                Answer::Failed => Told::Failed,
                Answer::Unknown => Told::Unknown,
            },
        );
        Ok(())
    }

    fn told(&self, id: TransferId, told: Told) {
        if let Some(sent) = self.state().sent.get_mut(&id) {
            sent.1 = told;
        }
    }

    /// Reads all accounts in one statement.
    async fn sum(
        &self,
        clients: &Clients,
        session: &mut Session,
        client: usize,
    ) -> Result<(), Failure> {
        let mut span = clients.begin(session, true).await?;
        let rows = session.scan(0, LINES - 1).await?;
        if clients.commit(session, client, &mut span).await == Answer::Committed {
            let balances: BTreeMap<u64, Row> = rows.into_iter().collect();
            let read = |key| Operation::Read {
                key,
                value: Some(balances.get(&key).map_or(Register::Absent, |row| {
                    Register::Value(balance(Some(row.clone())))
                })),
            };
            self.state().sums.transactions.push(Transaction {
                process: client as u64,
                started: span.started,
                finished: span.finished,
                outcome: Outcome::Committed,
                read_only: true,
                operations: (0..u64::from(ACCOUNTS)).map(read).collect(),
            });
        }
        Ok(())
    }

    /// Reads the last ledger lines of another client: those of transfers that were
    /// acknowledged before have to be there.
    async fn read(
        &self,
        clients: &Clients,
        session: &mut Session,
        client: usize,
    ) -> Result<(), Failure> {
        let other = (client as u64 + 1 + below(CLIENTS as u64 - 1)) % CLIENTS as u64;
        let newest = self.state().next[other as usize];
        let first = (other + 1) * LINES + newest.saturating_sub(3);
        let acknowledged = self.acknowledged(other, newest.saturating_sub(3));
        let mut span = clients.begin(session, true).await?;
        let rows = session.scan(first, (other + 2) * LINES - 1).await?;
        if clients.commit(session, client, &mut span).await == Answer::Committed {
            let seen: BTreeSet<_> = rows.iter().map(|(key, row)| line(*key, row).0).collect();
            let mut state = self.state();
            state.missed.extend(acknowledged.difference(&seen));
            state.seen.extend(seen);
        }
        Ok(())
    }

    /// The transfers of a client, from this one on, that are acknowledged.
    fn acknowledged(&self, client: u64, from: u64) -> BTreeSet<TransferId> {
        let id = |sequence| TransferId {
            client: Client(client as u32),
            sequence: Sequence(sequence),
        };
        let state = self.state();
        let sent = state.sent.range(id(from)..=id(u64::MAX));
        let sent = sent.filter(|(_, (_, told))| *told == Told::Acknowledged);
        sent.map(|(id, _)| *id).collect()
    }

    pub(super) fn looked(&self, rows: Vec<(u64, Row)>) {
        let mut shown = Shown::default();
        for (key, row) in rows {
            if key < LINES {
                let account = Account(u32::try_from(key).unwrap_or(u32::MAX));
                shown.balances.insert(account, balance(Some(row)));
            } else {
                shown.lines.push(line(key, &row));
            }
        }
        self.state().shown = Some(shown);
    }

    pub(super) fn judge(&self) -> Vec<String> {
        let state = self.state();
        let mut objections = Vec::new();
        let total = i128::from(ACCOUNTS) * i128::from(OPENING);
        for wrong in bank::judge(&state.sums, Some(total)).wrong {
            objections.push(format!("bank: {wrong}"));
        }
        let mut ledger = Ledger::new(ACCOUNTS, OPENING);
        for (&id, &(transfer, told)) in &state.sent {
            ledger.record(id, transfer, told);
        }
        for &id in &state.seen {
            if !ledger.saw(id) {
                objections.push(format!("ledger: a client saw {id}, which no client sent"));
            }
        }
        for id in state.missed.iter().take(TOLD) {
            objections.push(format!(
                "recency: a client did not see {id}, which was acknowledged before"
            ));
        }
        if let Some(shown) = &state.shown {
            let verdict = ledger.judge(shown);
            if !verdict.is_clean() {
                objections.push(format!(
                    "ledger: {verdict}: {:?} {:?} {:?}",
                    verdict.lost, verdict.invented, verdict.torn
                ));
            }
        }
        objections
    }
}
