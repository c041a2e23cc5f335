//! Requests of clients on their way to the step function, bounded in bytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::driver::Input;
use super::status::Status;
use crate::answer::Answer;
use crate::back_end::{Image, NoImage};
use crate::configuration::Configuration;
use crate::message::Refusal;
use crate::operation::{Key, Write};
use crate::timestamp::{Epoch, EpochTimestamp};

/// What a client asks of a front end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A write-only transaction.
    PutAll(Vec<Write>),
    /// A read-only transaction at a timestamp of now.
    GetLatest(Vec<Key>),
    /// A read-only transaction at this timestamp.
    GetAt(Vec<Key>, EpochTimestamp),
}

/// Most keys of a request, so that a front end's step stays short.
pub const MOST_KEYS: usize = 65_536;
/// Most bytes of a request's keys and values, so that it fits into a message between nodes.
pub const MOST_REQUEST_BYTES: usize = 4 << 20;
/// Bytes that a key of a request takes beside its contents, about.
const KEY_BYTES: usize = 64;

impl Request {
    /// Whether a front end takes it: it has [`MOST_KEYS`] and [`MOST_REQUEST_BYTES`] at most.
    ///
    /// # Errors
    /// When it is too long.
    pub fn check(&self) -> Result<(), Refusal> {
        match self.keys() <= MOST_KEYS && self.bytes() <= MOST_REQUEST_BYTES {
            true => Ok(()),
            false => Err(Refusal::TooLong),
        }
    }

    fn keys(&self) -> usize {
        match self {
            Self::PutAll(writes) => writes.len(),
            Self::GetLatest(keys) | Self::GetAt(keys, _) => keys.len(),
        }
    }

    /// Bytes of its keys and values.
    fn bytes(&self) -> usize {
        match self {
            Self::PutAll(writes) => {
                let writes = writes.iter();
                let bytes = |write: &Write| write.key.len() + write.operation.len();
                writes.map(bytes).sum()
            }
            Self::GetLatest(keys) | Self::GetAt(keys, _) => keys.iter().map(Key::len).sum(),
        }
    }
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The front end's answer.
    Answered(Answer),
    /// The front end began anew, or ended, before its answer: a write may have been carried out.
    Unknown,
}

/// A request that is under way: it is dropped with its answer.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) answer: oneshot::Sender<Answer>,
    _room: Room,
}

/// The room that a request takes until it is answered; none for one that is refused at once.
#[derive(Debug)]
pub(super) struct Room(#[expect(dead_code, reason = "held")] Option<OwnedSemaphorePermit>);

/// What a node's front end holds for a backup: versions that are read at the end of an epoch. It is
/// let go when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    pub(super) epoch: Epoch,
    pub(super) configuration: Arc<Configuration>,
    pub(super) number: u64,
    pub(super) inputs: mpsc::UnboundedSender<Input>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // A node that has ended holds nothing.
        let _ = self.inputs.send(Input::LetGo(self.number));
    }
}

/// A part of an image that is asked for: of a partition at the end of an epoch, after a key.
#[derive(Debug)]
pub(crate) struct ImageAsked {
    pub(super) of: (usize, Epoch),
    pub(super) after: Option<Key>,
    pub(super) answer: oneshot::Sender<Result<Image, NoImage>>,
}

/// The way to a node's step function. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    inputs: mpsc::UnboundedSender<Input>,
    room: Arc<Semaphore>,
    most: u32,
}

impl Requests {
    pub(super) fn new(inputs: mpsc::UnboundedSender<Input>, most: u32) -> Self {
        Self {
            inputs,
            room: Arc::new(Semaphore::new(most as usize)),
            most,
        }
    }

    /// Waits for room, then for the answer.
    pub(crate) async fn ask(&self, request: Request) -> Outcome {
        match self.room(&request).await {
            Some(room) => self.ask_in(request, room).await,
            None => Outcome::Unknown,
        }
    }

    /// Waits for a request's room; `None` once the node has ended. One that is too long takes
    /// none, and waits for none.
    pub(super) async fn room(&self, request: &Request) -> Option<Room> {
        if request.check().is_err() {
            return Some(Room(None));
        }
        let bytes = request.bytes() + request.keys() * KEY_BYTES;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.most);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await;
        room.ok().map(|room| Room(Some(room)))
    }

    /// Waits for the answer of a request that has its room.
    pub(super) async fn ask_in(&self, request: Request, room: Room) -> Outcome {
        let (answer, answered) = oneshot::channel();
        let under_way = UnderWay {
            answer,
            _room: room,
        };
        // A node that has ended drops what it is sent, and so answers.
        let _ = self.inputs.send(Input::Request(request, under_way));
        let answered = answered.await;
        answered.map_or(Outcome::Unknown, Outcome::Answered)
    }

    /// Has the front end hold what is read at the end of the newest closed epoch.
    pub(super) async fn hold(&self) -> Option<Held> {
        let (answer, answered) = oneshot::channel();
        let _ = self.inputs.send(Input::Hold(answer));
        answered.await.ok().flatten()
    }

    /// A part of a partition's image.
    pub(super) async fn image(
        &self,
        of: (usize, Epoch),
        after: Option<Key>,
    ) -> Result<Image, NoImage> {
        let (answer, answered) = oneshot::channel();
        let asked = ImageAsked { of, after, answer };
        let _ = self.inputs.send(Input::Image(asked));
        answered.await.unwrap_or(Err(NoImage::NotHere))
    }

    /// What the node says of itself; `None` once it has ended.
    pub(crate) async fn status(&self) -> Option<Status> {
        let (answer, answered) = oneshot::channel();
        let _ = self.inputs.send(Input::Status(answer));
        answered.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::operation::Operation;

    fn puts(count: usize, value_bytes: usize) -> Request {
        let write = Write {
            key: Bytes::new(),
            operation: Operation::Value(vec![7; value_bytes].into()),
        };
        Request::PutAll(vec![write; count])
    }

    #[test]
    fn a_request_has_so_many_keys_and_bytes_at_most() {
        puts(4, 1 << 20).check().unwrap();
        puts(MOST_KEYS, 64).check().unwrap();
        Request::GetLatest(vec![Key::new(); MOST_KEYS])
            .check()
            .unwrap();
        assert_eq!(puts(5, 1 << 20).check(), Err(Refusal::TooLong));
        assert_eq!(puts(MOST_KEYS + 1, 0).check(), Err(Refusal::TooLong));
        let keys = Request::GetAt(vec![Key::new(); MOST_KEYS + 1], EpochTimestamp::default());
        assert_eq!(keys.check(), Err(Refusal::TooLong));
    }

    /// Beyond the bytes that may be under way a request waits, and one that is refused does not.
    #[test]
    fn requests_wait_for_room_and_refusals_do_not() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        runtime.block_on(async {
            let (inputs, _received) = mpsc::unbounded_channel();
            let requests = Requests::new(inputs, 1 << 20);
            let first = requests.room(&puts(1, 900 << 10)).await.unwrap();
            let small = puts(1, 200 << 10);
            let mut second = std::pin::pin!(requests.room(&small));
            tokio::select! {
                biased;
                _ = &mut second => panic!("there is no room"),
                () = std::future::ready(()) => {}
            }
            assert!(requests.room(&puts(5, 1 << 20)).await.is_some());
            drop(first);
            assert!(second.await.is_some());
        });
    }
}
