//! The fuzz target `conversation`: arbitrary bytes from a client of a whole server,
//! which runs in a simulated world and keeps everything in memory.
//!
//! The first byte selects whether the client begins with a correct startup packet, and
//! the size of the pieces in which it sends the rest. The client reads the answers,
//! cancels what takes too long, and hangs up. The answers must be whole messages of known
//! types; and another client, before and after, must have a working server.

use std::net::SocketAddr;
use std::time::Duration;

use coeval_env::sim::World;
use coeval_env::{Stream, WriteHalf};
use coeval_server::{Server, Settings, Storage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Types of messages a server sends.
const KINDS: &[u8] = b"RSKZTDCEN123nstIGHcdAv";
/// The startup messages of a correct client.
const STARTUP: &[u8] = b"\0\0\0\x1d\0\x03\0\0user\0ada\0database\0x\0\0";
/// Turns the server is given before what it does is canceled. A statement that joins
/// everything with everything takes them all.
const PATIENCE: usize = 30;
/// Maximum number of bytes that the client reads.
const ENOUGH: usize = 1 << 20;
/// Longest input, in bytes.
const LONGEST: usize = 4096;

/// The messages that the server sent.
#[derive(Default)]
struct Told {
    bytes: Vec<u8>,
    /// Up to where it has been checked.
    checked: usize,
    /// For requests to cancel: process id and secret, as they came.
    key: Option<Vec<u8>>,
    /// Whether the session can take a message.
    ready: bool,
    ended: bool,
}

impl Told {
    /// Looks at the messages that are complete.
    fn check(&mut self) {
        while let Some((kind, contents)) = message(&self.bytes[self.checked..]) {
            assert!(KINDS.contains(&kind), "a message of type {kind}");
            self.ready = kind == b'Z';
            if kind == b'K' {
                self.key = Some(contents.to_vec());
            }
            self.checked += 5 + contents.len();
        }
    }
}

/// The first message, if it is complete.
fn message(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let kind = *bytes.first()?;
    let length = u32::from_be_bytes(*bytes.get(1..)?.first_chunk()?) as usize;
    assert!(length >= 4, "a message of length {length}");
    Some((kind, bytes.get(5..1 + length)?))
}

/// Reads what there is to read in `turns` of everybody.
async fn listen(stream: &mut coeval_env::ReadHalf, told: &mut Told, turns: usize) {
    let mut buffer = vec![0; 4096];
    let mut quiet = 0;
    while quiet < turns && !told.ended && told.bytes.len() < ENOUGH {
        let read = tokio::select! {
            biased;
            read = stream.read(&mut buffer) => Some(read),
            () = coeval_env::yield_now() => None,
        };
        match read {
            None => quiet += 1,
            Some(Ok(0) | Err(_)) => told.ended = true,
            Some(Ok(count)) => {
                quiet = 0;
                told.bytes.extend_from_slice(&buffer[..count]);
            }
        }
    }
    told.check();
}

/// Says `bytes` in pieces; a server that has hung up does not listen.
async fn say(stream: &mut WriteHalf, bytes: &[u8], piece: usize) {
    for bytes in bytes.chunks(piece) {
        if stream.write_all(bytes).await.is_err() {
            return;
        }
        coeval_env::yield_now().await;
    }
}

async fn connect(address: SocketAddr) -> Stream {
    coeval_env::connect(address).await.expect("it listens")
}

/// Another client, which the hostile one must not affect.
async fn bystander(address: SocketAddr) {
    let (mut read, mut write) = connect(address).await.into_split();
    let mut told = Told::default();
    say(&mut write, STARTUP, STARTUP.len()).await;
    say(&mut write, b"Q\0\0\0\x0dselect 1\0", 14).await;
    say(&mut write, b"X\0\0\0\x04", 5).await;
    let ended = async {
        while !told.ended {
            listen(&mut read, &mut told, 1).await;
        }
    };
    ended.await;
    let text = String::from_utf8_lossy(&told.bytes);
    assert!(text.contains("SELECT 1"), "{text}");
}

/// The client whose words the input is.
async fn visitor(address: SocketAddr, input: &[u8]) {
    let (&how, words) = input.split_first().unwrap_or((&0, &[]));
    let piece = match how >> 1 {
        0 => words.len().max(1),
        piece => usize::from(piece),
    };
    let (mut read, mut write) = connect(address).await.into_split();
    let mut told = Told::default();
    if how & 1 == 0 {
        say(&mut write, STARTUP, STARTUP.len()).await;
    }
    say(&mut write, words, piece).await;
    listen(&mut read, &mut told, PATIENCE).await;
    if let Some(key) = told.key.take()
        && !told.ready
        && !told.ended
    {
        let length = 8 + key.len() as u32;
        let code = (1234u32 << 16 | 5678).to_be_bytes();
        let request = [&length.to_be_bytes()[..], &code, &key].concat();
        let (_read, mut write) = connect(address).await.into_split();
        say(&mut write, &request, request.len()).await;
        listen(&mut read, &mut told, PATIENCE).await;
    }
    // Whether it could be more polite is the input's choice, too.
    drop(write);
    listen(&mut read, &mut told, PATIENCE).await;
    // Not every word that came before the session began is a message.
    if told.ended && how & 1 == 0 && told.bytes.len() < ENOUGH {
        assert_eq!(told.checked, told.bytes.len(), "half a message at the end");
    }
}

async fn serve(input: Vec<u8>) {
    let settings = Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        worker_threads: 1,
        log_buffer_bytes: 8 << 20,
        range_slots: 64,
        stop_grace_milliseconds: 10,
        ..Settings::default()
    };
    let server = Server::start(settings, Storage::Memory).await;
    let server = server.expect("sound settings");
    let address = server.address();
    let visit = coeval_env::spawn("visitor", async move { visitor(address, &input).await });
    visit.await.expect("no panic");
    bystander(address).await;
    let stopped = coeval_env::timeout(Duration::from_secs(3600), server.stop());
    stopped.await.expect("a server stops");
}

/// One input.
pub fn run(input: &[u8]) {
    let input = input[..input.len().min(LONGEST)].to_vec();
    let world = World::new(1);
    let node = world.node();
    world.run(node, serve(input)).expect("no panic");
}
