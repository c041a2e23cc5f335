//! The client side of the commands that connect to a server.
//!
//! The commands use the ordinary protocol, by tokio-postgres, so that they can also
//! connect to PostgreSQL. The URL selects the protection of the connection as it does for
//! libpq ([`address`], [`tls`]).

mod address;
mod tls;

use std::io::Write;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::SslMode;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, NoTls, SimpleQueryMessage, SimpleQueryRow, Socket,
};

use address::{Address, Mode};
use tls::Connect;

/// The URL of a server when the user names none.
pub(crate) const DEFAULT_URL: &str = "postgres://127.0.0.1:5433";

/// Connects, as the user who runs the command if the URL names none. Prints notices to
/// standard error. Must be called in a runtime.
///
/// # Errors
/// A message for the user: the URL is invalid, or no server answers.
pub(crate) async fn connect(url: &str, application: &str) -> Result<Client, String> {
    let address = Address::parse(url, |name| std::env::var(name).ok())?;
    let parsed = address.rest.parse();
    let mut config: Config = parsed.map_err(|error| format!("{}: {error}", shown(url)))?;
    complete(&mut config);
    config.application_name(application);
    let refused = |error| format!("{}: {}", shown(url), explain(&error));
    // The connection's task prints notices as they arrive.
    Ok(match address.mode {
        Mode::Disable => {
            config.ssl_mode(SslMode::Disable);
            let (client, connection) = config.connect(NoTls).await.map_err(refused)?;
            coeval_env::spawn("connection", drive(connection));
            client
        }
        mode => {
            config.ssl_mode(match mode {
                Mode::Prefer => SslMode::Prefer,
                _ => SslMode::Require,
            });
            let tls = Connect::new(&address).await?;
            let (client, connection) = config.connect(tls).await.map_err(refused)?;
            coeval_env::spawn("connection", drive(connection));
            client
        }
    })
}

/// Completes a URL: the user who runs the command, and the password in the environment.
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

/// A URL for people: without its password.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "the connection".to_owned();
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let Some((user, host)) = authority.rsplit_once('@') else {
        return url.to_owned();
    };
    let user = user.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}@{host}{path}")
}

async fn drive<S>(mut connection: Connection<Socket, S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
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

/// Returns the rows of a query.
///
/// # Errors
/// The server's error.
pub(crate) async fn rows(client: &Client, query: &str) -> Result<Vec<SimpleQueryRow>, String> {
    let messages = client.simple_query(query).await;
    let messages = messages.map_err(|error| explain(&error))?;
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows.collect())
}

/// Formats an error with all fields that the server sent, or with its causes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let url = "postgres://ada:secret@db:5433/bank?sslmode=require";
        assert_eq!(shown(url), "postgres://ada@db:5433/bank?sslmode=require");
        assert_eq!(shown("postgres://db/b@nk"), "postgres://db/b@nk");
        assert_eq!(shown("host=db password=secret"), "the connection");
    }
}
