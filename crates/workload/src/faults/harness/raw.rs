//! Raw clients beside the workload: they send requests of every
//! [shape](crate::pipelines::Shape), in every state of a transaction block, and count what
//! each is owed.
//!
//! The clients of a workload cannot see a ReadyForQuery that never comes: their library
//! waits on, their timeout expires, and the outcome counts as unknown. A raw client fails
//! the run instead: it waits longer than any fault lasts, so that its own deadline is a
//! failure of the server.
//!
//! ```text
//!   raw client   P B E S ─ P B E S ─ ROLLBACK ─ SELECT 7      next node, next connection
//!   server       1 2 C Z ─ E  ✗ a Z is missing                 │
//!   fault        ───────── the leader is replaced ───────────────▶
//! ```
//!
//! A connection that ends owes nothing more. Where a firewall drops packets, among them
//! the last one of a connection, the client's deadline proves nothing, and only messages
//! that were not asked for are violations.
//!
//! Invariant: a run without a violation does not wait for its raw clients, but for one
//! request of each.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coeval_env as env;

use super::ground::Ground;
use super::{Error, Options, PATIENCE, level_name};
use crate::chance::Chance;
use crate::pipelines::{CREATE_TABLE, Line, Shape, State, Violation};

/// A client's deadline for each message: longer than any fault lasts, and the election or
/// the start after it.
const DEADLINE: Duration = Duration::from_secs(60);
/// Least number of clients.
const CLIENTS: usize = 2;
/// How often a client tries whether its connection goes on.
const PROBES: usize = 3;
/// Number of rows after which a client deletes its own, so that reads of the table stay
/// short.
const ROWS: u64 = 32;
/// Delay before a client connects again.
const RETRY: Duration = Duration::from_millis(20);
/// Longest pause between two parts of a request, in microseconds.
const PAUSE: u64 = 3000;
/// How many violations are reported.
const TOLD: usize = 3;
/// User and database of the clients.
const WHO: (&str, &str) = ("postgres", "postgres");

/// What the raw clients have seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Number of requests that were answered as owed.
    pub(super) answered: u64,
    /// Violations.
    pub(super) wrong: Vec<String>,
}

#[derive(Debug, Default)]
struct Shared {
    is_stopping: AtomicBool,
    answered: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn objects(&self, what: String) {
        let mut wrong = self.wrong.lock().expect("no panic while it was held");
        if wrong.len() < TOLD {
            wrong.push(what);
        }
    }
}

/// The raw clients of one run.
pub(super) struct RawClients {
    shared: Arc<Shared>,
    running: Vec<env::JoinHandle<()>>,
}

impl RawClients {
    /// Makes the table of the clients, and starts them: one for each server, each of
    /// which goes to another one when its connection ends.
    pub(super) async fn begin(ground: &Ground<'_>, options: &Options) -> Result<Self, Error> {
        let addresses = ground.addresses();
        let Some(&first) = addresses.first() else {
            return Err(Error::Undone(
                "there is no address to connect to".to_owned(),
            ));
        };
        make_table(first).await?;
        let loses_nothing = ground.loses_nothing();
        let deadline = match loses_nothing {
            true => DEADLINE.min(options.patience),
            false => options.operation_timeout,
        };
        let mut clients = Self {
            shared: Arc::default(),
            running: Vec::new(),
        };
        for number in 0..addresses.len().max(CLIENTS) {
            clients.add(Client {
                number,
                addresses: addresses.clone(),
                level: level_name(options.level).to_lowercase(),
                deadline,
                is_judged_late: loses_nothing,
                chance: Chance::of(options.seed, (2 << 32) + number as u64),
                rows: 0,
                deleted: 0,
                shared: Arc::clone(&clients.shared),
            });
        }
        Ok(clients)
    }

    fn add(&mut self, client: Client) {
        let running = env::spawn("raw client", client.run());
        self.running.push(running);
    }

    /// Lets each client finish its request, and returns what they have seen.
    pub(super) async fn end(self) -> Seen {
        let Self { shared, running } = self;
        shared.is_stopping.store(true, Ordering::Release);
        let ended = env::timeout(PATIENCE, async {
            for client in running {
                if let Err(error) = client.await {
                    shared.objects(format!("owed: a raw client ended: {error}"));
                }
            }
        });
        if ended.await.is_err() {
            let still = "is served for ever, and not what it asked for";
            shared.objects(format!("owed: a raw client {still}"));
        }
        let wrong = shared.wrong.lock().expect("no panic while it was held");
        Seen {
            answered: shared.answered.load(Ordering::Relaxed),
            wrong: wrong.clone(),
        }
    }
}

async fn make_table(address: SocketAddr) -> Result<(), Error> {
    let wrong = |what: &str| Error::Wrong(format!("{CREATE_TABLE}: {what}"));
    let violated = |violation: Violation| wrong(&violation.to_string());
    let opened = Line::open(address, WHO, PATIENCE).await.map_err(violated)?;
    let mut line = opened.ok_or_else(|| wrong("no session"))?;
    let answers = line.query(CREATE_TABLE).await.map_err(violated)?;
    match answers.cycles.iter().find(|cycle| !cycle.is_done()) {
        None => Ok(()),
        Some(cycle) => Err(wrong(cycle.error.as_deref().unwrap_or("no answer"))),
    }
}

struct Client {
    number: usize,
    addresses: Vec<SocketAddr>,
    /// Isolation level of its transactions.
    level: String,
    deadline: Duration,
    /// Whether a deadline that has passed is a failure of the server.
    is_judged_late: bool,
    chance: Chance,
    /// Number of rows that the client has inserted, or tried to.
    rows: u64,
    /// How many of them it has deleted again.
    deleted: u64,
    shared: Arc<Shared>,
}

impl Client {
    async fn run(mut self) {
        let mut turn = self.number;
        while !self.shared.is_stopping() {
            let address = self.addresses[turn % self.addresses.len()];
            turn += 1;
            match Line::open(address, WHO, self.deadline).await {
                Ok(Some(mut line)) => self.serve(&mut line, address).await,
                Ok(None) => {}
                Err(violation) => self.violated("a login", address, &violation),
            }
            if !self.shared.is_stopping() {
                env::sleep(RETRY).await;
            }
        }
    }

    /// Sends requests until the connection ends, or the client is to stop.
    async fn serve(&mut self, line: &mut Line, address: SocketAddr) {
        let set = format!("SET default_transaction_isolation = '{}'", self.level);
        match line.query(&set).await {
            Ok(answers) if !answers.closed => {}
            Ok(_) => return,
            Err(violation) => return self.violated("SET", address, &violation),
        }
        while !self.shared.is_stopping() {
            let which = self.chance.within(0..Shape::ALL.len() as u64);
            let shape = Shape::ALL[which as usize];
            let state = match self.chance.within(0..4) {
                0 => State::Within,
                1 => State::Failed,
                _ => State::Outside,
            };
            match self.request(line, shape, state).await {
                Ok(true) => {
                    self.shared.answered.fetch_add(1, Ordering::Relaxed);
                }
                Ok(false) => return,
                Err(violation) => {
                    let what = format!("{:?} in state {state:?}", shape.name());
                    return self.violated(&what, address, &violation);
                }
            }
            self.pause().await;
        }
    }

    /// Sends one request; false when the connection has ended.
    async fn request(
        &mut self,
        line: &mut Line,
        shape: Shape,
        state: State,
    ) -> Result<bool, Violation> {
        // Each client has keys of its own, and uses none twice: none waits for another.
        let base = (self.number as u64) << 40;
        if self.rows >= self.deleted + ROWS {
            let until = base + self.rows;
            let delete = format!("DELETE FROM pair WHERE k >= {base} AND k < {until}");
            if line.query(&delete).await?.closed {
                return Ok(false);
            }
            self.deleted = self.rows;
        }
        let mut status = Some('I');
        for query in state.queries() {
            let answers = line.query(query).await?;
            status = answers.cycles.last().and_then(|cycle| cycle.status);
        }
        let wanted = match state {
            State::Outside => 'I',
            State::Within => 'T',
            State::Failed => 'E',
        };
        // A fault may have ended the block.
        if status == Some(wanted) {
            let key = base + self.rows;
            self.rows += shape.rows();
            for part in &shape.parts(key) {
                self.pause().await;
                if !line.send(part).await? {
                    break;
                }
            }
            if line.settle().await?.closed {
                return Ok(false);
            }
            if state != State::Outside && line.query("COMMIT").await?.closed {
                return Ok(false);
            }
        }
        for _ in 0..PROBES {
            if line.query("ROLLBACK").await?.closed {
                return Ok(false);
            }
            if line.probe().await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn pause(&mut self) {
        let micros = self.chance.within(0..PAUSE);
        env::sleep(Duration::from_micros(micros)).await;
    }

    fn violated(&self, what: &str, address: SocketAddr, violation: &Violation) {
        if matches!(violation, Violation::Late { .. }) && !self.is_judged_late {
            return;
        }
        let objection = format!("owed: {what}, at {address}: {violation}");
        self.shared.objects(objection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// How a scripted server answers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Script {
        AsOwed,
        /// A Sync gets no ReadyForQuery.
        ForgetsSync,
        /// A Query gets two.
        ReadyTwice,
    }

    async fn answer(mut stream: env::Stream, script: Script) -> std::io::Result<()> {
        const READY: &[u8] = b"Z\0\0\0\x05I";
        const DONE: &[u8] = b"C\0\0\0\x05\0";
        const COPY_IN: &[u8] = b"G\0\0\0\x07\0\0\0";
        let length = stream.read_u32().await?;
        stream.read_exact(&mut vec![0; length as usize - 4]).await?;
        stream.write_all(b"R\0\0\0\x08\0\0\0\0").await?;
        stream.write_all(READY).await?;
        // Whether the statement is a COPY FROM STDIN, and whether its Query waits for it.
        let (mut takes_data, mut in_query) = (false, false);
        loop {
            let kind = stream.read_u8().await?;
            let length = stream.read_u32().await?;
            let mut contents = vec![0; length as usize - 4];
            stream.read_exact(&mut contents).await?;
            if matches!(kind, b'Q' | b'P') {
                let text = String::from_utf8_lossy(&contents).into_owned();
                takes_data = text.contains("FROM STDIN");
                in_query = kind == b'Q';
            }
            let answers: &[&[u8]] = match kind {
                b'Q' | b'E' if takes_data => &[COPY_IN],
                b'Q' if script == Script::ReadyTwice => &[DONE, READY, READY],
                b'Q' => &[DONE, READY],
                b'E' => &[DONE],
                b'c' if in_query => &[DONE, READY],
                b'c' => &[DONE],
                b'S' if script != Script::ForgetsSync => &[READY],
                _ => &[],
            };
            stream.write_all(&answers.concat()).await?;
        }
    }

    /// What a client sees of a scripted server, once something is wrong, or enough is right.
    async fn seen(script: Script, deadline: Duration) -> Seen {
        let listener = env::listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = env::spawn("scripted server", async move {
            while let Ok((stream, _)) = listener.accept().await {
                env::spawn("scripted session", async move {
                    let _ = answer(stream, script).await;
                });
            }
        });
        let shared = Arc::new(Shared::default());
        let mut clients = RawClients {
            shared: Arc::clone(&shared),
            running: Vec::new(),
        };
        clients.add(Client {
            number: 0,
            addresses: vec![address],
            level: "serializable".to_owned(),
            deadline,
            is_judged_late: true,
            chance: Chance::new(1),
            rows: 0,
            deleted: 0,
            shared: Arc::clone(&shared),
        });
        let enough = 4 * Shape::ALL.len() as u64;
        while shared.answered.load(Ordering::Relaxed) < enough
            && shared.wrong.lock().unwrap().is_empty()
        {
            env::sleep(Duration::from_millis(1)).await;
        }
        let seen = clients.end().await;
        serving.abort();
        seen
    }

    #[tokio::test]
    async fn requests_that_get_what_they_are_owed_are_counted() {
        let seen = seen(Script::AsOwed, DEADLINE).await;
        assert_eq!(seen.wrong, [""; 0]);
        assert!(seen.answered > 0);
    }

    #[tokio::test]
    async fn a_sync_that_is_not_answered_is_seen_at_the_clients_deadline() {
        let seen = seen(Script::ForgetsSync, Duration::from_millis(300)).await;
        let said = seen.wrong.first().unwrap();
        assert!(said.starts_with("owed: "), "{said}");
        assert!(
            said.contains("ReadyForQuery missing at the deadline"),
            "{said}"
        );
    }

    #[tokio::test]
    async fn an_answer_too_many_is_seen() {
        let seen = seen(Script::ReadyTwice, DEADLINE).await;
        let said = seen.wrong.first().unwrap();
        assert!(said.contains("a message without a request"), "{said}");
    }
}
