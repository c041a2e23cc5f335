//! The admin listener: metrics and health over HTTP, for monitoring.
//!
//! ```text
//!   GET /health    200 {"status":"ready"}, or 503 {"status":"waiting","reason":…}
//!   GET /metrics   every metric, in Prometheus' text format
//!   GET /status    the node as it knows itself, a line for each name and value
//! ```
//!
//! A client can change nothing through it; it has no authentication, and listens on the loopback
//! interface only. It speaks the part of HTTP that a monitoring system needs: one request on each
//! connection, without a body, bounded in bytes and time.
//!
//! Source: RFC 9112, sections 2 to 4.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use coeval_env::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

use super::gate::Open;
use super::requests::Requests;

/// Most requests that are answered at one time.
const AT_ONCE: usize = 16;
/// Most bytes of a request.
const MOST_BYTES: usize = 8 << 10;
/// How long a request may take, from its first byte to the last of its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a node has no admin listener.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Other machines could reach it.
    #[error("{0} can be reached from other machines, and the admin listener has no authentication")]
    Unguarded(SocketAddr),
    /// The operating system.
    #[error("cannot listen for administrators at {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        error: io::Error,
    },
}

/// Listens, and answers from then on.
pub(super) async fn open(
    address: SocketAddr,
    requests: Requests,
) -> Result<(SocketAddr, Open), AdminError> {
    if !address.ip().is_loopback() {
        return Err(AdminError::Unguarded(address));
    }
    let failed = |error| AdminError::Listen { address, error };
    let listener = coeval_env::listen(address).await.map_err(failed)?;
    let listened = listener.local_addr().map_err(failed)?;
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let task = coeval_env::spawn("take administrators' connections", async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                coeval_env::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                continue;
            };
            let requests = requests.clone();
            coeval_env::spawn("admin request", async move {
                let answering = answer(stream, &requests);
                match coeval_env::timeout(PATIENCE, answering).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%error, "an admin request broke off"),
                    Err(coeval_env::Elapsed) => tracing::debug!("an admin request took too long"),
                }
                drop(place);
            });
        }
    });
    Ok((listened, Open::new(task)))
}

async fn answer(mut stream: Stream, requests: &Requests) -> io::Result<()> {
    let head = read_head(&mut stream).await?;
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words: Vec<&str> = match std::str::from_utf8(line) {
        Ok(line) => line.trim_end().split(' ').collect(),
        Err(_) => Vec::new(),
    };
    let (code, media_type, body) = match words[..] {
        ["GET" | "HEAD", path, "HTTP/1.0" | "HTTP/1.1"] => respond(path, requests).await,
        [_, _, "HTTP/1.0" | "HTTP/1.1"] => (405, TEXT, "only GET and HEAD\n".to_owned()),
        _ => (400, TEXT, "not an HTTP request\n".to_owned()),
    };
    let reason = match code {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Service Unavailable",
    };
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 {code} {reason}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    if words.first() != Some(&"HEAD") {
        answer.push_str(&body);
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// Reads up to the empty line, or the limit.
async fn read_head(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let ends = |head: &[u8]| {
        let is_end =
            |at: usize| head[at..].starts_with(b"\n\r\n") || head[at..].starts_with(b"\n\n");
        (0..head.len()).any(is_end)
    };
    let mut chunk = [0; 1024];
    while !ends(&head) && head.len() < MOST_BYTES {
        match stream.read(&mut chunk).await? {
            0 => break,
            count => head.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(head)
}

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4";

async fn respond(path: &str, requests: &Requests) -> (u16, &'static str, String) {
    let path = path.split('?').next().unwrap_or_default();
    if path == "/" {
        return (
            200,
            TEXT,
            "Coeval, epochs\n/health\n/metrics\n/status\n".to_owned(),
        );
    }
    if !matches!(path, "/health" | "/metrics" | "/status") {
        let there = "there are /health, /metrics and /status\n";
        return (404, TEXT, there.to_owned());
    }
    let Some(status) = requests.status().await else {
        return (503, TEXT, "the node has ended\n".to_owned());
    };
    match path {
        "/metrics" => (200, METRICS, status.exposition()),
        "/status" => (200, TEXT, status.lines()),
        _ => match status.problem() {
            None => (
                200,
                "application/json",
                "{\"status\":\"ready\"}\n".to_owned(),
            ),
            // The words have nothing in them that JSON would have escaped.
            Some(reason) => {
                let body = format!("{{\"status\":\"waiting\",\"reason\":\"{reason}\"}}\n");
                (503, "application/json", body)
            }
        },
    }
}
