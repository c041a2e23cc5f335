//! A transport for tests: one connection from each node to each other one, messages with their
//! length before them. Messages on a connection that breaks are lost.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use coeval_council::{Council, NodeId, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

fn address(node: NodeId) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7000 + node.0 as u16))
}

/// Queues to the other nodes of one node.
#[derive(Debug)]
pub struct Queues {
    from: NodeId,
    queues: Mutex<BTreeMap<NodeId, mpsc::UnboundedSender<Bytes>>>,
}

impl Queues {
    pub fn new(from: NodeId) -> Arc<Self> {
        Arc::new(Self {
            from,
            queues: Mutex::default(),
        })
    }
}

impl Transport for Queues {
    fn send(&self, to: NodeId, message: Bytes) {
        let from = self.from;
        let mut queues = self.queues.lock().unwrap();
        let queue = queues.entry(to).or_insert_with(|| {
            let (queue, messages) = mpsc::unbounded_channel();
            drop(coeval_env::spawn("dial", dial(from, to, messages)));
            queue
        });
        queue.send(message).unwrap();
    }
}

async fn dial(from: NodeId, to: NodeId, mut messages: mpsc::UnboundedReceiver<Bytes>) {
    loop {
        let wait = Duration::from_secs(2);
        let Ok(Ok(mut stream)) = coeval_env::timeout(wait, coeval_env::connect(address(to))).await
        else {
            while messages.try_recv().is_ok() {}
            coeval_env::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let mut sent = stream.write_all(&from.0.to_le_bytes()).await;
        while sent.is_ok() {
            let Some(message) = messages.recv().await else {
                return;
            };
            let mut bytes = (message.len() as u32).to_le_bytes().to_vec();
            bytes.extend_from_slice(&message);
            sent = stream.write_all(&bytes).await;
        }
    }
}

/// Accepts connections, and delivers what comes.
pub async fn serve(node: NodeId, council: Council) {
    let listener = coeval_env::listen(address(node)).await.unwrap();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let council = council.clone();
        drop(coeval_env::spawn("receive", async move {
            let Ok(from) = stream.read_u64_le().await else {
                return;
            };
            while let Ok(length) = stream.read_u32_le().await {
                let mut message = vec![0; length as usize];
                if stream.read_exact(&mut message).await.is_err() {
                    return;
                }
                council.deliver(NodeId(from), message.into());
            }
        }));
    }
}
