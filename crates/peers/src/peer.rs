//! The state of one other member: its send queue, receive budget, streams and counters.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use coeval_env::Location;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::counters::{Counters, PeerStatus, StreamCounters, StreamStatus, Traffic, count};
use crate::frame::Kinds;
use crate::identity::NodeId;
use crate::queue::Queue;
use crate::refusal::{Reason, Refusal};
use crate::settings::Settings;
use crate::stream::Cut;

/// Streams with one node.
#[derive(Debug)]
pub(crate) struct StreamsOf {
    pub(crate) counters: Arc<StreamCounters>,
    pub(crate) cut: Cut,
    /// Slots for streams that the node opens.
    places: Arc<Semaphore>,
    /// Slots for those of them that this node has not taken yet.
    waiting: Arc<Semaphore>,
    most_waiting: usize,
}

impl StreamsOf {
    fn new(settings: &Settings) -> Self {
        Self {
            counters: Arc::default(),
            cut: Cut::new(),
            places: Arc::new(Semaphore::new(settings.streams)),
            waiting: Arc::new(Semaphore::new(settings.streams_waiting)),
            most_waiting: settings.streams_waiting,
        }
    }

    /// Reserves a slot for a stream that the node opens, and a slot among the waiting
    /// streams.
    pub(crate) fn place(&self) -> Result<(OwnedSemaphorePermit, OwnedSemaphorePermit), Refusal> {
        let busy = |words: &str| {
            count(&self.counters.busy);
            Refusal::new(Reason::Busy, words)
        };
        let waits = Arc::clone(&self.waiting).try_acquire_owned();
        let waits = waits.map_err(|_| {
            busy("too many streams of this node wait to be taken already (streams_waiting)")
        })?;
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| busy("this node has too many streams already (streams)"))?;
        Ok((place, waits))
    }

    fn status(&self) -> StreamStatus {
        let waiting = self.most_waiting - self.waiting.available_permits();
        StreamStatus {
            open: self.counters.open.load(Relaxed),
            waiting: waiting as u64,
            opened: self.counters.opened.load(Relaxed),
            failed: self.counters.failed.load(Relaxed),
            let_in: self.counters.let_in.load(Relaxed),
            busy: self.counters.busy.load(Relaxed),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) kinds: Kinds,
    address: Mutex<Location>,
    pub(crate) queue: Queue,
    pub(crate) counters: Counters,
    /// Bytes that may be received before this node has handled earlier frames.
    room: Arc<Semaphore>,
    /// Wakes the dialler before its backoff is over.
    pub(crate) awake: Notify,
    /// Reconnects, because the contents of this node's hello have changed.
    pub(crate) renewed: Notify,
    pub(crate) streams: StreamsOf,
}

impl Peer {
    pub(crate) fn new(node: NodeId, address: Location, settings: &Settings, kinds: Kinds) -> Self {
        Self {
            node,
            kinds,
            address: Mutex::new(address),
            queue: Queue::new(settings.queue_bytes, settings.frame_bytes, kinds),
            counters: Counters::default(),
            room: Arc::new(Semaphore::new(settings.receive_bytes)),
            awake: Notify::new(),
            renewed: Notify::new(),
            streams: StreamsOf::new(settings),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Location> {
        self.address.lock().expect("no panic under this lock")
    }

    pub(crate) fn address(&self) -> Location {
        self.locked().clone()
    }

    /// Sets the address for future connections. An open connection is not touched.
    pub(crate) fn move_to(&self, address: &Location) {
        let before = std::mem::replace(&mut *self.locked(), address.clone());
        if before != *address {
            self.awake.notify_one();
        }
    }

    /// Waits until this many bytes may be received.
    pub(crate) async fn receive_room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Arc::clone(&self.room).acquire_many_owned(bytes).await.ok()
    }

    /// Ends the node's streams if the node has been silent for `silence`. The tasks call
    /// this when a frame connection has ended or could not be made.
    pub(crate) fn cut_if_silent(&self, silence: Duration) {
        let heard = self.counters.notes().heard;
        if heard.is_none_or(|heard| heard.elapsed() >= silence) {
            self.streams.cut.cut();
        }
    }

    pub(crate) fn status(&self) -> PeerStatus {
        let counters = &self.counters;
        let (frames, bytes) = self.queue.depth();
        let notes = counters.notes();
        PeerStatus {
            node: self.node,
            address: self.address(),
            connection: notes.connection.clone(),
            fault: notes.fault.clone(),
            refusal: notes.refusal,
            fault_of_its: notes.fault_of_its.clone(),
            newcomer: notes.newcomer,
            announced: notes.announced,
            sent: counters.sent.read(),
            received: counters.received.read(),
            skipped: counters.skipped.load(Relaxed),
            queued: Traffic {
                frames: frames as u64,
                bytes: bytes as u64,
            },
            dropped: counters.dropped.load(Relaxed),
            forgotten: counters.forgotten.load(Relaxed),
            full: counters.full.load(Relaxed),
            connects: counters.connects.load(Relaxed),
            failures: counters.failures.load(Relaxed),
            heard: notes.heard,
            round_trip: notes.round_trip,
            streams: self.streams.status(),
        }
    }
}
