//! This program as a client: of the commands that talk to a server.
//!
//! Through the same protocol as everybody, by tokio-postgres, so that they can talk to
//! PostgreSQL too.

use std::io::Write;

use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};

/// Where a server is when nobody says otherwise.
pub(crate) const DEFAULT_URL: &str = "postgres://127.0.0.1:5433";

/// Connects as the user who runs this, if the URL names none. Notices go to standard
/// error. To be called in a runtime.
///
/// # Errors
/// What to tell the user: the URL makes no sense, or nobody is there.
pub(crate) async fn connect(url: &str, application: &str) -> Result<Client, String> {
    let mut config: Config = url.parse().map_err(|error| format!("{url}: {error}"))?;
    complete(&mut config);
    config.application_name(application);
    let connected = config.connect(NoTls).await;
    let (client, connection) = connected.map_err(|error| format!("{url}: {}", explain(&error)))?;
    // Notices come with the connection; it says them and goes on.
    coeval_env::spawn("connection", drive(connection));
    Ok(client)
}

/// Adds what a URL need not say: the user who runs this, and the password of the
/// environment.
pub(crate) fn complete(config: &mut Config) {
    if config.get_user().is_none() {
        let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
        config.user(user.unwrap_or_else(|| "coeval".to_owned()));
    }
    if config.get_password().is_none()
        && let Ok(password) = std::env::var("PGPASSWORD")
    {
        config.password(password);
    }
}

async fn drive(mut connection: Connection<Socket, NoTlsStream>) {
    loop {
        let message = std::future::poll_fn(|context| connection.poll_message(context)).await;
        match message {
            Some(Ok(AsyncMessage::Notice(notice))) => {
                let _ = writeln!(
                    std::io::stderr(),
                    "{}:  {}",
                    notice.severity(),
                    notice.message()
                );
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return,
        }
    }
}

/// An error with everything that the server said about it, or with its causes.
pub(crate) fn explain(error: &tokio_postgres::Error) -> String {
    let Some(report) = error.as_db_error() else {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            text.push_str(&format!(": {inner}"));
            cause = inner.source();
        }
        return text;
    };
    let code = report.code().code();
    let mut text = format!("{}:  {} ({code})", report.severity(), report.message());
    for (name, part) in [("DETAIL", report.detail()), ("HINT", report.hint())] {
        if let Some(part) = part {
            text.push_str(&format!("\n{name}:  {part}"));
        }
    }
    text
}
