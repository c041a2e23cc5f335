//! A bank in the simulated world, with a power failure at every change of the disk in
//! turn: acknowledged transfers are there, no transfer is invented, and the sum of money
//! is unchanged.
//!
//! Each transfer takes from one account, gives to another, and inserts a row of its own
//! number; now and then it deletes the row of an earlier transfer. So after a crash the
//! rows show which transfers happened, and the balances must match them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use coeval_env::JoinError;
use coeval_env::sim::{Loss, World};
use coeval_occ::{Engine, Settings};
use coeval_txn::{Engine as _, Error, Insert, Isolation};
use coeval_types::Timestamp;

use crate::support::{all, attach, begin, change, commit, delete, get, insert, load, lock_table};

const ACCOUNTS: u64 = 5;
const BALANCE: u64 = 1000;
const CLIENTS: u64 = 3;
/// Numbers of transfers start here, so that they differ from account numbers.
const FIRST_TRANSFER: u64 = 1 << 20;

/// One transfer: the accounts and the amount, and the earlier transfer whose row it
/// deleted.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    from: u64,
    to: u64,
    amount: u64,
}

#[derive(Debug, Default)]
struct Clients {
    next: u64,
    started: BTreeMap<u64, Transfer>,
    /// Transfers by commit timestamp, as acknowledged to the clients.
    acknowledged: Vec<(Timestamp, u64)>,
}

type Shared = Arc<Mutex<Clients>>;

fn settings() -> Settings {
    Settings {
        log: coeval_log::Settings {
            segment_bytes: 8192,
            ring_bytes: 8192,
            // So few bytes that most transfers send chunks ahead.
            frame_payload_bytes: 64,
            recovery_threads: 1,
            checkpoint_block_bytes: 100,
            log_keep_bytes: 0,
            ..coeval_log::Settings::default()
        },
        image_every: 3,
        checkpoint_log_bytes: 0,
        checkpoint_records: 2,
        ..Settings::default()
    }
}

async fn transfer(engine: &Engine, clients: &Shared, isolation: Isolation) -> Result<(), Error> {
    let (number, transfer) = {
        let mut clients = clients.lock().expect("no panic");
        let number = FIRST_TRANSFER + clients.next;
        clients.next += 1;
        let transfer = Transfer {
            from: number % ACCOUNTS,
            to: (number * 3 + 1) % ACCOUNTS,
            amount: number % 7 + 1,
        };
        clients.started.insert(number, transfer);
        (number, transfer)
    };
    let mut t = begin(engine, isolation).await;
    lock_table(&mut *t).await?;
    let taken = change(&mut *t, transfer.from, |value| value - transfer.amount);
    assert!(taken.await?.is_some(), "accounts stay");
    // Lets another client in with the lock held.
    coeval_env::yield_now().await;
    let given = change(&mut *t, transfer.to, |value| value + transfer.amount);
    assert!(given.await?.is_some(), "accounts stay");
    let inserted = insert(&mut *t, (number, transfer.amount)).await?;
    assert!(matches!(inserted, Insert::Inserted(_)));
    // A row that is inserted and deleted, under a key that is reused again and again.
    if delete(&mut *t, ACCOUNTS).await? {
        insert(&mut *t, (ACCOUNTS + 1, 0)).await?;
    } else if !delete(&mut *t, ACCOUNTS + 1).await? || get(&mut *t, ACCOUNTS)?.is_none() {
        insert(&mut *t, (ACCOUNTS, 0)).await?;
    }
    let timestamp = commit(&mut *t).await?;
    coeval_txn::durable(engine, timestamp).await?;
    let mut clients = clients.lock().expect("no panic");
    clients.acknowledged.push((timestamp, number));
    Ok(())
}

/// Background work during the transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// Checkpoints, one after another.
    Checkpoints,
    /// Checkpoints that remove log before they are durable: an injected bug that the test
    /// must notice.
    FaultyCheckpoints,
}

/// Opens the bank, checks it, and makes transfers until the end or the crash.
async fn life(clients: Shared, beside: Beside) {
    let (engine, _) = Engine::open(Path::new("/data"), settings())
        .await
        .expect("a crash leaves a log that opens");
    let engine = Arc::new(engine);
    attach(&engine);
    let mut t = begin(&*engine, Isolation::ReadCommitted).await;
    let rows: BTreeMap<u64, u64> = all(&mut *t).into_iter().collect();
    drop(t);
    if rows.is_empty() {
        assert!(
            clients.lock().expect("no panic").acknowledged.is_empty(),
            "everything is gone"
        );
        load(&*engine, (0..ACCOUNTS).map(|account| (account, BALANCE))).await;
    } else {
        check(&rows, &mut clients.lock().expect("no panic"));
    }
    let sessions: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (engine, clients) = (Arc::clone(&engine), Arc::clone(&clients));
            coeval_env::spawn("client", async move {
                let isolation = match client {
                    0 => Isolation::Serializable,
                    _ => Isolation::ReadCommitted,
                };
                // More with checkpoints, so that some log can be removed.
                let transfers = if beside == Beside::Nothing { 4 } else { 12 };
                let mut done = 0;
                while done < transfers {
                    match transfer(&engine, &clients, isolation).await {
                        Ok(()) => done += 1,
                        Err(Error::Conflict(_) | Error::Deadlock { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    if beside == Beside::FaultyCheckpoints {
        engine.log().truncate_early();
    }
    if beside != Beside::Nothing {
        while sessions.iter().any(|session| !session.is_finished()) {
            engine.checkpoint().await.expect("a checkpoint");
        }
    }
    for session in sessions {
        session.await.expect("no panic");
    }
    engine.close().await.expect("it closes");
}

/// Checks that the rows are the result of the transfers among them.
fn check(rows: &BTreeMap<u64, u64>, clients: &mut Clients) {
    for (_, number) in &clients.acknowledged {
        assert!(rows.contains_key(number), "transfer {number} is lost");
    }
    let mut balances: BTreeMap<u64, u64> =
        (0..ACCOUNTS).map(|account| (account, BALANCE)).collect();
    for (number, amount) in rows.range(FIRST_TRANSFER..) {
        let transfer = clients.started.get(number).expect("nothing is invented");
        assert_eq!(*amount, transfer.amount);
        *balances.get_mut(&transfer.from).expect("an account") -= amount;
        *balances.get_mut(&transfer.to).expect("an account") += amount;
    }
    let found: BTreeMap<u64, u64> = rows
        .range(..ACCOUNTS)
        .map(|(&account, &balance)| (account, balance))
        .collect();
    assert_eq!(found, balances);
    // A transfer that was not recovered never appears later.
    clients
        .started
        .retain(|number, _| rows.contains_key(number));
}

/// Crashes at every `step`th change of a first life, and opens twice more. Returns the
/// number of crashes, and the first after which the bank did not open or was wrong.
fn crash_everywhere(
    seed: u64,
    loss: Loss,
    beside: Beside,
    step: usize,
) -> (u64, Option<(u64, JoinError)>) {
    for crash_at in (0..).step_by(step) {
        let world = World::new(seed);
        let node = world.node();
        world.set_loss(node, loss);
        world.crash_at(node, Some(crash_at));
        let clients = Shared::default();
        let first = world.run(node, life(Arc::clone(&clients), beside));
        if first.is_ok() {
            return (crash_at, None);
        }
        world.crash_at(node, None);
        // The second life has no crash; the third checks the state that it has left.
        for _ in 0..2 {
            if let Err(error) = world.run(node, life(Arc::clone(&clients), beside)) {
                return (crash_at, Some((crash_at, error)));
            }
        }
    }
    unreachable!("the world ends before the numbers do")
}

#[test]
fn whatever_change_the_power_fails_at() {
    for (seed, loss) in [(1, Loss::Random), (2, Loss::Everything), (3, Loss::Nothing)] {
        let (changes, wrong) = crash_everywhere(seed, loss, Beside::Nothing, 3);
        assert_eq!(wrong, None);
        assert!(changes > 20, "business needs more changes than {changes}");
    }
}

#[test]
fn whatever_change_of_a_checkpoint_the_power_fails_at() {
    for (seed, loss) in [(1, Loss::Random), (2, Loss::Everything), (3, Loss::Nothing)] {
        let (changes, wrong) = crash_everywhere(seed, loss, Beside::Checkpoints, 4);
        assert_eq!(wrong, None, "seed {seed}");
        assert!(changes > 100, "checkpoints were taken: {changes} changes");
    }
}

/// The checker above must report an injected bug.
#[test]
fn log_removed_too_early_is_noticed() {
    let (_, wrong) = crash_everywhere(1, Loss::Random, Beside::FaultyCheckpoints, 1);
    let (change, error) = wrong.expect("some crash lost the log and the checkpoint");
    assert!(matches!(error, JoinError::Panicked(_)), "{change}: {error}");
}
