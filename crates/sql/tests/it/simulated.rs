//! Sessions in the simulated world: two clients move money by SQL while the power
//! fails at every few changes of the disk in turn. What a client was told of is
//! there after the restart, what it never sent is not, and the sum stays. The clients
//! ask what became of each other's transactions, and what they are told holds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use coeval_env::sim::{Loss, World};
use coeval_occ::{Engine, Settings};
use coeval_sql::session::{Database, Session};

use crate::client::{must, query, session};

const CLIENTS: u64 = 2;
const TRANSFERS: u64 = 4;

#[derive(Clone, Debug, Default)]
struct Told {
    sent: BTreeSet<u64>,
    acknowledged: BTreeSet<u64>,
    /// The numbers of transfers' transactions.
    asked: BTreeMap<u64, String>,
    /// Whether they have committed, for those that have ended.
    ended: BTreeMap<u64, bool>,
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.log.segment_bytes = 32 << 10;
    settings.log.ring_bytes = 32 << 10;
    settings.log.frame_payload_bytes = 4 << 10;
    settings.log.recovery_threads = 1;
    settings
}

/// Opens the database, checks what it shows, and does business until the end or
/// the crash.
async fn life(told: Arc<Mutex<Told>>) {
    let (engine, _) = Engine::open(Path::new("/data"), settings())
        .await
        .expect("a crash leaves a log that opens");
    let engine = Arc::new(engine);
    let database = Database::open(Arc::clone(&engine) as Arc<dyn coeval_txn::Engine>)
        .await
        .expect("and a catalog that reads");
    let mut teller = session(&database);
    check(&mut teller, &told).await;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (engine, database, told) = (
                Arc::clone(&engine),
                Arc::clone(&database),
                Arc::clone(&told),
            );
            coeval_env::spawn("client", async move {
                let mut session = session(&database);
                for _ in 0..TRANSFERS {
                    let number = {
                        let mut told = told.lock().expect("no panic");
                        let number = told.sent.last().map_or(1, |last| last + 1);
                        told.sent.insert(number);
                        number
                    };
                    let (from, to) = (number % 3, (number + 1 + client) % 3);
                    for statement in [
                        "BEGIN".to_owned(),
                        format!("UPDATE account SET balance = balance - 5 WHERE id = {from}"),
                        format!("UPDATE account SET balance = balance + 5 WHERE id = {to}"),
                        format!("INSERT INTO transfer VALUES ({number}, {from}, {to})"),
                    ] {
                        query(&mut session, &statement, "").await;
                    }
                    let said = query(&mut session, "SELECT txid_current()", "").await;
                    let asked = said[1].trim().to_owned();
                    told.lock().expect("no panic").asked.insert(number, asked);
                    coeval_env::yield_now().await;
                    let said = query(&mut session, "COMMIT", "").await;
                    coeval_txn::durable(&*engine, session.newest_seen())
                        .await
                        .expect("the log runs");
                    if said == ["  COMMIT"] {
                        told.lock().expect("no panic").acknowledged.insert(number);
                    }
                    ask(&mut session, &*engine, &told).await;
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("no panic");
    }
    drop(teller);
    engine.close().await.expect("it closes");
}

/// How a transaction stands.
async fn status(session: &mut Session, asked: &str) -> String {
    let said = must(session, &format!("SELECT txid_status({asked})")).await;
    said[1].trim().to_owned()
}

/// Asks what became of everybody's transfers, and hears the answers when the session may
/// give them.
async fn ask(session: &mut Session, engine: &dyn coeval_txn::Engine, told: &Mutex<Told>) {
    let asked = told.lock().expect("no panic").asked.clone();
    for (transfer, asked) in asked {
        let status = status(session, &asked).await;
        coeval_txn::durable(engine, session.newest_seen())
            .await
            .expect("the log runs");
        if status != "in progress" {
            let mut told = told.lock().expect("no panic");
            told.ended.insert(transfer, status == "committed");
        }
    }
}

async fn check(teller: &mut Session, told: &Mutex<Told>) {
    must(
        teller,
        "CREATE TABLE IF NOT EXISTS account (id int PRIMARY KEY, balance int NOT NULL);
         CREATE TABLE IF NOT EXISTS transfer (id int PRIMARY KEY, source int, target int);
         INSERT INTO account VALUES (0, 100), (1, 100), (2, 100) ON CONFLICT DO NOTHING",
    )
    .await;
    let told = told.lock().expect("no panic").clone();
    let rows = must(teller, "SELECT id FROM transfer ORDER BY id").await;
    let found: BTreeSet<u64> = rows
        .iter()
        .filter_map(|row| row.trim().parse().ok())
        .collect();
    assert!(
        told.acknowledged.is_subset(&found),
        "lost: {:?}",
        told.acknowledged.difference(&found)
    );
    assert!(
        found.is_subset(&told.sent),
        "invented: {:?}",
        found.difference(&told.sent)
    );
    for (transfer, asked) in &told.asked {
        let there = found.contains(transfer);
        let expected = if there { "committed" } else { "aborted" };
        assert_eq!(status(teller, asked).await, expected, "{transfer}");
        let before = told.ended.get(transfer).copied().unwrap_or(there);
        assert_eq!(before, there, "{transfer} was said to have ended otherwise");
    }
    let balances = "SELECT a.id FROM account a WHERE a.balance <> 100
        - 5 * (SELECT count(*) FROM transfer WHERE source = a.id)
        + 5 * (SELECT count(*) FROM transfer WHERE target = a.id)";
    assert_eq!(must(teller, balances).await, ["  id", "  SELECT 0"]);
}

/// The two lives of a database whose power fails at a change of its disk. False
/// when the first life was over before that change.
fn two_lives(seed: u64, loss: Loss, crash_at: u64) -> (bool, u64) {
    let world = World::new(seed);
    let node = world.node();
    world.set_loss(node, loss);
    world.crash_at(node, Some(crash_at));
    let told = Arc::default();
    let crashed = world.run(node, life(Arc::clone(&told))).is_err();
    world.crash_at(node, None);
    world
        .run(node, life(told))
        .expect("the second life has no crash");
    (crashed, world.trace_hash())
}

#[test]
fn sessions_survive_the_power_failing_at_any_change() {
    for (seed, loss) in [(11, Loss::Random), (12, Loss::Everything)] {
        let mut crash_at = 0;
        while two_lives(seed, loss, crash_at).0 {
            crash_at += 3;
        }
        assert!(crash_at > 20, "business needs more changes than {crash_at}");
    }
}

#[test]
fn a_seed_repeats_itself() {
    assert_eq!(
        two_lives(5, Loss::Random, 30),
        two_lives(5, Loss::Random, 30)
    );
}
