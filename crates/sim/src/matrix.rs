//! The matrix of requests: every request shape, in every state of a transaction block, by
//! clients of the leader and of a follower, while the leader is paused, cut off, killed
//! or replaced.
//!
//! Each client sends the first part of its request; then the fault strikes, and it sends
//! the rest: what runs at that moment, and what arrives at a leader that has a successor,
//! must be answered. Afterwards the connection goes on.

mod state;
mod waits;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use coeval_env::sim::{Node, World};
use coeval_peers::NodeId;
use coeval_workload::pipelines::{Line, Part, Shape, State};

use crate::system_under_test::SystemUnderTest;
use crate::{Options, Scenario};

/// Interval at which the test and its clients look at the state of things.
const TICK: Duration = Duration::from_millis(5);
/// Longer than any client may have to wait, in virtual time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of rows that a COPY to the client sends, and the length of each: more than the
/// buffers between server and client hold.
const ROWS: u64 = 60;
const WIDTH: usize = 20_000;

/// What happens to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Paused,
    CutOff,
    Killed,
    Replaced,
    /// It is cut off, and so is every other node: no node leads for a while.
    Nowhere,
}

/// A request in the matrix.
#[derive(Clone, Copy, Debug)]
struct Case {
    shape: Shape,
    state: State,
    of_leader: bool,
}

/// State shared by the clients and the test.
#[derive(Default)]
struct Board {
    /// Number of clients that have sent the first part of their requests.
    armed: usize,
    /// Whether the fault has struck.
    struck: bool,
    /// Number of clients that are through.
    through: usize,
    wrong: Vec<String>,
}

type Shared = Rc<RefCell<Board>>;

fn cases(fate: Fate) -> Vec<Case> {
    let mut cases = Vec::new();
    for &shape in Shape::ALL {
        for &state in State::ALL {
            for of_leader in [true, false] {
                // The connections of a process end with it.
                if fate != Fate::Killed || !of_leader {
                    cases.push(Case {
                        shape,
                        state,
                        of_leader,
                    });
                }
            }
        }
    }
    cases
}

/// Plays one request, and returns what is wrong with its answers.
async fn play(case: Case, number: u64, at: usize, board: &Shared) -> Result<(), String> {
    let told = |violation| format!("{violation}");
    let address = crate::server::address(at);
    let opened = Line::open(address, ("sim", "sim"), PATIENCE).await;
    let mut line = opened.map_err(told)?.ok_or("it is not let in")?;
    line.query("SET idle_in_transaction_session_timeout = 0")
        .await
        .map_err(told)?;
    for query in case.state.queries() {
        line.query(query).await.map_err(told)?;
    }
    let parts = case.shape.parts(1_000_000 + 10 * number);
    // What is sent in one part is in flight when the fault strikes, or comes after it.
    let (before, after) = parts.split_at(match parts.len() {
        1 if case.shape != Shape::CopyOut => 0,
        1 | 2 => 1,
        _ => 2,
    });
    send(&mut line, before).await?;
    board.borrow_mut().armed += 1;
    while !board.borrow().struck {
        coeval_env::sleep(TICK).await;
    }
    send(&mut line, after).await?;
    let owed: usize = parts.iter().map(Part::cycles).sum();
    let answers = line.settle().await.map_err(told)?;
    if answers.closed || answers.cycles.len() > owed {
        return Err(format!("{answers:?}"));
    }
    let states = answers
        .cycles
        .iter()
        .filter_map(|cycle| cycle.error.as_deref());
    for state in states {
        // A later statement of a block that has failed has 25P02.
        if !["40001", "40003", "25P02", "57P03", "57014"].contains(&state) {
            return Err(format!("{state}: {answers:?}"));
        }
    }
    for _ in 0..3 {
        line.query("ROLLBACK").await.map_err(told)?;
        if line.probe().await.map_err(told)? {
            return Ok(());
        }
    }
    Err("the connection does not go on".to_owned())
}

async fn send(line: &mut Line, parts: &[Part]) -> Result<(), String> {
    for part in parts {
        let sent = line
            .send(part)
            .await
            .map_err(|violation| violation.to_string())?;
        if !sent {
            return Err("the connection has ended".to_owned());
        }
    }
    Ok(())
}

struct Matrix<'world> {
    world: &'world World,
    system: SystemUnderTest,
    client: Node,
    board: Shared,
}

impl<'world> Matrix<'world> {
    fn new(world: &'world World, seed: u64) -> Self {
        let scenario: Scenario = "servers/bank/read-committed/none"
            .parse()
            .expect("a scenario");
        Self {
            world,
            system: SystemUnderTest::new(world, &Options::new(scenario, seed), None),
            client: world.node(),
            board: Shared::default(),
        }
    }

    async fn until(&mut self, what: &str, mut is: impl FnMut(&Self) -> bool) {
        let until = self.world.elapsed() + 2 * PATIENCE;
        while !is(self) {
            assert!(
                self.world.elapsed() < until,
                "{what}: {}",
                self.system.phases()
            );
            self.world.wait(TICK).await;
        }
    }

    /// Starts the cluster, and makes a table with long rows.
    async fn start(&mut self) -> usize {
        for server in &mut self.system.servers {
            server.start(self.world);
        }
        self.until("a leader", |matrix| matrix.system.leader().is_some())
            .await;
        let leader = self.system.leader().expect("it was there just now");
        let filled = self.world.spawn(self.client, async move {
            let address = crate::server::address(leader);
            let opened = Line::open(address, ("sim", "sim"), PATIENCE).await;
            let mut line = opened.ok().flatten().expect("a session");
            let table = "CREATE TABLE pair (k bigint PRIMARY KEY, v text NOT NULL)";
            for query in [
                table.to_owned(),
                format!("INSERT INTO pair SELECT k, repeat('x', {WIDTH}) FROM generate_series(1, {ROWS}) k"),
            ] {
                let answers = line.query(&query).await.expect("an answer");
                assert!(answers.cycles[0].is_done(), "{answers:?}");
            }
        });
        self.until("a table", |_| filled.is_finished()).await;
        filled.await.expect("a table");
        leader
    }

    fn others(&self, leader: usize) -> Vec<usize> {
        (0..self.system.servers.len())
            .filter(|at| *at != leader)
            .collect()
    }

    /// Blocks or unblocks all links between these nodes and the rest.
    fn cut(&self, pairs: &[(usize, usize)], is_cut: bool) {
        for &(one, other) in pairs {
            let (one, other) = (
                self.system.servers[one].node,
                self.system.servers[other].node,
            );
            for (from, to) in [(one, other), (other, one)] {
                match is_cut {
                    true => self.world.block(from, to),
                    false => self.world.unblock(from, to),
                }
            }
        }
    }

    async fn strike(&mut self, fate: Fate, leader: usize) {
        let others = self.others(leader);
        let machine = self.system.servers[leader].node;
        let term = self.system.term();
        let mut pairs: Vec<_> = others.iter().map(|other| (leader, *other)).collect();
        if fate == Fate::Nowhere {
            pairs.push((others[0], others[1]));
        }
        match fate {
            Fate::Paused => self.world.pause(machine),
            Fate::CutOff | Fate::Nowhere => self.cut(&pairs, true),
            Fate::Killed => {
                self.world.kill(machine);
                self.system.servers[leader].down();
            }
            Fate::Replaced => {
                let node = self.system.servers[leader].leading().expect("it leads");
                let to = NodeId(self.system.servers[others[0]].number());
                self.world.spawn(machine, async move {
                    let _ = node.transfer(to).await;
                });
            }
        }
        self.board.borrow_mut().struck = true;
        if fate == Fate::Nowhere {
            // Longer than a client waits for a leader.
            self.world.wait(Duration::from_secs(15)).await;
        } else {
            self.until("another leader", |matrix| matrix.system.term() > term)
                .await;
        }
        match fate {
            Fate::Paused => self.world.resume(machine),
            Fate::CutOff | Fate::Nowhere => self.cut(&pairs, false),
            Fate::Killed => self.system.servers[leader].start(self.world),
            Fate::Replaced => {}
        }
    }
}

/// Plays the whole matrix under one fault.
fn matrix(fate: Fate, seed: u64) {
    let world = World::new(seed);
    let cases = cases(fate);
    let wrong = world.block_on(async {
        let mut matrix = Matrix::new(&world, seed);
        let leader = matrix.start().await;
        let follower = matrix.others(leader)[0];
        for (number, &case) in cases.iter().enumerate() {
            let board = Rc::clone(&matrix.board);
            let at = if case.of_leader { leader } else { follower };
            world.spawn(matrix.client, async move {
                let played = play(case, number as u64, at, &board).await;
                let mut board = board.borrow_mut();
                board.through += 1;
                if let Err(wrong) = played {
                    let of = if case.of_leader { "leader" } else { "follower" };
                    let (shape, state) = (case.shape.name(), case.state);
                    board
                        .wrong
                        .push(format!("{shape}, {state:?}, of the {of}: {wrong}"));
                }
            });
        }
        let all = cases.len();
        matrix
            .until("all clients at work", |matrix| {
                let board = matrix.board.borrow();
                board.armed + board.through >= all
            })
            .await;
        matrix.strike(fate, leader).await;
        matrix
            .until("all clients through", |matrix| {
                matrix.board.borrow().through == all
            })
            .await;
        let board = matrix.board.borrow();
        board.wrong.clone()
    });
    assert!(
        wrong.is_empty(),
        "{fate:?}: {} of {} requests\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_request_is_answered_when_the_leader_is_paused() {
    matrix(Fate::Paused, 1);
}

#[test]
fn every_request_is_answered_when_the_leader_is_cut_off() {
    matrix(Fate::CutOff, 2);
}

#[test]
fn every_request_of_a_follower_is_answered_when_the_leader_is_killed() {
    matrix(Fate::Killed, 3);
}

#[test]
fn every_request_is_answered_when_another_node_takes_the_lead() {
    matrix(Fate::Replaced, 4);
}

#[test]
fn every_request_is_answered_when_no_node_leads() {
    matrix(Fate::Nowhere, 5);
}

#[test]
fn the_matrix_notices_a_sync_that_is_forgotten() {
    use coeval_types::planted::{self, Bug};
    let _bug = planted::plant(Bug::ForgetOwedSync).expect("tests are built with planted bugs");
    let seen = std::panic::catch_unwind(|| matrix(Fate::CutOff, 2));
    let said = *seen
        .expect_err("clients that wait for ever")
        .downcast::<String>()
        .expect("a text");
    for line in ["extended, Outside, of the leader", "ReadyForQuery missing"] {
        assert!(said.contains(line), "{said}");
    }
}
