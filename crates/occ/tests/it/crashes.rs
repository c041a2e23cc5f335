//! A bank in the simulated world, with the power failing at every change of the
//! disk in turn: what was acknowledged is there, nothing was invented, and no money
//! came or went.
//!
//! Each transfer takes from one account, gives to another, and inserts a row of its
//! own number; now and then it deletes the row of an earlier one. So after a crash
//! the rows say which transfers happened, and the balances must be theirs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use coeval_env::sim::{Loss, World};
use coeval_occ::{Engine, Settings};
use coeval_txn::{Error, Insert, Isolation};
use coeval_types::Timestamp;

use crate::support::{all, attach, begin, change, commit, delete, get, insert, load, lock_table};

const ACCOUNTS: u64 = 5;
const BALANCE: u64 = 1000;
const CLIENTS: u64 = 3;
/// Transfers are numbered from here, so that they are no accounts.
const FIRST_TRANSFER: u64 = 1 << 20;

/// One transfer: what it moved, and which earlier one's row it deleted.
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
    /// By commit timestamp, as far as the clients were told.
    acknowledged: Vec<(Timestamp, u64)>,
}

type Shared = Arc<Mutex<Clients>>;

fn settings() -> Settings {
    Settings {
        log: coeval_log::Settings {
            segment_bytes: 8192,
            ring_bytes: 8192,
            frame_payload_bytes: 128,
            recovery_threads: 1,
        },
        image_every: 3,
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
    // A row that comes and goes, under a key that is used again and again.
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

/// Opens the bank, checks it, and does business until the end or the crash.
async fn life(clients: Shared) {
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
                let mut done = 0;
                while done < 4 {
                    match transfer(&engine, &clients, isolation).await {
                        Ok(()) => done += 1,
                        Err(Error::Conflict(_) | Error::Deadlock { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for session in sessions {
        session.await.expect("no panic");
    }
    engine.close().await.expect("it closes");
}

/// Whether the rows are what the transfers among them make.
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
    // What did not come back never does.
    clients
        .started
        .retain(|number, _| rows.contains_key(number));
}

#[test]
fn whatever_change_the_power_fails_at() {
    for (seed, loss) in [(1, Loss::Random), (2, Loss::Everything), (3, Loss::Nothing)] {
        let mut crash_at = 0;
        loop {
            let world = World::new(seed);
            let node = world.node();
            world.set_loss(node, loss);
            world.crash_at(node, Some(crash_at));
            let clients = Shared::default();
            let first = world.run(node, life(Arc::clone(&clients)));
            if first.is_ok() {
                assert!(crash_at > 20, "business needs more changes than {crash_at}");
                break;
            }
            world.crash_at(node, None);
            world
                .run(node, life(Arc::clone(&clients)))
                .expect("the second life has no crash");
            // And once more, to see what the second has left.
            world.run(node, life(clients)).expect("nor has the third");
            crash_at += 3;
        }
    }
}
