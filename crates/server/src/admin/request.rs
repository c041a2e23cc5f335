//! Parser of one HTTP request, as far as the admin listener understands it: a request
//! line, and header lines that it skips.
//!
//! ```text
//!   GET /metrics HTTP/1.1⏎
//!   Host: localhost⏎
//!   ⏎
//! ```
//!
//! Source: RFC 9112, sections 2 and 3.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum size of a request, in bytes.
const LONGEST: usize = 8 << 10;
/// Limits on the input that the listener drains after its answer: bytes, and time.
const DRAINED: usize = 64 << 10;
const DRAINING: Duration = Duration::from_secs(1);

/// A request as parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// `GET` of this path.
    Get(String),
    /// `HEAD` of this path: the same response without its body.
    Head(String),
    /// A valid request with another method.
    Other,
    /// Input that is not HTTP.
    Malformed,
    /// A request longer than [`LONGEST`].
    TooLong,
}

/// Reads a request, to the end of its header.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Request> {
    let mut head = Vec::with_capacity(1024);
    loop {
        if let Some(end) = end_of_head(&head) {
            return Ok(parse(&head[..end]));
        }
        if head.len() >= LONGEST {
            return Ok(Request::TooLong);
        }
        let mut chunk = [0; 1024];
        match stream.read(&mut chunk).await? {
            0 if head.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            0 => return Ok(Request::Malformed),
            count => head.extend_from_slice(&chunk[..count]),
        }
    }
}

/// Reads and drops the client's remaining input, within the limits.
pub(super) async fn drain(stream: &mut (impl AsyncRead + Unpin)) {
    let mut left = DRAINED;
    let draining = async {
        let mut chunk = [0; 1024];
        while left > 0 {
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(count) => left = left.saturating_sub(count),
            }
        }
    };
    let _ = coeval_env::timeout(DRAINING, draining).await;
}

/// Offset of the end of the header, if the empty line has arrived. Lines may end without
/// a carriage return.
fn end_of_head(head: &[u8]) -> Option<usize> {
    let mut start = 0;
    while let Some(length) = head[start..].iter().position(|&byte| byte == b'\n') {
        let line = &head[start..start + length];
        if start > 0 && (line.is_empty() || line == b"\r") {
            return Some(start);
        }
        start += length + 1;
    }
    None
}

fn parse(head: &[u8]) -> Request {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else {
        return Request::Malformed;
    };
    let words: Vec<&str> = line.trim_end_matches('\r').split(' ').collect();
    let [method, target, version] = words[..] else {
        return Request::Malformed;
    };
    if !matches!(version, "HTTP/1.0" | "HTTP/1.1") || !target.starts_with('/') {
        return Request::Malformed;
    }
    match method {
        "GET" => Request::Get(target.to_owned()),
        "HEAD" => Request::Head(target.to_owned()),
        _ => Request::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bytes: &[u8]) -> io::Result<Request> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(read(&mut &*bytes))
    }

    #[test]
    fn requests_and_what_is_none() {
        let get = |path: &str| Request::Get(path.to_owned());
        for (bytes, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", get("/metrics")),
            ("GET / HTTP/1.0\n\n", get("/")),
            (
                "HEAD /a?b HTTP/1.1\r\n\r\n",
                Request::Head("/a?b".to_owned()),
            ),
            ("POST / HTTP/1.1\r\n\r\n", Request::Other),
            ("GET  / HTTP/1.1\r\n\r\n", Request::Malformed),
            ("GET / HTTP/2\r\n\r\n", Request::Malformed),
            ("GET http://x/ HTTP/1.1\r\n\r\n", Request::Malformed),
            ("\r\n\r\n\r\n", Request::Malformed),
            ("GET / HTTP/1.1\r\nHost", Request::Malformed),
        ] {
            assert_eq!(request(bytes.as_bytes()).unwrap(), expected, "{bytes:?}");
        }
        assert_eq!(request(b"\xff / HTTP/1.1\n\n").unwrap(), Request::Malformed);
        assert!(request(b"").is_err());
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let endless = format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(10_000));
        assert_eq!(request(endless.as_bytes()).unwrap(), Request::TooLong);
        let line = "x".repeat(100_000);
        assert_eq!(request(line.as_bytes()).unwrap(), Request::TooLong);
    }
}
