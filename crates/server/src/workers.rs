//! The worker threads: run sessions, and choose the worker that accepts the next
//! connection.
//!
//! Each worker is a thread with an executor of its own. A session stays on the worker
//! that accepted it: its socket, its buffers and its wake-ups never move to another core,
//! which for statements of a few microseconds costs as much as the statement. Where a
//! shared executor would balance the load by stealing tasks, the dispatcher balances it
//! here: each connection goes to the worker with the fewest sessions. Long statements
//! yield between chunks; work that cannot yield, such as a subquery of an expression,
//! hands the worker's executor to another thread ([`coeval_env::block_in_place`]), which
//! continues with the worker's other sessions and connections.
//!
//! ```text
//!   dispatcher ──permit──▶ worker 0 ── accept ──▶ session, session, …
//!              ──permit──▶ worker 1 ── accept ──▶ session, …
//! ```
//!
//! The dispatcher passes over a worker whose thread has been blocked for longer than
//! [`ASLEEP`]: another worker accepts clients that log in, or cancel the blocking
//! statement.
//!
//! Invariant: at most one worker that is awake has a permit, so that the choice of the
//! worker counts every earlier connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use coeval_env::{Instant, JoinHandle, Listener, Stream};
use coeval_leader::node::Node;
use coeval_memory::heap;
use coeval_peers::PeerStream;
use tokio::sync::mpsc;
use tracing::{error, warn};

use crate::metrics::Sheet;
use crate::pending_connections::PendingConnections;
use crate::session;
use crate::shared::Shared;

/// Number of sockets before login beyond the session limit: they are refused with an
/// error, or bring cancel requests.
const PENDING_CONNECTIONS: usize = 64;

/// The threads of a server. When this is dropped, they end, and their sessions with them.
pub(crate) struct Workers {
    dispatching: JoinHandle<()>,
    threads: Vec<JoinHandle<()>>,
}

/// The state of a worker thread that accepts connections.
struct Worker {
    shared: Arc<Shared>,
    listener: Arc<Listener>,
    pending_connections: Arc<PendingConnections>,
    permits: mpsc::UnboundedReceiver<()>,
    /// Streams of clients that are connected to other nodes.
    streams: mpsc::UnboundedReceiver<PeerStream>,
    /// Receives this worker's number for each permit that it has used.
    used: mpsc::UnboundedSender<usize>,
    number: usize,
    sessions: Arc<AtomicUsize>,
    beat: Arc<Beat>,
    sheet: Arc<Sheet>,
}

/// A worker, as the dispatcher sees it.
struct Door {
    permit: mpsc::UnboundedSender<()>,
    stream: mpsc::UnboundedSender<PeerStream>,
    sessions: Arc<AtomicUsize>,
    beat: Arc<Beat>,
    has_permit: bool,
}

/// The heartbeat of a worker: when its executor last ran.
struct Beat {
    began: Instant,
    milliseconds: AtomicU64,
}

/// Interval of the heartbeat.
const BETWEEN_BEATS: Duration = Duration::from_millis(250);

/// Age of the last heartbeat from which the dispatcher passes over a worker.
const ASLEEP: Duration = Duration::from_secs(1);

impl Beat {
    fn new() -> Self {
        Self {
            began: coeval_env::now(),
            milliseconds: AtomicU64::new(0),
        }
    }

    fn milliseconds(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn beat(&self) {
        self.milliseconds
            .store(self.milliseconds(), Ordering::Relaxed);
    }

    fn is_awake(&self) -> bool {
        let last = self.milliseconds.load(Ordering::Relaxed);
        self.milliseconds().saturating_sub(last) < ASLEEP.as_millis() as u64
    }
}

impl Workers {
    /// Starts as many workers as the settings say.
    pub(crate) fn start(shared: &Arc<Shared>, listener: Listener) -> Self {
        let count = shared.settings.workers();
        let listener = Arc::new(listener);
        let pending_connections =
            PendingConnections::new(shared.settings.max_connections + PENDING_CONNECTIONS);
        let (used, was_used) = mpsc::unbounded_channel();
        let mut threads = Vec::new();
        let mut doors = Vec::new();
        for number in 0..count {
            let (permit, permits) = mpsc::unbounded_channel();
            let (stream, streams) = mpsc::unbounded_channel();
            let sessions = Arc::new(AtomicUsize::new(0));
            let beat = Arc::new(Beat::new());
            let worker = Worker {
                shared: Arc::clone(shared),
                listener: Arc::clone(&listener),
                pending_connections: Arc::clone(&pending_connections),
                permits,
                streams,
                used: used.clone(),
                number,
                sessions: Arc::clone(&sessions),
                beat: Arc::clone(&beat),
                sheet: shared.metrics.sheet(),
            };
            threads.push(coeval_env::spawn_executor("worker", worker.run()));
            doors.push(Door {
                permit,
                stream,
                sessions,
                beat,
                has_permit: false,
            });
        }
        Self {
            dispatching: coeval_env::spawn(
                "dispatcher",
                dispatch(doors, was_used, Arc::clone(shared)),
            ),
            threads,
        }
    }

    /// Stops accepting connections. At most one further connection is accepted, and
    /// refused because the server stops.
    pub(crate) fn close(&self) {
        self.dispatching.abort();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.dispatching.abort();
        self.threads.iter().for_each(JoinHandle::abort);
    }
}

/// Gives out one permit after the other, and the streams of other nodes' clients, for
/// ever.
async fn dispatch(
    mut doors: Vec<Door>,
    mut was_used: mpsc::UnboundedReceiver<usize>,
    shared: Arc<Shared>,
) {
    let mut streams = shared.node.as_deref().map(Node::streams);
    loop {
        let is_held = doors
            .iter()
            .any(|door| door.has_permit && door.beat.is_awake());
        if !is_held {
            let free = doors.iter_mut().filter(|door| !door.has_permit);
            if let Some(door) = free.min_by_key(|door| door.load()) {
                if door.permit.send(()).is_err() {
                    return;
                }
                door.has_permit = true;
            }
        }
        let stream = async {
            match &streams {
                Some(streams) => streams.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            used = coeval_env::timeout(BETWEEN_BEATS, was_used.recv()) => match used {
                Ok(Some(number)) => doors[number].has_permit = false,
                Ok(None) => return,
                Err(coeval_env::Elapsed) => {}
            },
            stream = stream => match stream {
                Some((_, stream)) => {
                    let emptiest = doors.iter().min_by_key(|door| door.load());
                    if emptiest.is_some_and(|door| door.stream.send(stream).is_err()) {
                        return;
                    }
                }
                // The node has ended.
                None => streams = None,
            },
        }
    }
}

impl Door {
    /// The load of the worker, for comparison: a blocked worker counts as the most
    /// loaded.
    fn load(&self) -> (bool, usize) {
        (!self.beat.is_awake(), self.sessions.load(Ordering::Relaxed))
    }
}

impl Worker {
    async fn run(mut self) {
        let beat = Arc::clone(&self.beat);
        coeval_env::spawn("beat", async move {
            loop {
                beat.beat();
                // A thread's free memory in the allocator can be given back by that
                // thread only, and an idle one would never do so.
                if heap::bytes().is_some() {
                    heap::give_back();
                }
                coeval_env::sleep(BETWEEN_BEATS).await;
            }
        });
        loop {
            tokio::select! {
                biased;
                stream = self.streams.recv() => match stream {
                    Some(stream) => self.begin_elsewhere(stream),
                    None => break,
                },
                permit = self.permits.recv() => {
                    if permit.is_none() || !self.accept().await {
                        break;
                    }
                }
            }
        }
        // The sessions live as long as their thread.
        std::future::pending().await
    }

    /// Accepts one connection; false when the dispatcher is gone.
    async fn accept(&mut self) -> bool {
        loop {
            tokio::select! {
                biased;
                // A stream of another node does not use up the permit, so clients at the
                // listener still get theirs.
                Some(stream) = self.streams.recv() => self.begin_elsewhere(stream),
                accepted = self.listener.accept() => {
                    match accepted {
                        Ok((stream, peer)) => self.begin(stream, peer),
                        // The listener's runtime may have ended already.
                        Err(_) if self.shared.registry.is_closed() => return false,
                        Err(error) => {
                            // Most likely the process has no free file descriptors;
                            // others will be closed.
                            warn!(%error, "a connection could not be accepted");
                            coeval_env::sleep(Duration::from_millis(100)).await;
                        }
                    }
                    return self.used.send(self.number).is_ok();
                }
            }
        }
    }

    fn begin(&self, stream: Stream, peer: SocketAddr) {
        let slot = self.pending_connections.enter();
        let shared = Arc::clone(&self.shared);
        let sheet = Arc::clone(&self.sheet);
        self.spawn(session::serve(shared, stream, peer, sheet, slot));
    }

    /// Starts a session whose client is connected to another node.
    fn begin_elsewhere(&self, stream: PeerStream) {
        let shared = Arc::clone(&self.shared);
        let sheet = Arc::clone(&self.sheet);
        self.spawn(session::serve_elsewhere(shared, stream, sheet));
    }

    fn spawn(&self, session: impl Future<Output = ()> + Send + 'static) {
        let counted = Counted::new(&self.sessions);
        let serving = coeval_env::spawn("session", async move {
            session.await;
            drop(counted);
        });
        // A panic ends its session and no other; this task logs it.
        coeval_env::spawn("session watch", async move {
            if let Err(coeval_env::JoinError::Panicked(message)) = serving.await {
                error!(message, "a session ended by a mistake of this program");
            }
        });
    }
}

/// Counts one session of a worker, while it lasts.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(sessions: &Arc<AtomicUsize>) -> Self {
        sessions.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(sessions))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
