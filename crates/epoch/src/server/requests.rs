//! Requests of clients on their way to the step function, bounded in bytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::driver::Input;
use super::status::Status;
use crate::answer::Answer;
use crate::operation::{Key, Write};
use crate::timestamp::EpochTimestamp;

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

/// Most bytes of a request: it is to fit into a message between nodes.
const MOST_REQUEST: usize = 4 << 20;
/// Bytes that an element of a request takes beside its contents, about.
const ELEMENT_BYTES: usize = 64;

impl Request {
    pub(super) fn is_too_long(&self) -> bool {
        self.bytes() > MOST_REQUEST
    }

    fn bytes(&self) -> usize {
        let keys = |keys: &[Key]| keys.iter().map(|key| key.len() + ELEMENT_BYTES).sum();
        match self {
            Self::PutAll(writes) => {
                let writes = writes.iter();
                let bytes = |write: &Write| write.key.len() + write.operation.len() + ELEMENT_BYTES;
                writes.map(bytes).sum()
            }
            Self::GetLatest(asked) | Self::GetAt(asked, _) => keys(asked),
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
    _room: OwnedSemaphorePermit,
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
        let bytes = u32::try_from(request.bytes()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room);
        let Ok(room) = room.acquire_many_owned(bytes.min(self.most)).await else {
            return Outcome::Unknown;
        };
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

    /// What the node says of itself; `None` once it has ended.
    pub(crate) async fn status(&self) -> Option<Status> {
        let (answer, answered) = oneshot::channel();
        let _ = self.inputs.send(Input::Status(answer));
        answered.await.ok()
    }
}
