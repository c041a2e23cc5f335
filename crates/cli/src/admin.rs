//! A client of a server's admin listener, which speaks HTTP: health and the cluster, of a
//! server that lets no session in.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Requests a path: the status code and the body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<(u16, String), String> {
    let answer = exchange(address, path).await;
    let answer = answer.map_err(|error| format!("{address}: {error}"))?;
    let parsed = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
        let code = head.split(' ').nth(1)?.parse().ok()?;
        Some((code, body.to_owned()))
    });
    parsed.ok_or_else(|| format!("{address}: the answer is not HTTP; is it an admin listener?"))
}

async fn exchange(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = coeval_env::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
