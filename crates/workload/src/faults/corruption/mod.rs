//! Every kind of file, and everything that can become of it: refused, repaired or
//! harmless, never served wrong.
//!
//! ```text
//!   sound directory ─ copy ─ edit one file ─ start ─┬─ refuses, and names the file
//!        ▲                                          ├─ serves all of it
//!        └── made once: commits, a checkpoint,      └─ serves something else: WRONG
//!            more commits, a stop
//! ```
//!
//! Directories are made by a real server ([`content`] has states that can all be told
//! apart), one that was stopped in order and one that was killed; so are two backups.
//! What there is in them is found by looking: a file of a kind that [`FileKind`] does not
//! know is an error, so nobody adds one without saying here what its damage comes to.
//!
//! What may follow:
//!
//! | after an edit of | may follow |
//! | --- | --- |
//! | any file of a directory, a backup or beside them | the server, or the restore, refuses, and names a file that was edited; of one that is gone, at least its folder |
//! | the same | it serves all that was committed: what was damaged is not needed, or can be had again |
//! | the last segment of a log that was not closed in order | it serves what was committed up to some commit: a tail that is damaged after a crash cannot be told from one that was torn by it |
//! | a settings or access file | it is taken at its word, if it makes sense |
//!
//! Anything else is wrong: another state, an older one, a panic, silence.
//!
//! Invariants:
//! - Each trial has a copy of its own, so one edit is all that is wrong with it.
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

/// What to do, and how much of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides where files are edited.
    pub seed: u64,
    /// How often each edit is made of each kind of file.
    pub trials: u32,
    /// How many of the edits are made of each kind of file: all of them, or some that the
    /// seed draws.
    pub edits: usize,
    /// Whether `coeval verify` is asked as well.
    pub verify: bool,
    /// Nothing but this edit of this kind of file.
    pub only: Option<(FileKind, Edit)>,
    /// A bug that the server has, which takes a binary that was built with the feature
    /// `planted`.
    pub bug: Option<Bug>,
}

/// Why no verdict was reached.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server did not do what it must while nothing was edited.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// Likewise a statement.
    #[error("{doing}: {source}")]
    Statement {
        /// What it was for.
        doing: &'static str,
        /// What the server said.
        source: tokio_postgres::Error,
    },
    /// Likewise a command.
    #[error("coeval {command}: {said}")]
    Command {
        /// Which.
        command: &'static str,
        /// What it said.
        said: String,
    },
    /// A file that nobody has told this of.
    #[error(
        "{0} is of a kind that is not listed: add it to FileKind in \
         crates/workload/src/faults/corruption/kind.rs, and see what its damage comes to"
    )]
    Unlisted(String),
    /// A kind of file that there is not, although it is listed.
    #[error("there is no file of the kind {0} to be damaged")]
    Absent(&'static str),
    /// The machine refuses something that this needs.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// So many edits.
fn drawn(count: usize, chance: &mut Chance) -> Vec<Edit> {
    let mut all: Vec<Edit> = Edit::ALL.iter().map(|(edit, _)| *edit).collect();
    while all.len() > count.max(1) {
        let one = chance.within(0..all.len() as u64);
        all.remove(usize::try_from(one).unwrap_or(0));
    }
    all
}

/// Does everything with servers of `binary` in `folder`, which is to be empty.
///
/// # Errors
/// When no verdict was reached.
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
                    // What is wrong stays to be looked at.
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
