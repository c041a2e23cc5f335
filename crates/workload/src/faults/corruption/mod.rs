//! The corruption test: every kind of edit of every kind of file must be refused,
//! repaired or harmless; the server must never return wrong data.
//!
//! ```text
//!   sound directory ─ copy ─ edit one file ─ start ─┬─ refuses, and names the file
//!        ▲                                          ├─ serves all of it
//!        └── made once: commits, a checkpoint,      └─ serves something else: WRONG
//!            more commits, a stop
//! ```
//!
//! A real server creates the directories (with the data of [`content`], whose states are
//! all distinct): one after a clean shutdown, one after a kill, and two backups. The test
//! lists their files, and a file of a kind that [`FileKind`] does not know is an error,
//! so no engineer can add a kind of file without testing its corruption.
//!
//! Allowed outcomes:
//!
//! | after an edit of | may follow |
//! | --- | --- |
//! | any file of a data directory, a backup or the configuration | the server, or the restore, refuses, and names an edited file; for a deleted file, at least its folder |
//! | the same | the server shows all commits: the damaged data is not needed, or can be rebuilt |
//! | the last segment of a log that was not closed cleanly | the server shows a prefix of the commits: a tail damaged after a crash is indistinguishable from a torn write |
//! | a settings or access file | the server obeys it, if it is valid |
//!
//! Any other outcome is wrong: another state, an older one, a panic, no answer.
//!
//! Invariants:
//! - Each trial works on a copy of its own, so its edit is the only damage.
#![expect(clippy::disallowed_methods, reason = "makes and edits real files")]

mod content;
mod edit;
mod kind;
mod make;
mod table;
mod trial;

use std::path::Path;
use std::{fs, io};

use coeval_types::planted::Bug;

use crate::chance::Chance;
use crate::server;

pub use edit::Edit;
pub use kind::FileKind;
pub use table::Report;

use make::Made;
use table::Cell;

/// Parameters of the corruption test.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed that decides where files are edited.
    pub seed: u64,
    /// How often each edit is made of each kind of file.
    pub trials: u32,
    /// Number of kinds of edit made of each kind of file: all, or a random selection.
    pub edits: usize,
    /// Whether `coeval verify` is run as well.
    pub verify: bool,
    /// Restricts the test to one edit of one kind of file.
    pub only: Option<(FileKind, Edit)>,
    /// A known bug injected into the server, which needs a binary built with the feature
    /// `planted`.
    pub bug: Option<Bug>,
}

/// Reason why no verdict was reached.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server failed on an unedited directory.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// A statement failed on an unedited directory.
    #[error("{doing}: {source}")]
    Statement {
        /// Purpose of the statement.
        doing: &'static str,
        /// The client library's error.
        source: tokio_postgres::Error,
    },
    /// A command failed on an unedited directory.
    #[error("coeval {command}: {said}")]
    Command {
        /// Name of the command.
        command: &'static str,
        /// Output of the command.
        said: String,
    },
    /// A file of an unlisted kind; holds its path.
    #[error(
        "{0} is of a kind that is not listed: add it to FileKind in \
         crates/workload/src/faults/corruption/kind.rs, and test its corruption"
    )]
    Unlisted(String),
    /// A listed kind of file that no directory contains.
    #[error("there is no file of the kind {0} to be damaged")]
    Absent(&'static str),
    /// The machine refuses an operation that the test needs.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A random selection of `count` kinds of edit.
fn drawn(count: usize, chance: &mut Chance) -> Vec<Edit> {
    let mut all: Vec<Edit> = Edit::ALL.iter().map(|(edit, _)| *edit).collect();
    while all.len() > count.max(1) {
        let one = chance.within(0..all.len() as u64);
        all.remove(usize::try_from(one).unwrap_or(0));
    }
    all
}

/// Runs all trials with servers of `binary` in `folder`, which must be empty.
///
/// # Errors
/// If no verdict was reached.
pub async fn run(binary: &Path, folder: &Path, options: &Options) -> Result<Report, Error> {
    let made = Made::new(binary, folder).await?;
    let mut chance = Chance::new(options.seed);
    let mut report = Report::default();
    for (place, directory) in made.directories.iter().enumerate() {
        for (kind, _) in FileKind::ALL {
            let files = directory.of_kind(kind);
            if files.is_empty() {
                continue;
            }
            for edit in drawn(options.edits, &mut chance) {
                if options.only.is_some_and(|only| only != (kind, edit)) {
                    continue;
                }
                for number in 0..options.trials {
                    let which = chance.within(0..files.len() as u64);
                    let file = &files[usize::try_from(which).unwrap_or(0)];
                    let folder = folder.join(format!("trial-{place}-{kind:?}-{edit:?}-{number}"));
                    let trial = trial::Trial {
                        binary,
                        directory,
                        kind,
                        file,
                        edit,
                        verify: options.verify,
                        bug: options.bug,
                    };
                    let Some((what, outcome)) = trial.run(&folder, &mut chance).await? else {
                        fs::remove_dir_all(&folder)?;
                        continue;
                    };
                    // The directory of a wrong outcome is kept for inspection.
                    if !outcome.is_wrong() {
                        fs::remove_dir_all(&folder)?;
                    }
                    let cell = Cell {
                        killed: directory.killed,
                        kind,
                        edit,
                    };
                    report.add(cell, &what, outcome);
                }
            }
        }
    }
    if options.edits >= Edit::ALL.len() && options.only.is_none() {
        report.see_all_kinds()?;
    }
    Ok(report)
}
