//! COPY FROM STDIN in a script: sends the lines after the statement, up to `\.`, as data.

use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use tokio_postgres::{Client, CopyInSink, Error};

/// Size of the send buffer, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// A COPY that receives its data.
pub(super) struct Copying {
    /// `None` when the server refused the statement: its data is skipped, because it is
    /// no SQL.
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
    /// Starts the COPY; also returns the server's error, if it refused the statement.
    pub(super) async fn begin(client: &Client, statement: &str) -> (Self, Result<(), Error>) {
        let (sink, begun) = match client.copy_in(statement).await {
            Ok(sink) => (Some(Box::pin(sink)), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let buffer = BytesMut::new();
        (Self { sink, buffer }, begun)
    }

    /// Handles one line. At the last one, returns the number of copied rows; `None` for a
    /// COPY that the server refused.
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
