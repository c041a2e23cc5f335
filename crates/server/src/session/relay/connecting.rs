//! Streams to the node that leads: for a session, and for a cancel request.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use coeval_peers::{NodeId, PeerStream, Streams};
use coeval_pgwire::frame::{HEADER, kind};
use coeval_sql::{Error, SqlState};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tracing::debug;

use super::super::opening;
use super::super::tracker::answer;
use super::{Side, frame, poll_read, whole};
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
    tokio::select! {
        biased;
        opened = open(streams, node, opening) => opened,
        () = replaced(leads.clone(), node) => Err(None),
    }
}

/// Returns once this node is not the leader that is known.
async fn replaced(mut leads: watch::Receiver<Lead>, node: NodeId) {
    let elsewhere = |lead: &Lead| match lead {
        Lead::There(other) => *other != node,
        Lead::Here(_) | Lead::Nowhere => true,
    };
    // Without a sender the server has ended, and nothing leads.
    let _ = leads.wait_for(elsewhere).await;
}

/// How a session has begun on its first leader.
pub(super) enum Begun {
    Session(Leader),
    /// The leader, or the role, has as many sessions as it may.
    Full(Error),
}

/// Waits until the leader has begun a session that it does not know; `None` when the leader is
/// lost, or another one becomes known meanwhile.
pub(super) async fn begun_unless_replaced(
    leader: Leader,
    leads: &watch::Receiver<Lead>,
) -> Option<Begun> {
    let replaced = replaced(leads.clone(), leader.node);
    tokio::select! {
        biased;
        begun = coeval_env::timeout(OPENING, begun(leader)) => begun.ok().flatten(),
        () = replaced => None,
    }
}

/// A leader says nothing when a session has begun. So it gets a Sync, and the ReadyForQuery that
/// answers it, which the client must not get, is the sign. What comes before stays.
async fn begun(mut leader: Leader) -> Option<Begun> {
    frame(&mut leader.side.buffer, kind::SYNC, b"");
    let sent = poll_fn(|context| {
        let mut moved = false;
        match leader.side.poll_send(context, &mut moved) {
            Ok(()) if !leader.side.is_empty() => Poll::Pending,
            sent => Poll::Ready(sent.ok()),
        }
    });
    sent.await?;
    let mut at = 0;
    loop {
        while let Some(length) = whole(&leader.came[at..]) {
            let end = at + length?;
            let (message, contents) = (leader.came[at], &leader.came[at + HEADER..end]);
            match message {
                answer::READY => {
                    let rest = leader.came.split_off(end);
                    leader.came.truncate(at);
                    leader.came.unsplit(rest);
                    return Some(Begun::Session(leader));
                }
                answer::ERROR => {
                    let full = too_many(contents);
                    return Some(full.map_or(Begun::Session(leader), Begun::Full));
                }
                _ => at = end,
            }
        }
        if poll_fn(|context| poll_read(&mut leader.read, &mut leader.came, context)).await == 0 {
            return None;
        }
    }
}

/// The error of a leader that has no place for a session, if this is one.
fn too_many(contents: &[u8]) -> Option<Error> {
    let field = |kind: u8| {
        let mut fields = contents.split(|&byte| byte == 0);
        let found = fields.find(|field| field.first() == Some(&kind))?;
        str::from_utf8(&found[1..]).ok()
    };
    const FULL: SqlState = SqlState::TOO_MANY_CONNECTIONS;
    if field(b'C') != Some(FULL.0) {
        return None;
    }
    let error = Error::new(FULL, field(b'M').unwrap_or_default());
    let error = error.with_detail("The leader has no place for this session, which stays here.");
    Some(match field(b'H') {
        Some(hint) => error.with_hint(hint),
        None => error,
    })
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
