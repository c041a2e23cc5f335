//! The player: runs the permutations of a spec on one server.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use coeval_env as env;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::{BOUND, Event, NOT_OURS, Refusal, Spec, Turn};

/// How long a silent step is given before the server is asked whether it waits.
const SILENCE: Duration = Duration::from_millis(5);

/// How long a permutation may stand still before its sessions are canceled.
const STUCK: Duration = Duration::from_secs(20);

/// Why a permutation could not be played.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A setup or teardown was refused.
    #[error("its setup: {0}")]
    Setup(Refusal),
    /// A session waits for another one's later step.
    #[error("stuck at step {step}")]
    Stuck {
        /// The step that waits.
        step: String,
        /// What the steps up to it did.
        events: Vec<Event>,
    },
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] tokio_postgres::Error),
}

/// A server to play on.
#[derive(Debug)]
pub struct Server {
    config: Config,
    /// Whether it is the server under test rather than PostgreSQL.
    ours: bool,
    observer: Client,
}

type Answer = Result<String, Refusal>;
type Running = Pin<Box<dyn Future<Output = Answer>>>;

/// A session of a permutation.
struct Player {
    client: std::sync::Arc<Client>,
    process: i32,
    /// The step under way, by its place among the events.
    running: Option<(usize, Running)>,
}

async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    env::spawn("connection", async move {
        // The error that ends a connection is returned to the caller that awaits an answer.
        let _ = connection.await;
    });
    Ok(client)
}

/// What a block of statements answers.
async fn answer(client: &Client, block: &str) -> Answer {
    match client.simple_query(block).await {
        Ok(messages) => {
            let mut lines = Vec::new();
            for message in messages {
                match message {
                    SimpleQueryMessage::Row(row) => {
                        let values = (0..row.len()).map(|at| row.get(at).unwrap_or("∅"));
                        lines.push(values.collect::<Vec<_>>().join("|"));
                    }
                    SimpleQueryMessage::CommandComplete(rows) => lines.push(format!("({rows})")),
                    _ => {}
                }
            }
            Ok(lines.join("\n"))
        }
        Err(error) => Err(match error.as_db_error() {
            Some(refused) => Refusal {
                state: refused.code().code().to_owned(),
                message: refused.message().to_owned(),
            },
            None => Refusal {
                state: "08000".to_owned(),
                message: error.to_string(),
            },
        }),
    }
}

impl Server {
    /// Connects to the server at this address, by a URL or by keywords.
    pub async fn connect(address: &str, ours: bool) -> Result<Self, tokio_postgres::Error> {
        let config: Config = address.parse()?;
        Ok(Self {
            observer: connect(&config).await?,
            config,
            ours,
        })
    }

    /// The block, with a setting that makes no difference in the place of each that this server
    /// does not know: so the block has as many answers.
    fn block(&self, block: &str) -> String {
        if !self.ours {
            return block.to_owned();
        }
        let known = |statement: &str| {
            let words = statement.to_lowercase();
            let mut words = words.split_whitespace();
            let mut name = words.next() == Some("set");
            if name {
                let word = words.next().map(|word| match word {
                    "local" | "session" => words.next().unwrap_or_default(),
                    word => word,
                });
                name = word.is_some_and(|word| NOT_OURS.iter().any(|set| word.starts_with(set)));
            }
            !name
        };
        let statements = block.split(';').map(|statement| match known(statement) {
            true => statement,
            false => "set application_name to 'isolation'",
        });
        statements.collect::<Vec<_>>().join(";")
    }

    async fn set_up(&self, client: &Client, block: &str) -> Result<(), Failure> {
        let answer = answer(client, &self.block(block)).await;
        answer.map(|_| ()).map_err(Failure::Setup)
    }

    /// Removes what earlier specs have left.
    pub async fn clean(&self) -> Result<(), tokio_postgres::Error> {
        if !self.ours {
            let schema = "drop schema public cascade; create schema public; \
                grant usage on schema public to public";
            return self.observer.batch_execute(schema).await;
        }
        let tables = "select table_name from information_schema.tables \
            where table_schema = 'public'";
        for message in self.observer.simple_query(tables).await? {
            if let SimpleQueryMessage::Row(row) = message {
                let name = row.get(0).unwrap_or_default().replace('"', "\"\"");
                let drop = format!("drop table if exists \"{name}\"");
                self.observer.batch_execute(&drop).await?;
            }
        }
        Ok(())
    }

    /// Whether a session waits for another one.
    async fn waits(&self, process: i32) -> Result<bool, tokio_postgres::Error> {
        let question = match self.ours {
            true => format!(
                "select 1 from coeval.locks where waiting_pid = {process} \
                 and holding_transaction is not null limit 1"
            ),
            false => format!("select 1 where cardinality(pg_blocking_pids({process})) > 0"),
        };
        let answers = self.observer.simple_query(&question).await?;
        Ok(answers
            .iter()
            .any(|answer| matches!(answer, SimpleQueryMessage::Row(_))))
    }

    /// Waits until a player's step is answered, or waits for another session if that `may_wait`.
    async fn settle(
        &self,
        player: &mut Player,
        may_wait: bool,
        events: &mut [Event],
    ) -> Result<(), Failure> {
        let Some((at, mut running)) = player.running.take() else {
            return Ok(());
        };
        let begun = env::now();
        loop {
            if let Ok(answer) = env::timeout(SILENCE, &mut running).await {
                events[at].answer = answer;
                return Ok(());
            }
            let waits = self.waits(player.process).await? || begun.elapsed() > BOUND;
            if may_wait && waits {
                player.running = Some((at, running));
                return Ok(());
            }
            if begun.elapsed() > STUCK {
                let _ = player.client.cancel_token().cancel_query(NoTls).await;
                return Err(Failure::Stuck {
                    step: events[at].step.clone(),
                    events: events[..at].to_vec(),
                });
            }
        }
    }

    /// Plays one permutation of a spec. Transactions that its steps leave open are committed
    /// after the last one, so that what a server refuses only at COMMIT is refused.
    pub async fn play(&self, spec: &Spec, turns: &[Turn]) -> Result<Vec<Event>, Failure> {
        for block in &spec.setup {
            if let Err(failure) = self.set_up(&self.observer, block).await {
                // A part of it may be done, and stand in the way of others.
                if let Some(block) = &spec.teardown {
                    for statement in block.split(';') {
                        let _ = self.set_up(&self.observer, statement).await;
                    }
                }
                return Err(failure);
            }
        }
        let mut players = Vec::new();
        let played = self.play_in(spec, turns, &mut players).await;
        for (player, session) in players.iter().zip(&spec.sessions) {
            if played.is_err() {
                let _ = player.client.cancel_token().cancel_query(NoTls).await;
            } else if let Some(block) = &session.teardown {
                // It ends a transaction that may have ended; the warning or error is no answer.
                let _ = answer(&player.client, &self.block(block)).await;
            }
        }
        drop(players);
        if let Some(block) = &spec.teardown {
            self.set_up(&self.observer, block).await?;
        }
        played
    }

    async fn play_in(
        &self,
        spec: &Spec,
        turns: &[Turn],
        players: &mut Vec<Player>,
    ) -> Result<Vec<Event>, Failure> {
        for session in &spec.sessions {
            let client = connect(&self.config).await?;
            let process = answer(&client, "select pg_backend_pid()").await;
            let process = process
                .ok()
                .and_then(|said| said.lines().next()?.parse().ok());
            if let Some(block) = &session.setup {
                self.set_up(&client, block).await?;
            }
            players.push(Player {
                client: std::sync::Arc::new(client),
                process: process.unwrap_or(0),
                running: None,
            });
        }
        let mut events: Vec<Event> = Vec::new();
        for turn in turns {
            let (at, block) = spec.step(&turn.step).expect("the parser has checked it");
            self.settle(&mut players[at], false, &mut events).await?;
            events.push(Event {
                step: turn.step.clone(),
                waited: false,
                annotated: turn.annotated,
                answer: Ok(String::new()),
            });
            let (client, block) = (players[at].client.clone(), self.block(block));
            let running: Running = Box::pin(async move { answer(&client, &block).await });
            let event = events.len() - 1;
            players[at].running = Some((event, running));
            self.settle(&mut players[at], true, &mut events).await?;
            events[event].waited = players[at].running.is_some();
            for other in (0..players.len()).filter(|other| *other != at) {
                self.settle(&mut players[other], true, &mut events).await?;
            }
            // The others may have let it go on, as the victim of a deadlock does.
            self.settle(&mut players[at], true, &mut events).await?;
        }
        for player in &mut *players {
            self.settle(player, false, &mut events).await?;
        }
        for (player, session) in players.iter().zip(&spec.sessions) {
            events.push(Event {
                step: format!("the end of {}", session.name),
                waited: false,
                annotated: true,
                answer: answer(&player.client, "commit").await,
            });
        }
        Ok(events)
    }
}
