//! The admin listener: metrics and health over HTTP, for monitoring.
//!
//! ```text
//!   GET /metrics   every metric, in Prometheus' text format
//!   GET /health    200 {"status":"ready",…}, or 503 with "recovering" and its progress,
//!                  "stopping", or "failed" with its reason; "degraded" is 503 while
//!                  the server refuses writes, else 200
//!   GET /serving   200 while a client that connects is served, even if only to read, else
//!                  503 with the reason ([`availability`])
//!   GET /cluster   the cluster as this node knows it, with or without a leader, as JSON
//! ```
//!
//! The listener has a thread of its own, so that it answers while the server recovers and
//! when every worker is busy. A client can change nothing through it; it has no
//! authentication, and listens on the loopback interface only.
//!
//! The listener implements the part of HTTP that a monitoring system needs: one request
//! on each connection, without a body ([`request`]). Each request has limits on its time
//! and its bytes, and the number of concurrent requests is bounded; the listener closes
//! further connections, so that no client can exhaust memory or descriptors through it.

mod availability;
mod cluster_report;
mod health;
mod request;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use coeval_env::{JoinHandle, Listener, Stream};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tracing::{debug, info, warn};

pub(crate) use health::{Health, Problem};
use request::Request;

use crate::metrics::{MEDIA_TYPE, Reading, exposition, recovering};

/// Maximum number of requests answered at the same time.
const AT_ONCE: usize = 16;
/// Time limit of a request, from its first byte to the last of its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The admin listener's thread. Dropping this ends it.
pub(crate) struct Admin {
    address: SocketAddr,
    thread: JoinHandle<()>,
}

impl Admin {
    /// Listens at `address` and answers requests from then on.
    pub(crate) async fn start(address: SocketAddr, health: Arc<Health>) -> io::Result<Self> {
        let (sender, listening) = tokio::sync::oneshot::channel();
        let thread = coeval_env::spawn_dedicated("admin", move || async move {
            // The listener is opened on the thread that uses it.
            let listener = match coeval_env::listen(address).await {
                Ok(listener) => listener,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            if sender.send(listener.local_addr()).is_ok() {
                serve(listener, health).await;
            }
        });
        let gone = || io::Error::other("its thread ended");
        let address = listening.await.map_err(|_| gone())??;
        info!(%address, "metrics and health over HTTP");
        Ok(Self { address, thread })
    }

    /// The address that the listener is bound to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.thread.abort();
    }
}

async fn serve(listener: Listener, health: Arc<Health>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "an admin connection could not be accepted");
                coeval_env::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let health = Arc::clone(&health);
        coeval_env::spawn("admin request", async move {
            let answered = coeval_env::timeout(PATIENCE, answer(stream, &health)).await;
            match answered {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "an admin request broke off"),
                Err(coeval_env::Elapsed) => debug!("an admin request took too long"),
            }
            drop(place);
        });
    }
}

async fn answer(mut stream: Stream, health: &Health) -> io::Result<()> {
    let request = request::read(&mut stream).await?;
    let head_only = matches!(request, Request::Head(_));
    let response = match request {
        Request::Get(path) | Request::Head(path) => respond(&path, health),
        Request::Other => Response::text(405, "Method Not Allowed", "only GET and HEAD\n"),
        Request::Malformed => Response::text(400, "Bad Request", "not an HTTP request\n"),
        Request::TooLong => {
            let reason = "Request Header Fields Too Large";
            Response::text(431, reason, "the request is too long\n")
        }
    };
    stream.write_all(&response.bytes(head_only)).await?;
    stream.shutdown().await?;
    // The listener reads what the client still sends, so that closing the socket does not
    // reset the connection and lose the answer.
    request::drain(&mut stream).await;
    Ok(())
}

fn respond(path: &str, health: &Health) -> Response {
    let path = path.split('?').next().unwrap_or_default();
    match path {
        "/metrics" => match health.shared() {
            Some(shared) => {
                let reading = Reading::take(&shared);
                drop(shared);
                Response {
                    status: 200,
                    reason: "OK",
                    media_type: MEDIA_TYPE,
                    body: exposition(&reading),
                }
            }
            None => match health.recovered() {
                Some(share) => Response {
                    status: 200,
                    reason: "OK",
                    media_type: MEDIA_TYPE,
                    body: recovering(share),
                },
                None => Response::text(503, "Service Unavailable", "the server is not ready\n"),
            },
        },
        "/health" => {
            let (ready, body) = health.report();
            Response {
                status: if ready { 200 } else { 503 },
                reason: if ready { "OK" } else { "Service Unavailable" },
                media_type: "application/json",
                body,
            }
        }
        "/serving" => match health.serving() {
            Ok(()) => Response::text(200, "OK", "yes\n"),
            Err(reason) => Response::text(503, "Service Unavailable", &format!("no: {reason}\n")),
        },
        "/cluster" => match health.shared() {
            Some(shared) => match cluster_report::report(&shared) {
                Some(body) => Response {
                    status: 200,
                    reason: "OK",
                    media_type: "application/json",
                    body,
                },
                None => Response::text(404, "Not Found", "this server is no node of a cluster\n"),
            },
            // Of the cluster a node knows nothing yet before it has read its own disk.
            None => {
                let reason = health.serving().err();
                let reason = reason.as_deref().unwrap_or("the server is not ready");
                let report = health.report().1;
                Response::text(503, "Service Unavailable", &format!("{reason}\n{report}"))
            }
        },
        "/" => Response::text(200, "OK", "Coeval\n/metrics\n/health\n/serving\n/cluster\n"),
        _ => Response::text(
            404,
            "Not Found",
            "there are /metrics, /health, /serving and /cluster\n",
        ),
    }
}

/// An HTTP response.
struct Response {
    status: u16,
    reason: &'static str,
    media_type: &'static str,
    body: String,
}

impl Response {
    fn text(status: u16, reason: &'static str, body: &str) -> Self {
        Self {
            status,
            reason,
            media_type: "text/plain; charset=utf-8",
            body: body.to_owned(),
        }
    }

    fn bytes(&self, head_only: bool) -> Vec<u8> {
        let mut bytes = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            self.status,
            self.reason,
            self.media_type,
            self.body.len()
        )
        .into_bytes();
        if !head_only {
            bytes.extend_from_slice(self.body.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use coeval_log::RecoveryProgress;

    use super::*;

    #[test]
    fn a_server_that_recovers_says_how_far_it_is() {
        let health = Health::default();
        health.recovering(RecoveryProgress::Log { bytes: 1, of: 2 });
        let metrics = respond("/metrics", &health);
        assert_eq!((metrics.status, metrics.media_type), (200, MEDIA_TYPE));
        let lines: Vec<&str> = metrics.body.lines().collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[2], "coeval_recovery_progress_ratio 0.75");
        let report = respond("/health", &health);
        assert_eq!(report.status, 503);
        assert!(report.body.contains("\"percent\":50"), "{}", report.body);
        health.stopping();
        assert_eq!(respond("/metrics", &health).status, 503);
    }
}
