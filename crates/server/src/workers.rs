//! The threads that run sessions, and which of them takes the next connection.
//!
//! Each worker is a thread with an executor of its own. A session stays on the
//! worker that accepted it: its socket, its buffers and its wake-ups never cross to
//! another core, which for statements of a few microseconds costs as much as the
//! statement. What a shared executor would balance by stealing tasks is balanced
//! here by where connections go: always to the worker with the fewest sessions.
//! Statements that run long let others in between their chunks.
//!
//! ```text
//!   dispatcher ──permit──▶ worker 0 ── accept ──▶ session, session, …
//!              ──permit──▶ worker 1 ── accept ──▶ session, …
//! ```
//!
//! Invariant: there is at most one permit at a time, so that the choice of the
//! worker is made with every earlier connection counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coeval_env::{JoinHandle, Listener, Stream};
use coeval_memory::heap;
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
    used: mpsc::UnboundedSender<()>,
    sessions: Arc<AtomicUsize>,
    sheet: Arc<Sheet>,
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
        for _ in 0..count {
            let (permit, permits) = mpsc::unbounded_channel();
            let sessions = Arc::new(AtomicUsize::new(0));
            let worker = Worker {
                shared: Arc::clone(shared),
                listener: Arc::clone(&listener),
                anteroom: Arc::clone(&anteroom),
                permits,
                used: used.clone(),
                sessions: Arc::clone(&sessions),
                sheet: shared.metrics.sheet(),
            };
            threads.push(coeval_env::spawn_dedicated("worker", || worker.run()));
            doors.push((permit, sessions));
        }
        Self {
            dispatching: coeval_env::spawn("dispatcher", dispatch(doors, was_used)),
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

/// Gives out one permit after the other, for ever.
async fn dispatch(
    doors: Vec<(mpsc::UnboundedSender<()>, Arc<AtomicUsize>)>,
    mut was_used: mpsc::UnboundedReceiver<()>,
) {
    loop {
        let emptiest = doors
            .iter()
            .min_by_key(|(_, sessions)| sessions.load(Ordering::Relaxed));
        let Some((permit, _)) = emptiest else { return };
        if permit.send(()).is_err() || was_used.recv().await.is_none() {
            return;
        }
    }
}

/// How often a worker's own part of the allocator gives back what is free in it: only
/// its thread can, and one at rest would never.
const BETWEEN_GIVING_BACK: Duration = Duration::from_millis(250);

impl Worker {
    async fn run(mut self) {
        if heap::bytes().is_some() {
            coeval_env::spawn("allocator", async {
                loop {
                    coeval_env::sleep(BETWEEN_GIVING_BACK).await;
                    heap::give_back();
                }
            });
        }
        while self.permits.recv().await.is_some() {
            match self.listener.accept().await {
                Ok((stream, peer)) => self.begin(stream, peer),
                Err(error) => {
                    // Out of file descriptors, most likely; they come back.
                    warn!(%error, "a connection could not be accepted");
                    coeval_env::sleep(Duration::from_millis(100)).await;
                }
            }
            if self.used.send(()).is_err() {
                break;
            }
        }
        // The sessions live as long as their thread.
        std::future::pending().await
    }

    fn begin(&self, stream: Stream, peer: SocketAddr) {
        let seat = self.anteroom.enter();
        let counted = Counted::new(&self.sessions);
        let shared = Arc::clone(&self.shared);
        let sheet = Arc::clone(&self.sheet);
        let serving = coeval_env::spawn("session", async move {
            session::serve(shared, stream, peer, sheet, seat).await;
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
