//! The client's library: transactions on a cluster of epochs from another process.
//!
//! ```
//! use coeval_epoch::client::{Client, Settings, put};
//! # use coeval_epoch::server;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
//! # runtime.unwrap().block_on(async {
//! # let directory = tempfile::tempdir().unwrap();
//! # // A cluster of one node, in this process.
//! # let cluster = coeval_peers::ClusterId::draw();
//! # let own = coeval_peers::NodeId(1);
//! # let members = [(own, "127.0.0.1:0".parse().unwrap())].into();
//! # let founding = server::Founding::new(cluster, own, members);
//! # server::found(directory.path(), &founding).await.unwrap();
//! # let mut settings = server::Settings::new(directory.path().to_owned());
//! # settings.clients = Some("127.0.0.1:0".parse().unwrap());
//! # let node = server::Server::start(settings).await.unwrap();
//! # let address = node.client_address().unwrap();
//! // The nodes whose front ends the client may use, and where they listen for clients.
//! let client = Client::new(Settings::new([(own, address.into())]));
//!
//! // A write-only transaction: all of it, or nothing.
//! let first = client.put_all([put("alice", "70"), put("bob", "30")]).await?;
//! let second = client.put_all([put("alice", "60"), put("bob", "40")]).await?;
//! assert!(second > first);
//!
//! // A read-only one sees each transaction whole, and everything that was answered before.
//! let now = client.get_all(["alice", "bob", "carol"]).await?;
//! assert!(now.at > second);
//! assert_eq!(now.value("alice").unwrap(), "60");
//! assert_eq!(now.value("bob").unwrap(), "40");
//! assert_eq!(now.value("carol"), None);
//!
//! // One at a timestamp sees what was there then, for as long as the history is kept.
//! let then = client.get_all_at(["alice", "bob"], first).await?;
//! assert_eq!(then.value("alice").unwrap(), "70");
//! # node.stop().await.unwrap();
//! # Ok::<(), coeval_epoch::client::ClientError>(())
//! # }).unwrap();
//! ```
//!
//! A client has one connection at a time, to the first of its nodes that lets it in, and any
//! number of requests on it. When the connection ends it uses the next node. A read is asked
//! again there; a write whose outcome is not known is not, and its caller is told so
//! ([`ClientError::Unknown`]). A node without a front end has it go on to the next, too. A client that
//! no node would ever let in is told at once ([`ClientError::NotLetIn`]).

pub(crate) mod login;
pub mod protocol;
mod roles;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use coeval_env::{JoinHandle, Location};
use coeval_peers::{Channel, ClusterId, NodeId, Security};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};

pub use login::{LoginError, Secret, ShortSecret};
pub use roles::{Access, KnownBy, NotARole, Rights, Role};

use crate::answer::{Answer, Reason};
use crate::back_end::{Image, NoImage};
use crate::configuration::Configuration;
use crate::operation::{Found, Key, Operation, Write};
use crate::server::{MOST_KEYS, MOST_REQUEST_BYTES, Outcome, Request};
use crate::timestamp::{Epoch, EpochTimestamp};
use protocol::{Asked, MOST_PAYLOAD, Reply};

/// Requests that are written at once.
const BATCH: usize = 256;

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The nodes that it may use, and where they listen for clients.
    pub nodes: Vec<(NodeId, Location)>,
    /// How connections are secured.
    pub security: Security,
    /// The role as which it comes in; empty for none.
    pub role: String,
    /// The role's secret, or without a role the cluster's, if its nodes ask for one.
    pub secret: Option<Secret>,
    /// How long a request may take, with all its attempts.
    pub patience: Duration,
}

impl Settings {
    /// A client of these nodes: without TLS and secret, patient for ten seconds.
    #[must_use]
    pub fn new(nodes: impl IntoIterator<Item = (NodeId, Location)>) -> Self {
        Self {
            nodes: nodes.into_iter().collect(),
            security: Security::Plain,
            role: String::new(),
            secret: None,
            patience: Duration::from_secs(10),
        }
    }
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The request has no effect.
    #[error(transparent)]
    Refused(#[from] Reason),
    /// A write may have been carried out or not: the connection ended, or the client's patience
    /// did, before its answer. A caller that has to know reads.
    #[error("whether the transaction was committed is not known")]
    Unknown,
    /// No node could be reached in time.
    #[error("no node could be reached: {0}")]
    Unreachable(String),
    /// No node lets the client in, and none would if it were asked again: one of them, and why.
    #[error("node {node} does not let the client in: {error}")]
    NotLetIn {
        /// The node.
        node: NodeId,
        /// Why.
        error: LoginError,
    },
    /// A part of an image, or what holds its versions, is not to be had from the node.
    #[error(transparent)]
    NoImage(#[from] NoImage),
    /// The request is too long: nothing was sent.
    #[error(
        "a request has {MOST_KEYS} keys, and {MOST_REQUEST_BYTES} bytes of keys and values, at most"
    )]
    TooLong,
}

/// The values of keys at one timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The timestamp.
    pub at: EpochTimestamp,
    /// What is under each key that was asked for.
    pub values: BTreeMap<Key, Found>,
}

impl Snapshot {
    /// The value of a key, if it has one.
    #[must_use]
    pub fn value(&self, key: impl AsRef<[u8]>) -> Option<&Bytes> {
        match self.values.get(key.as_ref()) {
            Some(Found::Value(value)) => Some(value),
            _ => None,
        }
    }
}

/// An operation: the key has this value from then on.
#[must_use]
pub fn put(key: impl Into<Key>, value: impl Into<Bytes>) -> Write {
    Write {
        key: key.into(),
        operation: Operation::Value(value.into()),
    }
}

/// An operation: the key has no value from then on.
#[must_use]
pub fn delete(key: impl Into<Key>) -> Write {
    Write {
        key: key.into(),
        operation: Operation::Delete,
    }
}

/// Replies that are waited for, by number. `None` once the connection has ended.
type Waiting = Arc<Mutex<Option<BTreeMap<u64, oneshot::Sender<Reply>>>>>;

fn lock(waiting: &Waiting) -> MutexGuard<'_, Option<BTreeMap<u64, oneshot::Sender<Reply>>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection to one node, with a task for each direction.
#[derive(Debug)]
struct Connection {
    cluster: ClusterId,
    node: NodeId,
    requests: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Waiting,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// The node that is tried next, as a place in the list.
    next_node: usize,
    next_number: u64,
}

/// See the module. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    settings: Arc<Settings>,
    state: Arc<tokio::sync::Mutex<State>>,
}

impl Client {
    /// A client, which connects with its first request.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings: Arc::new(settings),
            state: Arc::default(),
        }
    }

    /// A write-only transaction: all operations, or none. Returns its timestamp once it is on the
    /// disks of all copies.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn put_all(
        &self,
        writes: impl IntoIterator<Item = Write>,
    ) -> Result<EpochTimestamp, ClientError> {
        let request = Request::PutAll(writes.into_iter().collect());
        match self.answer(request, false).await? {
            Answer::Committed(at) => Ok(at),
            Answer::Aborted(reason) => Err(reason.into()),
            Answer::Values(..) => Err(ClientError::Unknown),
        }
    }

    /// A read-only transaction at a timestamp of now: it sees everything that was answered before.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_all<K: Into<Key>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Snapshot, ClientError> {
        let keys = keys.into_iter().map(Into::into).collect();
        self.read(Request::GetLatest(keys)).await
    }

    /// A read-only transaction at this timestamp.
    ///
    /// # Errors
    /// See [`ClientError`]: versions of long ago are collected, those of the future not written.
    pub async fn get_all_at<K: Into<Key>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        at: EpochTimestamp,
    ) -> Result<Snapshot, ClientError> {
        let keys = keys.into_iter().map(Into::into).collect();
        self.read(Request::GetAt(keys, at)).await
    }

    /// The newest value of one key.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get(&self, key: impl Into<Key>) -> Result<Option<Bytes>, ClientError> {
        let key = key.into();
        let snapshot = self.get_all([key.clone()]).await?;
        Ok(snapshot.value(&key).cloned())
    }

    /// The value of one key at this timestamp.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_at(
        &self,
        key: impl Into<Key>,
        at: EpochTimestamp,
    ) -> Result<Option<Bytes>, ClientError> {
        let key = key.into();
        let snapshot = self.get_all_at([key.clone()], at).await?;
        Ok(snapshot.value(&key).cloned())
    }

    /// What the node that the client is connected to says of itself, as lines of a name and a
    /// value each.
    ///
    /// # Errors
    /// When no node can be reached.
    pub async fn status(&self) -> Result<String, ClientError> {
        match self.ask(&Asked::Status, true).await? {
            Reply::Status(lines) => Ok(lines),
            _ => Err(ClientError::Unknown),
        }
    }

    /// Has the node hold every version that is read at the end of an epoch, for as long as the
    /// connection lasts. Returns the epoch, the newest closed one that the node knows, and the
    /// cluster's configuration.
    ///
    /// # Errors
    /// When no node can be reached, or the one that is runs no front end.
    pub async fn hold(&self) -> Result<(Epoch, Configuration), ClientError> {
        match self.ask(&Asked::Hold, true).await? {
            Reply::Held(epoch, configuration) => Ok((epoch, *configuration)),
            Reply::NoImage(why) => Err(why.into()),
            _ => Err(ClientError::Unknown),
        }
    }

    /// A part of the image of a partition at the end of an epoch, from the copy of the node that the
    /// client is connected to: the keys after one.
    ///
    /// # Errors
    /// When no node can be reached, or the one that is has no such image.
    pub async fn image(
        &self,
        partition: usize,
        through: Epoch,
        after: Option<Key>,
    ) -> Result<Image, ClientError> {
        let asked = Asked::Image(partition, through, after);
        match self.ask(&asked, true).await? {
            Reply::Image(image) => Ok(image),
            Reply::NoImage(why) => Err(why.into()),
            _ => Err(ClientError::Unknown),
        }
    }

    /// The cluster, and the node that the client is connected to.
    ///
    /// # Errors
    /// When no node can be reached.
    pub async fn connected(&self) -> Result<(ClusterId, NodeId), ClientError> {
        self.status().await?;
        let state = self.state.lock().await;
        let connection = state.connection.as_ref();
        let identity = connection.map(|connection| (connection.cluster, connection.node));
        identity.ok_or_else(|| ClientError::Unreachable("the connection ended".to_owned()))
    }

    async fn read(&self, request: Request) -> Result<Snapshot, ClientError> {
        match self.answer(request, true).await? {
            Answer::Values(at, values) => Ok(Snapshot {
                at,
                values: values.into_iter().collect(),
            }),
            Answer::Aborted(reason) => Err(reason.into()),
            Answer::Committed(_) => Err(ClientError::Unknown),
        }
    }

    async fn answer(&self, request: Request, reads: bool) -> Result<Answer, ClientError> {
        match self.ask(&Asked::Request(request), reads).await? {
            Reply::Outcome(Outcome::Answered(answer)) => Ok(answer),
            _ => Err(ClientError::Unknown),
        }
    }

    /// Asks, and asks again what has no effect, as long as the client's patience lasts.
    async fn ask(&self, asked: &Asked, again: bool) -> Result<Reply, ClientError> {
        if let Asked::Request(request) = asked {
            request.check().map_err(|_| ClientError::TooLong)?;
        }
        let (mut is_sent, mut elsewhere) = (false, 0);
        let mut last = "no attempt has ended in time".to_owned();
        let attempts = async {
            loop {
                let connection = match self.connection().await {
                    Ok(connection) => connection,
                    Err(NotConnected::NotLetIn(node, error)) => {
                        return Err(ClientError::NotLetIn { node, error });
                    }
                    Err(NotConnected::Unreachable(reasons)) => {
                        last = reasons;
                        coeval_env::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                };
                let replied = self.send(&connection, asked).await;
                if let Some(replied) = replied {
                    is_sent = true;
                    match replied.await {
                        Ok(Reply::Outcome(Outcome::Unknown)) if again => {}
                        // It has no effect there; another node may run one.
                        Ok(reply) if is_of_no_front_end(&reply) => {
                            elsewhere += 1;
                            if elsewhere >= self.settings.nodes.len() {
                                return Ok(reply);
                            }
                            is_sent = false;
                        }
                        Ok(reply) => return Ok(reply),
                        Err(_) if again => {}
                        Err(_) => return Err(ClientError::Unknown),
                    }
                }
                self.drop_connection(&connection).await;
            }
        };
        let outcome = coeval_env::timeout(self.settings.patience, attempts).await;
        match outcome {
            Ok(reply) => reply,
            Err(coeval_env::Elapsed) if is_sent && !again => Err(ClientError::Unknown),
            Err(coeval_env::Elapsed) => Err(ClientError::Unreachable(last)),
        }
    }

    /// Sends a request on a connection; `None` when that has ended, and nothing was sent.
    async fn send(
        &self,
        connection: &Connection,
        asked: &Asked,
    ) -> Option<oneshot::Receiver<Reply>> {
        let number = {
            let mut state = self.state.lock().await;
            state.next_number += 1;
            state.next_number
        };
        let (reply, replied) = oneshot::channel();
        lock(&connection.waiting).as_mut()?.insert(number, reply);
        // The writing task ends with the connection, which then answers all that wait.
        let _ = connection.requests.send(asked.encode(number));
        Some(replied)
    }

    async fn drop_connection(&self, connection: &Arc<Connection>) {
        let mut state = self.state.lock().await;
        let current = state.connection.as_ref();
        if current.is_some_and(|current| Arc::ptr_eq(current, connection)) {
            state.connection = None;
            state.next_node += 1;
        }
    }

    /// The connection, or a new one.
    async fn connection(&self) -> Result<Arc<Connection>, NotConnected> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection
            && lock(&connection.waiting).is_some()
        {
            return Ok(Arc::clone(connection));
        }
        state.connection = None;
        let nodes = &self.settings.nodes;
        let mut reasons = Vec::new();
        let mut refused = Vec::new();
        for _ in 0..nodes.len() {
            let (node, location) = &nodes[state.next_node % nodes.len()];
            let connecting = connect(&self.settings, *node, location);
            match coeval_env::timeout(Duration::from_secs(3), connecting).await {
                Ok(Ok(connection)) => {
                    let connection = Arc::new(connection);
                    state.connection = Some(Arc::clone(&connection));
                    return Ok(connection);
                }
                Ok(Err(error)) => {
                    reasons.push(format!("node {node} at {location}: {error}"));
                    if let ConnectError::Login(error) = error
                        && error.is_lasting()
                    {
                        refused.push((*node, error));
                    }
                }
                Err(coeval_env::Elapsed) => reasons.push(format!("node {node} is silent")),
            }
            state.next_node += 1;
        }
        let by_all = refused.len() == nodes.len();
        Err(match (refused.into_iter().next(), reasons.is_empty()) {
            (Some((node, error)), _) if by_all => NotConnected::NotLetIn(node, error),
            (_, true) => NotConnected::Unreachable("the client knows no node".to_owned()),
            (_, false) => NotConnected::Unreachable(reasons.join("; ")),
        })
    }
}

/// Whether a node answers that it runs no front end.
fn is_of_no_front_end(reply: &Reply) -> bool {
    let answer = Answer::Aborted(Reason::NoFrontEnd);
    *reply == Reply::Outcome(Outcome::Answered(answer))
}

/// Why there is no connection.
#[derive(Debug)]
enum NotConnected {
    /// Every node refuses the login, and would again: one of them, and why.
    NotLetIn(NodeId, LoginError),
    /// What was wrong at each node.
    Unreachable(String),
}

/// Why there is no connection to one node.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error("{0}")]
    Other(String),
}

/// Opens a connection to a node, and logs in.
async fn connect(
    settings: &Settings,
    node: NodeId,
    location: &Location,
) -> Result<Connection, ConnectError> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let other = |error: &dyn std::fmt::Display| ConnectError::Other(error.to_string());
    let checked = settings.security.check(location, false);
    checked.map_err(|error| other(&error))?;
    let addresses = coeval_env::resolve(location).await;
    let addresses = addresses.map_err(|error| other(&error))?;
    let mut reason = "its name has no address".to_owned();
    for address in addresses {
        // A name may stand for another machine.
        if let Err(error) = settings.security.check(&address.into(), false) {
            reason = words(&error);
            continue;
        }
        let stream = match coeval_env::connect(address).await {
            Ok(stream) => stream,
            Err(error) => {
                reason = words(&error);
                continue;
            }
        };
        let secured = settings.security.connect(stream, node).await;
        let mut channel = secured.map_err(ConnectError::Other)?;
        let secret = settings.secret.as_ref();
        let login = login::log_in(&mut channel, &settings.role, secret).await;
        let (cluster, found) = login?;
        if found != node {
            return Err(ConnectError::Other(format!("there is node {found}")));
        }
        return Ok(serve(channel, cluster, node));
    }
    Err(ConnectError::Other(reason))
}

/// Starts the tasks of a connection.
fn serve(channel: Channel, cluster: ClusterId, node: NodeId) -> Connection {
    let (mut reading, writing) = tokio::io::split(channel);
    let (requests, mut requested) = mpsc::unbounded_channel::<Vec<u8>>();
    let waiting: Waiting = Arc::new(Mutex::new(Some(BTreeMap::new())));
    let replies = Arc::clone(&waiting);
    let reader = coeval_env::spawn("replies", async move {
        while let Ok(Some(payload)) = protocol::read(&mut reading, MOST_PAYLOAD).await {
            let Ok((number, reply)) = Reply::decode(payload) else {
                break;
            };
            let mut waiting = lock(&replies);
            let asker = waiting.as_mut().and_then(|waiting| waiting.remove(&number));
            drop(waiting);
            if let Some(waits) = asker {
                // The asker may have gone.
                let _ = waits.send(reply);
            }
        }
        // All that wait hear that there is no reply.
        drop(lock(&replies).take());
    });
    let ends = Arc::clone(&waiting);
    let writer = coeval_env::spawn("requests", async move {
        let mut stream = tokio::io::BufWriter::new(writing);
        let mut batch = Vec::new();
        while requested.recv_many(&mut batch, BATCH).await > 0 {
            let mut is_written = true;
            for request in batch.drain(..) {
                is_written &= protocol::write(&mut stream, &request).await.is_ok();
            }
            if !is_written || stream.flush().await.is_err() {
                drop(lock(&ends).take());
                return;
            }
        }
    });
    Connection {
        cluster,
        node,
        requests,
        waiting,
        tasks: [reader, writer],
    }
}
