//! A connection that counts what it is owed, and judges what it gets.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use coeval_env::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::shapes::{Part, query};

/// Longest message that a server may send to this client, in bytes.
const LONGEST: u32 = 64 << 20;
/// How many of the last answers a violation shows.
const SHOWN: usize = 24;
/// Request code of a cancel request.
const CANCEL: u32 = 80_877_102;

/// What a connection got that its requests were not owed, or did not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The client's deadline has passed, and this many ReadyForQuery are missing.
    Late {
        /// Number of missing ReadyForQuery messages; 0 if an answer within a cycle is
        /// missing.
        missing: usize,
        /// Types of the last answers.
        got: String,
    },
    /// A message that no request asked for.
    Unasked {
        /// Types of the last answers.
        got: String,
    },
    /// A second error in a cycle, or a completion after the cycle's error.
    AfterError {
        /// Types of the last answers.
        got: String,
    },
    /// Bytes that are no message of a server.
    Malformed,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late { missing: 0, got } => {
                write!(formatter, "no answer before the deadline, after {got:?}")
            }
            Self::Late { missing, got } => write!(
                formatter,
                "{missing} ReadyForQuery missing at the deadline, after {got:?}"
            ),
            Self::Unasked { got } => write!(formatter, "a message without a request: {got:?}"),
            Self::AfterError { got } => {
                write!(formatter, "a message after the cycle's error: {got:?}")
            }
            Self::Malformed => write!(formatter, "bytes that are no message"),
        }
    }
}

/// The answers of a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cycle {
    /// SQLSTATE of its error, if it has one.
    pub error: Option<String>,
    /// Number of completed commands.
    pub completed: usize,
    /// Transaction status in its ReadyForQuery; `None` if the connection ended before.
    pub status: Option<char>,
}

impl Cycle {
    /// Whether the cycle came to its end without an error.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.status.is_some() && self.error.is_none()
    }

    /// Whether the answer says that nothing of the cycle was committed, for a request
    /// outside a transaction block.
    #[must_use]
    pub fn is_undone(&self) -> bool {
        let state = self.error.as_deref();
        self.status.is_some() && state.is_some_and(|state| state != "40003")
    }
}

/// What a request got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// The answered cycles, in order, and the one that the end of the connection cut off.
    pub cycles: Vec<Cycle>,
    /// Whether the connection has ended.
    pub closed: bool,
}

/// A message of the server.
struct Message {
    kind: u8,
    contents: Vec<u8>,
}

impl Message {
    /// Whether an error ends the session.
    fn is_fatal(&self) -> bool {
        let mut fields = self.contents.split(|&byte| byte == 0);
        fields.any(|field| matches!(field, b"VFATAL" | b"VPANIC"))
    }

    fn sqlstate(&self) -> String {
        let mut fields = self.contents.split(|&byte| byte == 0);
        let state = fields.find_map(|field| field.strip_prefix(b"C"));
        String::from_utf8_lossy(state.unwrap_or_default()).into_owned()
    }
}

/// Why an answer did not come.
enum Missing {
    Closed,
    Violation(Violation),
}

/// Asks a server to cancel the statement of the session with this key. A cancel request
/// has no answer.
pub async fn cancel(address: SocketAddr, key: &[u8]) {
    if let Ok(mut stream) = coeval_env::connect(address).await {
        let length = key.len() as u32 + 8;
        let packet = [&length.to_be_bytes(), &CANCEL.to_be_bytes()[..], key].concat();
        let _ = stream.write_all(&packet).await;
        let _ = stream.read_u8().await;
    }
}

/// A connection to a server.
pub struct Line {
    stream: Stream,
    /// How long the client waits for the next message.
    patience: Duration,
    /// Number of ReadyForQuery messages that are owed.
    owed: usize,
    /// The cycle that is being answered.
    cycle: Cycle,
    /// The cycles of the present request.
    cycles: Vec<Cycle>,
    /// Types of the last messages.
    got: VecDeque<u8>,
    /// Whether the connection has ended.
    closed: bool,
    /// Number of the last probe.
    probe: u64,
    /// The session's number and secret, which a cancel request presents.
    key: Vec<u8>,
}

impl Line {
    /// Opens a session of this user; `Ok(None)` when the server refuses it or cannot be
    /// reached.
    pub async fn open(
        address: SocketAddr,
        (user, database): (&str, &str),
        patience: Duration,
    ) -> Result<Option<Self>, Violation> {
        let connecting = coeval_env::timeout(patience, coeval_env::connect(address));
        let Ok(Ok(stream)) = connecting.await else {
            return Ok(None);
        };
        let mut line = Self {
            stream,
            patience,
            // A login is answered as a request is.
            owed: 1,
            cycle: Cycle::default(),
            cycles: Vec::new(),
            got: VecDeque::new(),
            closed: false,
            probe: 0,
            key: Vec::new(),
        };
        let mut start = Vec::new();
        start.extend((3_u32 << 16).to_be_bytes());
        for text in ["user", user, "database", database] {
            start.extend(text.as_bytes());
            start.push(0);
        }
        start.push(0);
        let length = start.len() as u32 + 4;
        let start = [&length.to_be_bytes()[..], &start].concat();
        if line.stream.write_all(&start).await.is_err() {
            return Ok(None);
        }
        let answers = line.settle().await?;
        let is_in = !answers.closed && answers.cycles.iter().all(Cycle::is_done);
        Ok(is_in.then_some(line))
    }

    /// The session's number and secret, for [`cancel`].
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Closes the sending side of the connection: the server sees a client that may have
    /// gone.
    pub async fn shut_down(&mut self) {
        // A connection that is broken is shut down as well.
        let _ = self.stream.shutdown().await;
    }

    /// Sends the parts of a request, waits for all that it is owed, and judges it.
    pub async fn ask(&mut self, parts: &[Part]) -> Result<Answers, Violation> {
        for part in parts {
            if !self.send(part).await? {
                break;
            }
        }
        self.settle().await
    }

    /// Runs one query.
    pub async fn query(&mut self, text: &str) -> Result<Answers, Violation> {
        let part = Part {
            bytes: query(text),
            cycles: 1,
            until: b"",
            even_after_error: true,
        };
        self.ask(&[part]).await
    }

    /// Sends one part of a request, and waits for the answer that the next part needs.
    /// Returns false when the connection has ended.
    pub async fn send(&mut self, part: &Part) -> Result<bool, Violation> {
        if self.cycle.error.is_some() && !part.even_after_error {
            return Ok(true);
        }
        let sending = coeval_env::timeout(self.patience, self.stream.write_all(&part.bytes));
        match sending.await {
            Ok(Ok(())) => self.owed += part.cycles,
            Ok(Err(_)) => {
                self.closed = true;
                return Ok(false);
            }
            Err(_) => return Err(self.late()),
        }
        let before = self.cycles.len();
        while !part.until.is_empty() && self.cycle.error.is_none() && self.cycles.len() == before {
            // ReadyForQuery, too, says that nothing else will come.
            match self.receive(part.cycles == 0).await {
                Ok(kind) if part.until.contains(&kind) => break,
                Ok(_) => {}
                Err(Missing::Closed) => {
                    self.closed = true;
                    return Ok(false);
                }
                Err(Missing::Violation(violation)) => return Err(violation),
            }
        }
        Ok(true)
    }

    /// Waits for all ReadyForQuery that are owed, and returns the answers since the last
    /// call.
    pub async fn settle(&mut self) -> Result<Answers, Violation> {
        while self.owed > 0 && !self.closed {
            match self.receive(false).await {
                Ok(_) => {}
                Err(Missing::Closed) => self.closed = true,
                Err(Missing::Violation(violation)) => return Err(violation),
            }
        }
        if self.closed {
            let cut_off = std::mem::take(&mut self.cycle);
            self.cycles.push(cut_off);
        }
        Ok(Answers {
            cycles: std::mem::take(&mut self.cycles),
            closed: self.closed,
        })
    }

    /// Checks that the connection goes on, and that nothing is left over: a query gets its
    /// own answer, and no other. Returns false when the connection has ended, or the
    /// server is not ready for queries yet.
    pub async fn probe(&mut self) -> Result<bool, Violation> {
        self.probe += 1;
        let answers = self.query(&format!("SELECT {}", self.probe)).await?;
        // ReadyForQuery without an answer is left over from an earlier request.
        let is_empty = |cycle: &Cycle| cycle.is_done() && cycle.completed == 0;
        if answers.cycles.iter().any(is_empty) {
            return Err(Violation::Unasked { got: self.shown() });
        }
        Ok(!answers.closed && answers.cycles.iter().all(Cycle::is_done))
    }

    fn shown(&self) -> String {
        self.got.iter().map(|&kind| char::from(kind)).collect()
    }

    fn late(&self) -> Violation {
        Violation::Late {
            missing: self.owed,
            got: self.shown(),
        }
    }

    /// Receives one message, and judges it. `within`: the answer is awaited in a cycle
    /// whose end the client has not sent.
    async fn receive(&mut self, within: bool) -> Result<u8, Missing> {
        let message = self.message().await?;
        if self.got.len() == SHOWN {
            self.got.pop_front();
        }
        self.got.push_back(message.kind);
        let violation = |violation| Err(Missing::Violation(violation));
        match message.kind {
            // The end of a session can follow the error of an unfinished cycle.
            b'E' if self.cycle.error.is_some() && message.is_fatal() => {}
            b'E' if self.cycle.error.is_some() => {
                return violation(Violation::AfterError { got: self.shown() });
            }
            b'E' => self.cycle.error = Some(message.sqlstate()),
            b'C' | b's' | b'D' | b'd' if self.cycle.error.is_some() => {
                return violation(Violation::AfterError { got: self.shown() });
            }
            b'C' => self.cycle.completed += 1,
            b'K' => self.key = message.contents,
            b'Z' if self.owed == 0 || within => {
                return violation(Violation::Unasked { got: self.shown() });
            }
            b'Z' => {
                self.owed -= 1;
                self.cycle.status = message.contents.first().copied().map(char::from);
                self.cycles.push(std::mem::take(&mut self.cycle));
            }
            _ => {}
        }
        Ok(message.kind)
    }

    async fn message(&mut self) -> Result<Message, Missing> {
        let receiving = async {
            let kind = self.stream.read_u8().await.map_err(|_| Missing::Closed)?;
            let length = self.stream.read_u32().await.map_err(|_| Missing::Closed)?;
            if !(4..=LONGEST).contains(&length) {
                return Err(Missing::Violation(Violation::Malformed));
            }
            let mut contents = vec![0; length as usize - 4];
            let read = self.stream.read_exact(&mut contents).await;
            read.map_err(|_| Missing::Closed)?;
            Ok(Message { kind, contents })
        };
        let received = coeval_env::timeout(self.patience, receiving).await;
        received.unwrap_or_else(|_| Err(Missing::Violation(self.late())))
    }
}
