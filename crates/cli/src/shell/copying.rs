//! COPY FROM STDIN in a script: the lines behind the statement, up to `\.`, are data.

use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use tokio_postgres::{Client, CopyInSink, Error};

/// What is gathered before it is sent.
const BUFFER_BYTES: usize = 64 << 10;

/// A copy that is waiting for its data.
pub(super) struct Copying {
    /// `None` when the server did not accept the statement: its data is passed over,
    /// for it is no SQL.
    sink: Option<Pin<Box<CopyInSink<Bytes>>>>,
    buffer: BytesMut,
}

impl std::fmt::Debug for Copying {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Copying")
            .field("accepted", &self.sink.is_some())
            .finish_non_exhaustive()
    }
}

impl Copying {
    /// Begins; also says why the server does not want it, if so.
    pub(super) async fn begin(client: &Client, statement: &str) -> (Self, Result<(), Error>) {
        let (sink, begun) = match client.copy_in(statement).await {
            Ok(sink) => (Some(Box::pin(sink)), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let buffer = BytesMut::new();
        (Self { sink, buffer }, begun)
    }

    /// Takes one line. At the last one, says how many rows were copied; of a copy
    /// that was never accepted, nothing.
    pub(super) async fn line(&mut self, line: &str) -> Option<Result<Option<u64>, Error>> {
        let last = line.trim_end_matches('\r') == "\\.";
        let Some(sink) = &mut self.sink else {
            return last.then_some(Ok(None));
        };
        if !last {
            self.buffer.extend_from_slice(line.as_bytes());
            self.buffer.extend_from_slice(b"\n");
        }
        if last || self.buffer.len() >= BUFFER_BYTES {
            let sent = sink.send(self.buffer.split().freeze()).await;
            if let Err(error) = sent {
                self.sink = None;
                return Some(Err(error));
            }
        }
        if last {
            return Some(sink.as_mut().finish().await.map(Some));
        }
        None
    }
}
