//! `coeval epoch backup`, `verify` and `restore`.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, value_parser};
use coeval_epoch::backup::{self, BackupError};
use coeval_epoch::server;
use coeval_peers::ClusterId;

use super::{Failure, ask, node};
use crate::commands::say;
use crate::progress::{ProgressBar, Unit};

/// Exit code: nothing could be said of the directory.
const NOT_LOOKED_AT: u8 = 3;

fn path(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help(help)
}

pub(super) fn backup_arguments() -> [Arg; 1] {
    [path(
        "to",
        "The backup's directory, which is empty or does not exist",
    )]
}

pub(super) fn restore_arguments() -> Vec<Arg> {
    let from = path("from", "The backup");
    std::iter::once(from)
        .chain(node::found_arguments())
        .collect()
}

pub(super) fn verify_arguments() -> [Arg; 1] {
    [Arg::new("directory")
        .value_name("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The data directory of a node that does not run, or a backup")]
}

fn directory(matches: &ArgMatches, name: &str) -> PathBuf {
    let given = matches.get_one::<PathBuf>(name);
    given.cloned().unwrap_or_default()
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn failed(error: &BackupError) -> Failure {
    match error {
        BackupError::Client { .. } | BackupError::NoNode | BackupError::NoCopy { .. } => {
            Failure::new(3, error)
        }
        _ => Failure::new(1, error),
    }
}

pub(super) async fn take(matches: &ArgMatches) -> Result<(), Failure> {
    let clients = ask::each(matches).await?;
    let to = directory(matches, "to");
    let mut progress = ProgressBar::new("backing up", Unit::Of("partitions"));
    let taken = backup::take(&clients, &to, |done, of| {
        progress.at(done as u64, of as u64)
    })
    .await;
    drop(progress);
    let manifest = taken.map_err(|error| failed(&error))?;
    say(&format!(
        "backed up {} keys of {} partitions in {} to {}: cluster {} at the end of epoch {}",
        manifest.versions(),
        manifest.partitions,
        megabytes(manifest.bytes()),
        to.display(),
        manifest.cluster,
        manifest.epoch
    ));
    Ok(())
}

pub(super) async fn restore(matches: &ArgMatches) -> Result<(), Failure> {
    let given = matches.get_one::<ClusterId>("cluster").copied();
    let founding = node::founding(matches)?;
    let to = directory(matches, "data-dir");
    let restored = backup::restore(&directory(matches, "from"), &to, founding, given).await;
    let (restored, cluster) = restored.map_err(|error| Failure::new(1, error))?;
    say(&format!("cluster {cluster}"));
    say(&format!(
        "restored {} of {} keys, as of the end of epoch {} of cluster {}, to {}",
        restored.versions,
        restored.manifest.versions(),
        restored.manifest.epoch,
        restored.manifest.cluster,
        to.display()
    ));
    Ok(())
}

pub(super) async fn verify(matches: &ArgMatches) -> Result<(), Failure> {
    let directory = directory(matches, "directory");
    let looked = coeval_env::fs::exists(&directory).await;
    if !looked.unwrap_or(false) {
        let words = format!("there is no directory {}", directory.display());
        return Err(Failure::new(NOT_LOOKED_AT, words));
    }
    let is_backup = coeval_env::fs::exists(directory.join("BACKUP")).await;
    let report = match is_backup.unwrap_or(false) {
        true => of_backup(&directory).await?,
        false => of_node(&directory).await?,
    };
    say(&format!("{}\n{report}sound", directory.display()));
    Ok(())
}

async fn of_backup(directory: &std::path::Path) -> Result<String, Failure> {
    let manifest = backup::read(directory, |_| ())
        .await
        .map_err(|error| match error {
            BackupError::Damaged { .. } => Failure::new(1, format!("damaged: {error}")),
            other => Failure::new(NOT_LOOKED_AT, other),
        })?;
    Ok(format!(
        "  backup      of cluster {} at the end of epoch {}\n  files       {}, with {} keys in {}\n",
        manifest.cluster,
        manifest.epoch,
        manifest.parts.len(),
        manifest.versions(),
        megabytes(manifest.bytes())
    ))
}

async fn of_node(directory: &std::path::Path) -> Result<String, Failure> {
    let report = server::verify(directory)
        .await
        .map_err(|error| match error.is_damage() {
            true => Failure::new(1, format!("damaged: {error}")),
            false => Failure::new(NOT_LOOKED_AT, error),
        })?;
    let founding = &report.founding;
    let mut text = match report.incarnation {
        0 => format!(
            "  node        {} of cluster {}, never started\n",
            founding.node, founding.cluster
        ),
        start => format!(
            "  node        {} of cluster {}, start {start}\n",
            founding.node, founding.cluster
        ),
    };
    if let Some(council) = report.council {
        text.push_str(&format!(
            "  council     {} bytes of log behind a snapshot of {} bytes\n",
            council.log_bytes, council.snapshot_bytes
        ));
    }
    if let Some(epochs) = report.epochs {
        if let Some((epoch, versions, bytes)) = epochs.checkpoint {
            let bytes = megabytes(bytes);
            text.push_str(&format!(
                "  checkpoint  {versions} keys in {bytes}, at the end of epoch {epoch}\n"
            ));
        }
        text.push_str(&format!(
            "  log         {} transactions in {} files of {}; sealed through epoch {}\n",
            epochs.transactions,
            epochs.files,
            megabytes(epochs.bytes),
            epochs.sealed
        ));
        if epochs.cut_bytes > 0 {
            text.push_str(&format!(
                "              {} bytes at the end of the newest file make no whole record; the \
                 next start cuts them\n              off. A crash leaves such bytes of epochs that \
                 were not closed; damage to the newest\n              file looks the same, and is \
                 noticed by the cluster: it removes this node\n",
                epochs.cut_bytes
            ));
        }
    }
    Ok(text)
}
