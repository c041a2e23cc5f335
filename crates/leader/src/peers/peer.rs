//! Another member: what waits for it, what came from it, what is known of it.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::counters::{Counters, PeerStatus, Traffic};
use super::identity::NodeId;
use super::queue::Queue;
use super::settings::Settings;

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) node: NodeId,
    address: Mutex<SocketAddr>,
    pub(super) queue: Queue,
    pub(super) counters: Counters,
    /// Bytes that may still be received before somebody takes care of some.
    room: Arc<Semaphore>,
    /// There is reason to try a connection before its time.
    pub(super) awake: Notify,
}

impl Peer {
    pub(super) fn new(node: NodeId, address: SocketAddr, settings: &Settings) -> Self {
        Self {
            node,
            address: Mutex::new(address),
            queue: Queue::new(settings.queue_bytes, settings.frame_bytes),
            counters: Counters::default(),
            room: Arc::new(Semaphore::new(settings.receive_bytes)),
            awake: Notify::new(),
        }
    }

    fn locked(&self) -> MutexGuard<'_, SocketAddr> {
        self.address.lock().expect("no panic under this lock")
    }

    pub(super) fn address(&self) -> SocketAddr {
        *self.locked()
    }

    /// It listens elsewhere from now on. A connection that stands is not touched.
    pub(super) fn move_to(&self, address: SocketAddr) {
        let before = std::mem::replace(&mut *self.locked(), address);
        if before != address {
            self.awake.notify_one();
        }
    }

    /// Waits until so many bytes may be received.
    pub(super) async fn receive_room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Arc::clone(&self.room).acquire_many_owned(bytes).await.ok()
    }

    pub(super) fn status(&self) -> PeerStatus {
        let counters = &self.counters;
        let (frames, bytes) = self.queue.depth();
        let notes = counters.notes();
        PeerStatus {
            node: self.node,
            address: self.address(),
            connection: notes.connection.clone(),
            fault: notes.fault.clone(),
            fault_of_its: notes.fault_of_its.clone(),
            sent: counters.sent.read(),
            received: counters.received.read(),
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
        }
    }
}
