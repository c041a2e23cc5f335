//! The threads that run sessions, and which of them takes the next connection.
//!
//! Each worker is a thread with an executor of its own. A session stays on the
//! worker that accepted it: its socket, its buffers and its wake-ups never cross to
//! another core, which for statements of a few microseconds costs as much as the
//! statement. What a shared executor would balance by stealing tasks is balanced
//! here by where connections go: always to the worker with the fewest sessions.
//! Statements that run long let others in between their chunks; what cannot stop
//! halfway, such as a subquery of an expression, gives its thread's place to another
//! thread ([`coeval_env::block_in_place`]), which goes on with the worker's other
//! sessions and connections.
//!
//! ```text
//!   dispatcher ──permit──▶ worker 0 ── accept ──▶ session, session, …
//!              ──permit──▶ worker 1 ── accept ──▶ session, …
//! ```
//!
//! A worker whose thread is kept by something for longer than [`ASLEEP`] is passed over:
//! whoever comes meanwhile, to log in or to cancel what keeps it, is let in by another.
//!
//! Invariant: at most one worker that is awake has a permit, so that the choice of the
//! worker is made with every earlier connection counted.

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

use crate::anteroom::Anteroom;
use crate::metrics::Sheet;
use crate::session;
use crate::shared::Shared;

/// How many more sockets may be on their way in than there may be sessions: to be told
/// that there are too many, or to bring cancel requests.
const ANTEROOM: usize = 64;

/// The threads of a server. Dropped, they end, and their sessions with them.
pub(crate) struct Workers {
    dispatching: JoinHandle<()>,
    threads: Vec<JoinHandle<()>>,
}

/// What a worker needs to take connections.
struct Worker {
    shared: Arc<Shared>,
    listener: Arc<Listener>,
    anteroom: Arc<Anteroom>,
    permits: mpsc::UnboundedReceiver<()>,
    /// Clients of other nodes.
    streams: mpsc::UnboundedReceiver<PeerStream>,
    /// Told this worker's number for each permit it has used.
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

/// When a worker last had time for itself.
struct Beat {
    began: Instant,
    milliseconds: AtomicU64,
}

/// How often a worker says that it is awake.
const BETWEEN_BEATS: Duration = Duration::from_millis(250);

/// Who has not said so for this long is passed over.
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
        let anteroom = Anteroom::new(shared.settings.max_connections + ANTEROOM);
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
                anteroom: Arc::clone(&anteroom),
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

    /// Lets nobody in any more. At most one further connection is accepted, and
    /// told that the server stops.
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

/// Gives out one permit after the other, and the clients of other nodes, for ever.
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
    /// How much there is to do behind it.
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
                // Only a thread itself can give back what is free in its own part of the
                // allocator, and one at rest would never.
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

    /// Lets one in; false when nobody wants to know.
    async fn accept(&mut self) -> bool {
        loop {
            tokio::select! {
                biased;
                // Whoever waits at the door does not keep others waiting.
                Some(stream) = self.streams.recv() => self.begin_elsewhere(stream),
                accepted = self.listener.accept() => {
                    match accepted {
                        Ok((stream, peer)) => self.begin(stream, peer),
                        Err(error) => {
                            // Out of file descriptors, most likely; they come back.
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
        let seat = self.anteroom.enter();
        let shared = Arc::clone(&self.shared);
        let sheet = Arc::clone(&self.sheet);
        self.spawn(session::serve(shared, stream, peer, sheet, seat));
    }

    /// A session whose client is at another node.
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
        // A panic ends its session and no other; here it gets its line in the log.
        coeval_env::spawn("session watch", async move {
            if let Err(coeval_env::JoinError::Panicked(message)) = serving.await {
                error!(message, "a session ended by a mistake of this program");
            }
        });
    }
}

/// One session of a worker, while it lasts.
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
