//! What ends the wait of a commit for its quorum: `statement_timeout`, a cancel request,
//! and the end of the client's connection.
//!
//! Both followers' disks take seconds for an fsync, so they answer heartbeats and
//! acknowledge no entry: the leader keeps the lead, and a commit waits.

use std::time::Duration;

use coeval_env::sim::World;
use coeval_workload::pipelines::{Line, Part, Shape, cancel};

use super::{Matrix, PATIENCE, TICK};

pub(super) const SLOW: std::ops::Range<Duration> = Duration::from_secs(4)..Duration::from_secs(5);
pub(super) const USUAL: std::ops::Range<Duration> = Duration::ZERO..Duration::from_millis(4);

/// The ways in which a client writes a row and waits for the commit.
const SHAPES: [Shape; 4] = [
    Shape::Query,
    Shape::Several,
    Shape::Extended,
    Shape::Pipelined,
];

pub(super) async fn open(at: usize) -> Line {
    let address = crate::server::address(at);
    let opened = Line::open(address, ("sim", "sim"), PATIENCE).await;
    opened.expect("an answer").expect("a session")
}

/// Number of sessions whose answer waits for a commit, as another session sees it. The
/// answer is an error while there are fewer than `most`.
async fn are_waiting(line: &mut Line, most: usize) -> bool {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'WALSync'";
    let answers = line
        .query(&format!(
            "SELECT 1 / CASE WHEN ({waiting}) = {most} THEN 1 ELSE 0 END"
        ))
        .await
        .expect("an answer");
    answers.cycles[0].is_done()
}

/// Runs `work` on the client's machine.
pub(super) async fn at_client<T: 'static>(
    matrix: &mut Matrix<'_>,
    what: &str,
    work: impl Future<Output = T> + 'static,
) -> T {
    let task = matrix.world.spawn(matrix.client, work);
    matrix.until(what, |_| task.is_finished()).await;
    task.await.expect(what)
}

pub(super) fn slow_followers(matrix: &Matrix<'_>, leader: usize, time: std::ops::Range<Duration>) {
    for other in matrix.others(leader) {
        let node = matrix.system.servers[other].node;
        matrix.world.set_sync_time(node, time.clone());
    }
}

/// What became of a row once the followers' disks are quick again.
fn exists(key: u64) -> String {
    format!("SELECT 1 / (SELECT count(*) FROM pair WHERE k = {key})")
}

#[test]
fn a_commit_that_waits_for_a_quorum_ends_with_40003_at_a_timeout_or_cancel() {
    let world = World::new(6);
    world.block_on(async {
        let mut matrix = Matrix::new(&world, 6);
        let leader = matrix.start().await;
        let follower = matrix.others(leader)[0];
        let mut lines = Vec::new();
        for at in [leader, follower] {
            for shape in SHAPES {
                for is_late in [true, false] {
                    let line = at_client(&mut matrix, "a session", async move {
                        let mut line = open(at).await;
                        if is_late {
                            line.query("SET statement_timeout = 100")
                                .await
                                .expect("an answer");
                        }
                        line
                    })
                    .await;
                    lines.push((line, at, shape, is_late));
                }
            }
        }
        slow_followers(&matrix, leader, SLOW);
        let mut first = 2_000_000;
        for (mut line, at, shape, is_late) in lines {
            let key = first;
            first += 10;
            let (line, answers) = at_client(&mut matrix, "an answer", async move {
                let parts = shape.parts(key);
                for part in &parts {
                    assert!(line.send(part).await.expect("it is taken"));
                }
                let secret = line.key().to_vec();
                let asking = async move {
                    if is_late {
                        std::future::pending::<()>().await;
                    }
                    loop {
                        coeval_env::sleep(TICK).await;
                        cancel(crate::server::address(at), &secret).await;
                    }
                };
                let answers = tokio::select! {
                    answers = line.settle() => answers.expect("what it is owed"),
                    () = asking => unreachable!("it asks for ever"),
                };
                (line, answers)
            })
            .await;
            let told = format!("{shape:?} at {at}, late {is_late}: {answers:?}");
            let owed: usize = shape.parts(key).iter().map(Part::cycles).sum();
            assert_eq!(
                (answers.closed, answers.cycles.len()),
                (false, owed),
                "{told}"
            );
            let states = answers.cycles.iter().map(|cycle| cycle.error.as_deref());
            assert!(
                states
                    .clone()
                    .all(|state| matches!(state, Some("40003" | "57014"))),
                "{told}"
            );
            assert!(states.clone().next() == Some(Some("40003")), "{told}");
            slow_followers(&matrix, leader, USUAL);
            // The commit was not undone, and the session goes on.
            at_client(&mut matrix, "the row", async move {
                let mut line = line;
                line.query("SET statement_timeout = 0")
                    .await
                    .expect("an answer");
                while !line.query(&exists(key)).await.expect("an answer").cycles[0].is_done() {
                    coeval_env::sleep(TICK).await;
                }
            })
            .await;
            slow_followers(&matrix, leader, SLOW);
        }
    });
}

#[test]
fn a_client_that_has_gone_does_not_wait_for_a_quorum() {
    let world = World::new(7);
    world.block_on(async {
        let mut matrix = Matrix::new(&world, 7);
        let leader = matrix.start().await;
        let follower = matrix.others(leader)[0];
        slow_followers(&matrix, leader, SLOW);
        at_client(&mut matrix, "sessions that have ended", async move {
            let mut watching = open(leader).await;
            let mut lines = Vec::new();
            for (at, key) in [(leader, 2_000_000), (follower, 2_000_010)] {
                let mut line = open(at).await;
                for part in &Shape::Extended.parts(key) {
                    assert!(line.send(part).await.expect("it is taken"));
                }
                lines.push(line);
            }
            while !are_waiting(&mut watching, 2).await {
                coeval_env::sleep(TICK).await;
            }
            // One has gone, the other has closed its sending side only.
            let mut half = lines.remove(0);
            drop(lines);
            half.shut_down().await;
            while !are_waiting(&mut watching, 0).await {
                coeval_env::sleep(TICK).await;
            }
            assert!(half.settle().await.expect("the end").closed);
        })
        .await;
    });
}

/// The leader is out of reach, so the node of the client ends the statement itself.
#[test]
fn a_statement_that_waits_for_a_leader_ends_at_its_timeout() {
    let world = World::new(7);
    world.block_on(async {
        let mut matrix = Matrix::new(&world, 7);
        let leader = matrix.start().await;
        let others = matrix.others(leader);
        let at = others[0];
        let mut line = at_client(&mut matrix, "a session", async move {
            let mut line = open(at).await;
            let set = line.query("SET statement_timeout = '2s'").await;
            assert!(set.expect("an answer").cycles[0].is_done());
            line
        })
        .await;
        let pairs = [(leader, at), (leader, others[1]), (at, others[1])];
        matrix.cut(&pairs, true);
        let (mut line, error) = at_client(&mut matrix, "an error", async move {
            loop {
                let answers = line.query("SELECT 1").await.expect("an answer");
                let error = answers.cycles[0].error.clone();
                // What the leader had received is lost with it.
                if error.as_deref() != Some("40001") {
                    return (line, error);
                }
            }
        })
        .await;
        assert_eq!(error.as_deref(), Some("57014"));
        matrix.cut(&pairs, false);
        at_client(&mut matrix, "the session goes on", async move {
            while !line.probe().await.expect("an answer") {
                coeval_env::sleep(TICK).await;
            }
        })
        .await;
    });
}
