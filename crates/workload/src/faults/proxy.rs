//! A TCP proxy that degrades connections: it delays, throttles, blocks and cuts them as
//! its policy says.
//!
//! ```text
//!   client ──▶ read ─ delay ─ line ─ blocked? ─ write ──▶ server
//!          ◀── write ─ blocked? ─ line ─ delay ─ read ◀──
//! ```
//!
//! Bytes keep their order within a direction, as in TCP, so reordering happens between
//! connections: with jitter, bytes sent first on one connection arrive after bytes sent
//! later on another. A lost packet shows within a connection as the time until its
//! retransmission. A [`Policy`] applies to bytes read after it was set; a block applies
//! to all bytes not written yet.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use coeval_env::{self as env, ReadHalf, Stream, WriteHalf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use crate::chance::Chance;

/// Most bytes that the proxy moves at once.
const PIECE: usize = 4096;
/// Interval at which a blocked direction polls whether the block has been lifted.
const LOOK: Duration = Duration::from_millis(2);
/// Time until a lost packet is retransmitted: the minimum of Linux.
const RETRANSMITTED: Duration = Duration::from_millis(200);

/// How the proxy degrades its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Least delay of each piece.
    pub delay: Duration,
    /// Greatest random addition to the delay.
    pub jitter: Duration,
    /// Most bytes per second, on each connection and in each direction; 0 for no limit.
    pub bytes_per_second: u64,
    /// Share of pieces that are lost and retransmitted, in per cent.
    pub lost_percent: u8,
    /// Whether bytes to the server are held back.
    pub requests_blocked: bool,
    /// Whether bytes to the clients are held back.
    pub answers_blocked: bool,
}

/// State shared by the proxy and its connections.
struct Shared {
    policy: Mutex<Policy>,
    chance: Mutex<Chance>,
    /// Incremented to cut all connections.
    cuts: watch::Sender<u64>,
}

impl Shared {
    fn policy(&self) -> MutexGuard<'_, Policy> {
        self.policy.lock().expect("no panic while it was held")
    }
}

/// Accepts clients and connects each to the server. Dropping it ends the proxy.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    accepting: env::JoinHandle<()>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Proxy")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl Proxy {
    /// Starts a proxy for the server on a loopback port. `seed` decides the jitter.
    ///
    /// # Errors
    /// If no port can be listened on.
    pub async fn start(server: u16, seed: u64) -> io::Result<Self> {
        let listener = env::listen(([127, 0, 0, 1], 0).into()).await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            policy: Mutex::default(),
            chance: Mutex::new(Chance::new(seed)),
            cuts: watch::Sender::new(0),
        });
        let server: SocketAddr = ([127, 0, 0, 1], server).into();
        let passing = Arc::clone(&shared);
        let accepting = env::spawn("proxy", async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&passing);
                env::spawn("proxied connection", async move {
                    // If the server is down, the proxy refuses the client too, by closing
                    // its connection.
                    if let Ok(server) = env::connect(server).await {
                        pass(client, server, shared).await;
                    }
                });
            }
        });
        Ok(Self {
            port,
            shared,
            accepting,
        })
    }

    /// Port on which clients connect.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Replaces the policy, for bytes that the proxy reads from now on.
    pub fn set(&self, policy: Policy) {
        *self.shared.policy() = policy;
    }

    /// Cuts every connection of the proxy.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn pass(client: Stream, server: Stream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let both = async {
        tokio::join!(
            biased;
            carry(from_client, to_server, &shared, |policy| policy.requests_blocked),
            carry(from_server, to_client, &shared, |policy| policy.answers_blocked),
        )
    };
    tokio::select! {
        biased;
        _ = cuts.changed() => {}
        _ = both => {}
    }
}

/// Forwards one direction of a connection until either end closes.
async fn carry(
    mut from: ReadHalf,
    mut to: WriteHalf,
    shared: &Shared,
    is_blocked: impl Fn(&Policy) -> bool,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = from.read(&mut piece).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        let policy = *shared.policy();
        let mut wait = policy.delay;
        if !policy.jitter.is_zero() {
            let most = u64::try_from(policy.jitter.as_micros()).unwrap_or(u64::MAX - 1);
            let mut chance = shared.chance.lock().expect("no panic while it was held");
            wait += Duration::from_micros(chance.within(0..most + 1));
        }
        if policy.lost_percent > 0 {
            let mut chance = shared.chance.lock().expect("no panic while it was held");
            // A retransmitted packet may be lost again.
            while chance.within(0..100) < u64::from(policy.lost_percent.min(99)) {
                wait += RETRANSMITTED;
            }
        }
        let takes = (count as u64 * 1_000_000).checked_div(policy.bytes_per_second);
        wait += Duration::from_micros(takes.unwrap_or(0));
        if !wait.is_zero() {
            env::sleep(wait).await;
        }
        while is_blocked(&shared.policy()) {
            env::sleep(LOOK).await;
        }
        to.write_all(&piece[..count]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo server, and a proxy in front of it.
    async fn echo() -> Proxy {
        let listener = env::listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        env::spawn("echo", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (mut read, mut write) = stream.into_split();
                env::spawn("echo", async move {
                    while let Ok(byte) = read.read_u8().await {
                        if write.write_u8(byte).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Proxy::start(port, 1).await.unwrap()
    }

    async fn connect(proxy: &Proxy) -> Stream {
        let address = ([127, 0, 0, 1], proxy.port()).into();
        env::connect(address).await.unwrap()
    }

    async fn ask(stream: &mut Stream) -> Duration {
        let asked = env::now();
        stream.write_u8(7).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 7);
        asked.elapsed()
    }

    #[tokio::test]
    async fn delays_and_throttles() {
        let proxy = echo().await;
        let mut stream = connect(&proxy).await;
        ask(&mut stream).await;
        proxy.set(Policy {
            delay: Duration::from_millis(20),
            jitter: Duration::from_millis(5),
            ..Policy::default()
        });
        assert!(ask(&mut stream).await >= Duration::from_millis(40));
        proxy.set(Policy {
            bytes_per_second: 50,
            ..Policy::default()
        });
        assert!(ask(&mut stream).await >= Duration::from_millis(40));
    }

    #[tokio::test]
    async fn blocks_each_way_until_that_is_lifted() {
        let proxy = echo().await;
        for requests_blocked in [true, false] {
            let mut stream = connect(&proxy).await;
            ask(&mut stream).await;
            proxy.set(Policy {
                requests_blocked,
                answers_blocked: !requests_blocked,
                ..Policy::default()
            });
            stream.write_u8(1).await.unwrap();
            let early = env::timeout(Duration::from_millis(50), stream.read_u8()).await;
            assert!(early.is_err(), "an answer came through");
            proxy.set(Policy::default());
            assert_eq!(stream.read_u8().await.unwrap(), 1);
        }
    }

    #[tokio::test]
    async fn what_is_lost_comes_later() {
        let proxy = echo().await;
        let mut stream = connect(&proxy).await;
        proxy.set(Policy {
            lost_percent: 99,
            ..Policy::default()
        });
        // Of a hundred pieces one gets through at the first attempt; the seed decides
        // which.
        assert!(ask(&mut stream).await >= RETRANSMITTED);
    }

    #[tokio::test]
    async fn connections_overtake_each_other() {
        let proxy = echo().await;
        let (mut first, mut second) = (connect(&proxy).await, connect(&proxy).await);
        ask(&mut second).await;
        // Until the proxy has read the first connection's byte while the delay was in
        // force.
        loop {
            proxy.set(Policy {
                delay: Duration::from_millis(200),
                ..Policy::default()
            });
            first.write_u8(1).await.unwrap();
            env::sleep(Duration::from_millis(20)).await;
            proxy.set(Policy::default());
            ask(&mut second).await;
            let overtaken = env::timeout(Duration::ZERO, first.read_u8()).await.is_err();
            if overtaken {
                assert_eq!(first.read_u8().await.unwrap(), 1);
                return;
            }
        }
    }

    #[tokio::test]
    async fn cuts_what_there_is_and_lets_others_in() {
        let proxy = echo().await;
        let mut stream = connect(&proxy).await;
        ask(&mut stream).await;
        proxy.cut();
        assert!(stream.read_u8().await.is_err());
        ask(&mut connect(&proxy).await).await;
    }
}
