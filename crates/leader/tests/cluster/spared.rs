//! A commit that the leader made for a follower's message answers the readers there that had
//! asked before the message was sent, and no others.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use coeval_occ::Engine;
use coeval_txn::{Error, Isolation, newest};
use coeval_types::Timestamp;
use coeval_types::planted::{Bug, plant};
use tokio::sync::{mpsc, oneshot};

use crate::bank;
use crate::faults::Plan;
use crate::questions::{asking, milliseconds, on, questions, reader, roles};
use crate::runs::Outcome;
use crate::table::{Work, durable};

/// Key of a row that is no transfer of any account: its number only grows.
const COUNTER: u64 = bank::TRANSFERS + (1 << 40);
/// First number of that row: no account has it.
const FIRST: u64 = 1000;

/// Counts up by one, or begins. Returns the number, and the commit.
async fn count_up(engine: &Engine, is_first: bool) -> Result<(u64, Timestamp), Error> {
    let mut work = Work::write(engine).await?;
    let number = match is_first {
        true => {
            work.insert((COUNTER, FIRST)).await?;
            FIRST
        }
        false => work.change(COUNTER, 1).await? + 1,
    };
    let commit = work.commit().await?;
    durable(engine, commit).await?;
    Ok((number, commit))
}

type Request = oneshot::Sender<(u64, Timestamp)>;

/// Counts up for the clients of other nodes, and by itself.
async fn serve(
    engine: Arc<Engine>,
    mut requests: mpsc::UnboundedReceiver<Request>,
    told: Rc<Cell<u64>>,
) {
    loop {
        let request = requests.try_recv().ok();
        let counted = loop {
            match count_up(&engine, false).await {
                Ok(counted) => break counted,
                Err(Error::Stopped(_)) => return,
                // A conflict with a transfer: again.
                Err(_) => {}
            }
        };
        match request {
            // Its client knows of it when the answer has come.
            Some(request) => drop(request.send(counted)),
            None => told.set(told.get().max(counted.0)),
        }
    }
}

/// Clients of the follower that write, and others that read.
const WRITERS: usize = 3;
const READERS: usize = 6;
const READS: usize = 250;
/// How often the way of the questions to the leader is slow.
const SLOW: u32 = 20;

/// Clients of a follower count up by messages to the leader, whose answers take some time, and
/// others read at the follower, each time at least the number that was told before.
fn counted_and_spared(seed: u64) -> Outcome {
    asking(seed, async |cluster| {
        Plan::new(seed).begin(cluster);
        let (leads, engine, [follower, _]) = roles(cluster).await;
        let opened = on(cluster, leads, {
            let engine = Arc::clone(&engine);
            async move { count_up(&engine, true).await }
        });
        opened.await.expect("nothing crashes").expect("it leads");
        let told = Rc::new(Cell::new(FIRST));
        let (requests, received) = mpsc::unbounded_channel::<Request>();
        let serves = on(cluster, leads, serve(engine, received, Rc::clone(&told)));
        let engine = reader(cluster, follower).await;
        let mut writers = Vec::new();
        for _ in 0..WRITERS {
            let (engine, told) = (Arc::clone(&engine), Rc::clone(&told));
            let requests = requests.clone();
            writers.push(on(cluster, follower, async move {
                loop {
                    let sending = engine.sends();
                    let (request, answer) = oneshot::channel();
                    if requests.send(request).is_err() {
                        return;
                    }
                    let Ok((number, commit)) = answer.await else {
                        return;
                    };
                    coeval_env::sleep(milliseconds(coeval_env::random_u64() % 4)).await;
                    sending.answered(commit);
                    told.set(told.get().max(number));
                }
            }));
        }
        let mut readers = Vec::new();
        for _ in 0..READERS {
            let (engine, told) = (Arc::clone(&engine), Rc::clone(&told));
            let judge = cluster.judge.clone();
            readers.push(on(cluster, follower, async move {
                for _ in 0..READS {
                    let before = told.get();
                    if newest(&*engine).await.is_err() {
                        // Lost with its connection.
                        coeval_env::sleep(milliseconds(5)).await;
                        continue;
                    }
                    let mut work = Work::read(&*engine, Isolation::SnapshotIsolation).await?;
                    let seen = work.number(COUNTER)?;
                    if seen < before {
                        let what = format!("{before} was told, and {seen} is read");
                        judge.lock().object(what);
                    }
                }
                Ok::<(), Error>(())
            }));
        }
        // The way of the questions is slow, now and then; that of the requests is not.
        let (from, to) = (cluster.machines[follower], cluster.machines[leads]);
        for _ in 0..SLOW {
            cluster.world.block(from, to);
            cluster.world.wait(milliseconds(60)).await;
            cluster.world.unblock(from, to);
            cluster.world.wait(milliseconds(10)).await;
        }
        for reader in readers {
            let read = reader.await.expect("nothing crashes");
            read.expect("the leader stays");
        }
        writers.iter().for_each(|writer| writer.abort());
        serves.abort();
        let counts = questions(cluster, follower).await;
        println!("{} written, {counts:?}", told.get() - FIRST);
        assert!(counts.spared > 10, "{counts:?}");
    })
}

#[test]
fn what_a_message_has_committed_answers_those_who_asked_before_it() {
    for seed in 1..4 {
        assert_eq!(counted_and_spared(seed).objections, [""; 0], "seed {seed}");
    }
}

#[test]
fn a_commit_that_answers_readers_who_came_later_is_found() {
    let planted = plant(Bug::StampAfterMessage);
    let found = (1..5).find(|seed| !counted_and_spared(*seed).objections.is_empty());
    drop(planted);
    println!("found by seed {found:?}");
    assert!(found.is_some());
}
