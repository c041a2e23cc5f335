//! A minimal HTTP client, as a metrics scraper uses one: requests, answers, and parsed
//! metrics.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends bytes and returns the answer: the head and the body.
pub async fn exchange(address: SocketAddr, bytes: &[u8]) -> (String, String) {
    let mut stream = coeval_env::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// Requests a path by GET: returns the head and the body.
pub async fn get(address: SocketAddr, path: &str) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    exchange(address, request.as_bytes()).await
}

/// Requests `/metrics`: returns every series and its value.
pub async fn metrics(address: SocketAddr) -> BTreeMap<String, f64> {
    let (head, body) = get(address, "/metrics").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    body.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        })
        .collect()
}
