//! The bank workload: accounts, transfers between them, and a row for each transfer. And
//! large transactions, which transfer nothing and insert many rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coeval_occ::{Engine, FollowerEngine};
use coeval_txn::{Error, Isolation, confirmed, newest};

use crate::judge::Shared;
use crate::table::{Work, durable};

pub const ACCOUNTS: u64 = 8;
const BALANCE: u64 = 1000;
/// Keys of transfer rows begin here.
pub const TRANSFERS: u64 = 1 << 32;
/// Keys of large transactions' rows begin here.
const LARGE: u64 = 1 << 48;
/// The log's ring cannot hold this many rows at once.
const LARGE_ROWS: u64 = 800;
pub const CLIENTS: usize = 3;

/// Opens the accounts, unless an earlier leader's client has.
pub async fn found(engine: &Engine) -> Result<(), Error> {
    let mut work = Work::write(engine).await?;
    if !work.all()?.is_empty() {
        return Ok(());
    }
    for account in 0..ACCOUNTS {
        work.insert((account, BALANCE)).await?;
    }
    let timestamp = work.commit().await?;
    durable(engine, timestamp).await
}

/// Transfers until the engine is retired.
pub async fn transfer(node: u64, engine: Arc<Engine>, judge: Shared) {
    loop {
        let pause = coeval_env::random_u64() % 60;
        coeval_env::sleep(Duration::from_millis(1 + pause)).await;
        if judge.lock().pauses(node) {
            continue;
        }
        let Some(number) = judge.lock().number() else {
            return;
        };
        match once(&engine, number).await {
            Ok(()) => judge.lock().tell([number]),
            Err(Error::Stopped(_)) => return,
            Err(_) => {}
        }
    }
}

async fn once(engine: &Engine, number: u64) -> Result<(), Error> {
    let chance = coeval_env::random_u64();
    let from = chance % ACCOUNTS;
    let to = (from + 1 + (chance >> 8) % (ACCOUNTS - 1)) % ACCOUNTS;
    let mut work = Work::write(engine).await?;
    work.change(from.min(to), if from < to { -1 } else { 1 })
        .await?;
    work.change(from.max(to), if from < to { 1 } else { -1 })
        .await?;
    work.insert((TRANSFERS + number, from)).await?;
    let timestamp = work.commit().await?;
    durable(engine, timestamp).await
}

/// Large transactions, one after another, until the engine is retired. The client reports
/// the first row of each; [`judge`] checks that the others are present with it.
pub async fn large(engine: Arc<Engine>, judge: Shared) {
    loop {
        let Some(number) = judge.lock().number() else {
            return;
        };
        match once_large(&engine, LARGE + number * LARGE_ROWS).await {
            Ok(first) => judge.lock().tell([first - TRANSFERS]),
            Err(Error::Stopped(_)) => return,
            Err(_) => {}
        }
    }
}

async fn once_large(engine: &Engine, first: u64) -> Result<u64, Error> {
    let mut work = Work::write(engine).await?;
    for key in first..first + LARGE_ROWS {
        work.insert((key, ACCOUNTS)).await?;
    }
    let timestamp = work.commit().await?;
    durable(engine, timestamp).await?;
    Ok(first)
}

/// Reads all rows, again and again, and compares them once the node is confirmed to lead:
/// then no transfer reported to a client before may be missing.
pub async fn read(engine: Arc<Engine>, judge: Shared) {
    loop {
        coeval_env::sleep(Duration::from_millis(30)).await;
        let told = judge.lock().told().clone();
        let looked = async {
            let rows = look(&engine).await?;
            confirmed(&*engine).await?;
            Ok(rows)
        };
        match looked.await {
            Ok(rows) => {
                let mut judge = judge.lock();
                judge.confirmed_reads += 1;
                let seen = check_transfers(&rows);
                match seen {
                    Ok(seen) => {
                        let missing = told.difference(&seen).count();
                        if missing > 0 {
                            judge.object(format!("a confirmed read misses {missing} transfers"));
                        }
                        judge.tell(seen);
                    }
                    Err(objection) => judge.object(objection),
                }
            }
            Err(Error::Stopped(_)) => return,
            Err(_) => {}
        }
    }
}

async fn look(engine: &Engine) -> Result<Vec<(u64, u64)>, Error> {
    let mut work = Work::read(engine, Isolation::SnapshotIsolation).await?;
    let rows = work.all()?;
    durable(engine, work.newest_seen()).await?;
    Ok(rows)
}

/// Reads all rows on a follower, again and again, each time after a question to the leader:
/// then no transfer reported to a client before the question may be missing.
pub async fn read_follower(engine: Arc<FollowerEngine>, judge: Shared) {
    loop {
        coeval_env::sleep(Duration::from_millis(10)).await;
        let told = judge.lock().told().clone();
        // Without a leader, or on tables that have ended, there is nothing to read.
        let Ok(rows) = look_at_newest(&*engine).await else {
            continue;
        };
        let mut judge = judge.lock();
        judge.follower_reads += 1;
        match check_transfers(&rows) {
            Ok(seen) => {
                let missing = told.difference(&seen).count();
                if missing > 0 {
                    judge.object(format!("a follower's read misses {missing} transfers"));
                }
                judge.tell(seen);
            }
            // The accounts are not open yet.
            Err(_) if rows.is_empty() && told.is_empty() => {}
            Err(objection) => judge.object(format!("on a follower: {objection}")),
        }
    }
}

async fn look_at_newest(engine: &dyn coeval_txn::Engine) -> Result<Vec<(u64, u64)>, Error> {
    newest(engine).await?;
    let mut work = Work::read(engine, Isolation::SnapshotIsolation).await?;
    work.all()
}

/// The transfers of a whole table, if its balances add up and follow from the transfers.
pub fn check_transfers(rows: &[(u64, u64)]) -> Result<BTreeSet<u64>, String> {
    let accounts = rows.iter().filter(|(key, _)| *key < TRANSFERS);
    let balances = accounts.clone().map(|(_, balance)| *balance);
    let (count, sum) = (accounts.clone().count() as u64, balances.sum::<u64>());
    if (count, sum) != (ACCOUNTS, ACCOUNTS * BALANCE) {
        return Err(format!("{count} accounts have {sum} together"));
    }
    let mut large = BTreeMap::<u64, u64>::new();
    for (key, _) in rows.iter().filter(|(key, _)| *key >= LARGE) {
        *large.entry((key - LARGE) / LARGE_ROWS).or_default() += 1;
    }
    if let Some((number, count)) = large.iter().find(|(_, count)| **count != LARGE_ROWS) {
        return Err(format!("a large transaction, {number}, has {count} rows"));
    }
    let transfers = rows.iter().filter(|(key, _)| *key >= TRANSFERS);
    for (account, balance) in accounts {
        let left = transfers
            .clone()
            .filter(|(_, from)| from == account)
            .count() as u64;
        if *balance + left < BALANCE {
            return Err(format!(
                "account {account} has {balance} after {left} were taken"
            ));
        }
    }
    Ok(transfers.map(|(key, _)| key - TRANSFERS).collect())
}
