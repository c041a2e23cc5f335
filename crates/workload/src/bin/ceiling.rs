//! The ceiling command: a server that does nothing but receive and send. It measures the
//! throughput of a load over the wire that no database can exceed.
//!
//! ```text
//! cargo run --profile dist -p coeval-workload --bin ceiling -- --listen 127.0.0.1:7700
//! pgbench -h 127.0.0.1 -p 7700 -n -M prepared -c 8 -j 2 -T 5 -D scale=10 -f bench/tpcb.sql
//! ```
//!
//! The server speaks as much of PostgreSQL's protocol as `pgbench` with a script and
//! `psql` need. It answers a statement that begins with `SELECT` with one row of one
//! number, and any other with its completion; it neither parses nor stores anything, and
//! waits for no disk. Threads, sockets and sends are those of the real server: an
//! executor for each thread, whose sessions stay there, one receive and one send for each
//! batch of messages. So the transactions per second that `pgbench` reaches here are an
//! upper bound for a server of this architecture, and their ratio to another server's is
//! the greatest ratio possible. `bench/pgbench.sh` runs it beside the others.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use coeval_env as env;
use coeval_workload::build::Build;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

/// Answers PostgreSQL clients without doing any work.
#[derive(Debug, Parser)]
struct Arguments {
    /// Address to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// Number of worker threads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,
    #[command(flatten)]
    build: Build,
}

/// Request codes that a client sends in place of a protocol version to ask for
/// encryption.
const REQUESTS_OF_ENCRYPTION: [u32; 2] = [1234 << 16 | 5679, 1234 << 16 | 5680];

const PARSE_COMPLETE: &[u8] = b"1\0\0\0\x04";
const BIND_COMPLETE: &[u8] = b"2\0\0\0\x04";
const NO_DATA: &[u8] = b"n\0\0\0\x04";
const READY: &[u8] = b"Z\0\0\0\x05I";
const DONE: &[u8] = b"C\0\0\0\x0dUPDATE 1\0";
const SELECTED: &[u8] = b"C\0\0\0\x0dSELECT 1\0";
/// RowDescription of one int4 column in text format.
const COLUMN: &[u8] =
    b"T\0\0\0\x21\0\x01abalance\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
const ROW: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x010";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let error = match serve(Arguments::parse()).await {
        Ok(never) => match never {},
        Err(error) => error,
    };
    eprintln!("ceiling: {error}");
    ExitCode::FAILURE
}

/// Accepts connections and distributes them over the workers in turn.
async fn serve(arguments: Arguments) -> io::Result<std::convert::Infallible> {
    arguments.build.check().map_err(io::Error::other)?;
    let listener = env::listen(arguments.listen).await?;
    let mut workers = Vec::new();
    for _ in 0..arguments.workers {
        let (sender, mut streams) = mpsc::unbounded_channel();
        let thread = env::spawn_executor("worker", async move {
            while let Some(stream) = streams.recv().await {
                env::spawn("session", async move {
                    // A client that disconnects is not an error.
                    let _ = session(stream).await;
                });
            }
        });
        workers.push((sender, thread));
    }
    loop {
        for (worker, _) in &workers {
            let (stream, _) = listener.accept().await?;
            let _ = worker.send(stream);
        }
    }
}

/// Whether each statement that a client has prepared, and the one bound last, is a query.
#[derive(Default)]
struct Statements {
    prepared: HashMap<Vec<u8>, bool>,
    bound: bool,
}

async fn session(mut stream: env::Stream) -> io::Result<()> {
    greet(&mut stream).await?;
    let mut statements = Statements::default();
    let mut input = Vec::with_capacity(8 << 10);
    let mut output = Vec::with_capacity(8 << 10);
    while stream.read_buf(&mut input).await? > 0 {
        let mut at = 0;
        while let Some(header) = input.get(at..at + 5) {
            let length = length(&header[1..]);
            let Some(contents) = input.get(at + 5..at + 1 + length) else {
                break;
            };
            statements.answer(header[0], contents, &mut output);
            at += 1 + length;
        }
        input.drain(..at);
        if output.ends_with(READY) {
            stream.write_all(&output).await?;
            output.clear();
        }
    }
    Ok(())
}

impl Statements {
    fn answer(&mut self, kind: u8, contents: &[u8], output: &mut Vec<u8>) {
        match kind {
            b'Q' => {
                self.bound = is_query(contents);
                self.describe(output);
                self.execute(output);
                output.extend_from_slice(READY);
            }
            b'P' => {
                let (name, text) = cut(contents);
                self.prepared.insert(name.to_vec(), is_query(text));
                output.extend_from_slice(PARSE_COMPLETE);
            }
            b'B' => {
                let (_portal, rest) = cut(contents);
                let (name, _) = cut(rest);
                self.bound = self.prepared.get(name).copied().unwrap_or(false);
                output.extend_from_slice(BIND_COMPLETE);
            }
            b'D' => {
                self.describe(output);
                if !self.bound {
                    output.extend_from_slice(NO_DATA);
                }
            }
            b'E' => self.execute(output),
            b'S' => output.extend_from_slice(READY),
            _ => {}
        }
    }

    fn describe(&self, output: &mut Vec<u8>) {
        if self.bound {
            output.extend_from_slice(COLUMN);
        }
    }

    fn execute(&self, output: &mut Vec<u8>) {
        if self.bound {
            output.extend_from_slice(ROW);
        }
        output.extend_from_slice(if self.bound { SELECTED } else { DONE });
    }
}

/// Accepts every client, without authentication or encryption.
async fn greet(stream: &mut env::Stream) -> io::Result<()> {
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).await?;
        let length = length(&header);
        let mut rest = vec![0; length.clamp(8, 16 << 10) - 8];
        stream.read_exact(&mut rest).await?;
        let version = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        if !REQUESTS_OF_ENCRYPTION.contains(&version) {
            break;
        }
        stream.write_all(b"N").await?;
    }
    let mut output = b"R\0\0\0\x08\0\0\0\0".to_vec();
    for (name, value) in [("client_encoding", "UTF8"), ("server_version", "15.0")] {
        output.push(b'S');
        output.extend_from_slice(&(name.len() as u32 + value.len() as u32 + 6).to_be_bytes());
        output.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
    }
    output.extend_from_slice(READY);
    stream.write_all(&output).await
}

/// A message's length field, which counts itself.
fn length(bytes: &[u8]) -> usize {
    let bytes = bytes.first_chunk().copied().unwrap_or_default();
    (u32::from_be_bytes(bytes) as usize).max(4)
}

/// Splits `contents` after the first zero-terminated string: the string and the rest.
fn cut(contents: &[u8]) -> (&[u8], &[u8]) {
    let end = contents.iter().position(|&byte| byte == 0);
    let (text, rest) = contents.split_at(end.unwrap_or(contents.len()));
    (text, rest.get(1..).unwrap_or_default())
}

fn is_query(text: &[u8]) -> bool {
    text.first_chunk()
        .is_some_and(|word: &[u8; 6]| word.eq_ignore_ascii_case(b"select"))
}
