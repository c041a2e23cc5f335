//! Streams to the node that leads: for a session, and for a cancel request.

use std::time::Duration;

use bytes::BytesMut;
use coeval_peers::{NodeId, PeerStream, Streams};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tracing::debug;

use super::super::opening;
use super::Side;
use crate::serving_term::Lead;

/// Timeout of a node's answer whether it leads.
const OPENING: Duration = Duration::from_secs(3);
/// The connection to the node where the session runs.
pub(in crate::session) struct Leader {
    pub(super) node: NodeId,
    pub(super) side: Side<tokio::io::WriteHalf<PeerStream>>,
    pub(in crate::session) read: tokio::io::ReadHalf<PeerStream>,
    pub(super) came: BytesMut,
}

/// Opens a stream for a session; `None` when that node cannot be reached or does not
/// lead, or when another leader becomes known meanwhile: a hanging node would not answer
/// at all.
pub(in crate::session) async fn open_unless_replaced(
    streams: &Streams,
    node: NodeId,
    opening: &[u8],
    leads: &watch::Receiver<Lead>,
) -> Option<Leader> {
    let opened = open_or_refused(streams, node, opening, leads);
    opened.await.ok()
}

/// [`open_unless_replaced`], with the node's answer if it is another one than that it leads.
pub(in crate::session) async fn open_or_refused(
    streams: &Streams,
    node: NodeId,
    opening: &[u8],
    leads: &watch::Receiver<Lead>,
) -> Result<Leader, Option<u8>> {
    let mut now = leads.clone();
    let elsewhere = |lead: &Lead| match lead {
        Lead::There(other) => *other != node,
        Lead::Here(_) | Lead::Nowhere => true,
    };
    tokio::select! {
        biased;
        opened = open(streams, node, opening) => opened,
        _ = now.wait_for(elsewhere) => Err(None),
    }
}

async fn open(streams: &Streams, node: NodeId, opening: &[u8]) -> Result<Leader, Option<u8>> {
    let opened = coeval_env::timeout(OPENING, begin(streams, node, opening)).await;
    opened.unwrap_or(Err(None))
}

async fn begin(streams: &Streams, node: NodeId, opening: &[u8]) -> Result<Leader, Option<u8>> {
    let mut stream = match streams.open(node).await {
        Ok(stream) => stream,
        Err(error) => {
            debug!(leader = %node, %error, "no stream to the leader");
            return Err(None);
        }
    };
    let answered = async {
        stream.write_all(opening).await?;
        stream.flush().await?;
        stream.read_u8().await
    };
    match answered.await {
        Ok(opening::ACCEPTED) => {}
        Ok(other) => return Err(Some(other)),
        Err(_) => return Err(None),
    }
    let (read, write) = tokio::io::split(stream);
    Ok(Leader {
        node,
        side: Side::new(write, Vec::new()),
        read,
        came: BytesMut::new(),
    })
}

/// Cancels the statement of a session that runs on `leader`.
pub(in crate::session) async fn cancel(
    streams: &Streams,
    leader: NodeId,
    process_id: i32,
    secret: &[u8],
) {
    if let Ok(mut stream) = streams.open(leader).await {
        // A cancel request has no answer, so its sender does not learn whether it
        // arrived.
        let _ = stream.write_all(&opening::cancel(process_id, secret)).await;
        let _ = stream.shutdown().await;
    }
}
