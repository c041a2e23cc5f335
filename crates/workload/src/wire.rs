//! One connection over the wire.

use std::ops::Deref;

use coeval_env as env;
use tokio_postgres::{Client, Config, Error, NoTls};

/// A client with the task that moves its bytes. Closed when it is dropped.
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
    let (client, connection) = Config::new()
        .host("127.0.0.1")
        .port(port)
        .user("postgres")
        .dbname("postgres")
        .connect(NoTls)
        .await?;
    let mover = env::spawn("connection", async move {
        // How a connection ends is told to whoever waits for an answer on it.
        let _ = connection.await;
    });
    Ok(Connection {
        client,
        _mover: mover,
    })
}
