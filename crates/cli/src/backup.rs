//! `coeval backup` and `coeval restore`: the command line's side of the functions of
//! `coeval_log`.
//!
//! A backup uses an ordinary connection, as the answer to `BACKUP TO STDOUT`, which sends
//! bytes as COPY does. A restore needs no server.

use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, Utc};
use coeval_log::{RestoreOptions, RestoreTarget, Unpacker};
use futures_util::TryStreamExt;
use tokio_postgres::Client;

use crate::client::{self, explain};
use crate::progress::{ProgressBar, Unit};

/// Runs one command to its end, and prints its result.
fn run(command: &str, work: impl Future<Output = Result<String, String>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => Err(error.to_string()),
    };
    // A closed pipe does not change the exit code.
    match done {
        Ok(said) => {
            let _ = writeln!(std::io::stdout(), "{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "coeval {command}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Backs up the server at `url` into `directory`.
pub(crate) fn backup(url: &str, directory: &Path) -> ExitCode {
    run("backup", take(url, directory))
}

async fn take(url: &str, directory: &Path) -> Result<String, String> {
    let said = |error: coeval_log::Error| error.to_string();
    let client = client::connect(url, "coeval backup").await?;
    let set = client.batch_execute("SET statement_timeout = 0").await;
    set.map_err(|error| explain(&error))?;
    let mut unpacker = Unpacker::new(directory).await.map_err(said)?;
    if let Err(error) = receive(&client, &mut unpacker).await {
        unpacker.discard().await;
        return Err(error);
    }
    let summary = unpacker.finish().await.map_err(said)?;
    Ok(format!(
        "backed up {} bytes in {} files to {}: every commit up to {}, {}",
        summary.bytes,
        summary.files,
        directory.display(),
        summary.end,
        moment(summary.taken_at)
    ))
}

/// Unpacks the stream of the backup as the server sends it.
async fn receive(client: &Client, unpacker: &mut Unpacker) -> Result<(), String> {
    let stream = client.copy_out("BACKUP TO STDOUT").await;
    let mut stream = pin!(stream.map_err(|error| explain(&error))?);
    let mut progress = ProgressBar::new("backing up", Unit::Of("MB"));
    while let Some(piece) = stream.try_next().await.map_err(|error| explain(&error))? {
        let fed = unpacker.feed(&piece).await;
        fed.map_err(|error| error.to_string())?;
        let megabytes = unpacker.bytes() / 1_000_000;
        progress.at(megabytes, megabytes);
    }
    Ok(())
}

/// Restores a data directory as the options say.
pub(crate) fn restore(options: &RestoreOptions) -> ExitCode {
    let work = async {
        let restored = coeval_log::restore(options).await;
        let restored = restored.map_err(|error| error.to_string())?;
        let mut text = match restored.last {
            Some((timestamp, time)) => format!(
                "restored to {}: the last commit is {timestamp}, {}",
                options.to.display(),
                moment(time)
            ),
            None => format!(
                "restored to {}: the backup's checkpoint, and no commit behind it",
                options.to.display()
            ),
        };
        text.push_str(&format!(
            "\nit starts alone, or with the same restored on each node founds the cluster \
             {:032x} at {}",
            restored.backup.database, restored.position
        ));
        if options.target != RestoreTarget::End && !restored.passed {
            text.push_str(
                "\nthe log ends before what was asked for; this is all there is (--log-from \
                 takes a data directory whose log goes on)",
            );
        }
        Ok(text)
    };
    run("restore", work)
}

/// Parses a point in time: RFC 3339, as `2026-11-22T01:02:03.5Z`, also with a blank for
/// the T.
pub(crate) fn parse_time(text: &str) -> Result<RestoreTarget, String> {
    let time = DateTime::parse_from_rfc3339(&text.replacen(' ', "T", 1));
    let time = time.map_err(|error| {
        format!("{text:?} is no time as 2026-11-22T01:02:03Z or 2026-11-22T01:02:03+01:00: {error}")
    })?;
    let micros =
        u64::try_from(time.timestamp_micros()).map_err(|_| format!("{text:?} is before 1970"))?;
    Ok(RestoreTarget::Time(Duration::from_micros(micros)))
}

/// Formats a point in time for people; [`parse_time`] reads it.
pub(crate) fn moment(time: Duration) -> String {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    match DateTime::<Utc>::from_timestamp_micros(micros) {
        Some(time) => time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true),
        None => "at a time unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_written() {
        let time = Duration::from_micros(1_767_225_600_123_456);
        assert_eq!(moment(time), "2026-01-01T00:00:00.123456Z");
        assert_eq!(parse_time(&moment(time)), Ok(RestoreTarget::Time(time)));
        let blank = parse_time("2026-01-01 01:00:00.123456+01:00");
        assert_eq!(blank, Ok(RestoreTarget::Time(time)));
        for bad in ["", "yesterday", "2026-01-01", "1960-01-01T00:00:00Z"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
