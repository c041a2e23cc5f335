//! A client connection over PostgreSQL's protocol.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;

use coeval_env as env;
use tokio_postgres::{Client, Config, Error, NoTls};

/// A client together with the task that moves its bytes. Dropping it closes the
/// connection.
pub struct Connection {
    client: Client,
    _mover: env::JoinHandle<()>,
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Connects to the server that listens on a loopback port.
pub async fn connect(port: u16) -> Result<Connection, Error> {
    connect_to(Ipv4Addr::LOCALHOST.into(), port).await
}

/// Connects to the server that listens on `host` and `port`.
pub async fn connect_to(host: IpAddr, port: u16) -> Result<Connection, Error> {
    let (client, connection) = Config::new()
        .host(host.to_string())
        .port(port)
        .user("postgres")
        .dbname("postgres")
        .connect(NoTls)
        .await?;
    let mover = env::spawn("connection", async move {
        // The error that ends a connection is returned to every caller that awaits an
        // answer on it.
        let _ = connection.await;
    });
    Ok(Connection {
        client,
        _mover: mover,
    })
}
