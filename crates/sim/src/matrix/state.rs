//! The state of a session on a client's node: what the client was told of survives the loss
//! of the leader, and what the node keeps is bounded.

use coeval_env::sim::World;
use coeval_workload::pipelines::{Line, Part};

use super::waits::{SLOW, USUAL, at_client, open, slow_followers};
use super::{Fate, Matrix};

/// Sends the part, and returns the errors of its cycles.
async fn told(line: &mut Line, part: &Part) -> Vec<Option<String>> {
    let answers = line.ask(std::slice::from_ref(part)).await;
    let cycles = answers.expect("what it is owed").cycles;
    cycles.into_iter().map(|cycle| cycle.error).collect()
}

/// Kills the leader, and waits for another one.
async fn lose(matrix: &mut Matrix<'_>, leader: usize) {
    matrix.strike(Fate::Killed, leader).await;
}

/// Runs the statement that was prepared before the leader was lost.
async fn still_runs(matrix: &mut Matrix<'_>, mut line: Line, name: &'static str) {
    let errors = at_client(matrix, "the statement", async move {
        loop {
            let errors = told(&mut line, &Part::run(name)).await;
            // The new leader is not there yet, or is asked while it begins.
            if !matches!(errors[0].as_deref(), Some("40001" | "40003" | "57P03")) {
                return errors;
            }
        }
    })
    .await;
    assert_eq!(errors, [None], "{name}");
}

#[test]
fn a_statement_is_kept_once_the_client_is_told_that_it_is_prepared() {
    let world = World::new(8);
    world.block_on(async {
        let mut matrix = Matrix::new(&world, 8);
        let leader = matrix.start().await;
        let follower = matrix.others(leader)[0];
        let line = at_client(&mut matrix, "ParseComplete", async move {
            let mut line = open(follower).await;
            let prepare = Part::prepare("kept", "SELECT 1");
            assert!(line.send(&prepare).await.expect("an answer"));
            line
        })
        .await;
        // Its Sync has not been sent.
        lose(&mut matrix, leader).await;
        let line = at_client(&mut matrix, "ReadyForQuery", async move {
            let mut line = line;
            let errors = told(&mut line, &Part::sync()).await;
            assert!(errors[0].is_some(), "its cycle is lost");
            line
        })
        .await;
        still_runs(&mut matrix, line, "kept").await;
    });
}

#[test]
fn a_statement_is_kept_whose_cycle_was_interrupted() {
    // The client is told of the statement before the interruption, or never: then its node
    // learns of it with the next answer.
    for is_told in [true, false] {
        let world = World::new(9);
        world.block_on(async {
            let mut matrix = Matrix::new(&world, 9);
            let leader = matrix.start().await;
            let follower = matrix.others(leader)[0];
            let mut line = at_client(&mut matrix, "a session", async move {
                let mut line = open(follower).await;
                let set = line.query("SET statement_timeout = 100").await;
                assert!(set.expect("an answer").cycles[0].is_done());
                if is_told {
                    let prepare = Part::prepare("kept", "SELECT 1");
                    assert!(line.send(&prepare).await.expect("an answer"));
                }
                line
            })
            .await;
            slow_followers(&matrix, leader, SLOW);
            let (line, errors) = at_client(&mut matrix, "an interruption", async move {
                let name = if is_told { "other" } else { "kept" };
                let part = Part::prepare_and_insert(name, "SELECT 1", 3_000_000);
                let errors = told(&mut line, &part).await;
                (line, errors)
            })
            .await;
            assert_eq!(errors, [Some("40003".to_owned())]);
            slow_followers(&matrix, leader, USUAL);
            let line = at_client(&mut matrix, "the session goes on", async move {
                let mut line = line;
                while !is_told && !line.probe().await.expect("an answer") {}
                line
            })
            .await;
            lose(&mut matrix, leader).await;
            still_runs(&mut matrix, line, "kept").await;
        });
    }
}

/// A quarter of 256 MB for all sessions of the follower, and as much for those of the leader.
#[test]
fn what_a_node_keeps_for_sessions_elsewhere_is_bounded() {
    // Charged as a message that arrives, on the follower only: the leader never gets it.
    const UNFINISHED: usize = 9 << 20;
    // Too short to be charged on its way.
    const TEXT: usize = 300 << 10;
    let world = World::new(10);
    world.block_on(async {
        let mut matrix = Matrix::new(&world, 10);
        let leader = matrix.start().await;
        let follower = matrix.others(leader)[0];
        let (kept, last) = at_client(&mut matrix, "a refusal", async move {
            let mut large = open(follower).await;
            let part = Part::unfinished(UNFINISHED);
            assert!(large.send(&part).await.expect("it is taken"));
            let mut line = open(follower).await;
            let text = format!("SELECT '{}'", "x".repeat(TEXT));
            for kept in 0.. {
                let prepare = Part::prepare(&format!("s{kept}"), &text);
                let answers = line.ask(&[prepare, Part::sync()]).await;
                let mut answers = answers.expect("an answer");
                let last = answers.cycles.pop().and_then(|cycle| cycle.error);
                if answers.closed || last.is_some() {
                    assert!(answers.closed, "the leader refused, after {kept}: {last:?}");
                    // What was kept is given back.
                    assert!(open(follower).await.probe().await.expect("an answer"));
                    return (kept, last);
                }
            }
            unreachable!("there is a bound")
        })
        .await;
        assert_eq!(last.as_deref(), Some("53200"));
        // Together with the message that never ends: the leader has room for more.
        assert!((90..200).contains(&kept), "{kept}");
        // Messages that never end are bounded in sum.
        let refused = at_client(&mut matrix, "a refusal", async move {
            let mut lines = Vec::new();
            for _ in 0..8 {
                let mut line = open(follower).await;
                let part = Part::unfinished(UNFINISHED);
                if !line.send(&part).await.expect("it is taken or refused") {
                    return true;
                }
                lines.push(line);
            }
            for mut line in lines {
                if line.settle().await.is_ok_and(|answers| answers.closed) {
                    return true;
                }
            }
            false
        })
        .await;
        assert!(refused, "72 MiB have found room in 64");
    });
}
