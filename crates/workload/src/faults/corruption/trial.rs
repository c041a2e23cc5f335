//! One trial of the corruption test: an edit of one file, and how a server handles it.
#![expect(clippy::disallowed_methods, reason = "makes and edits real files")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coeval_env as env;
use coeval_types::planted::{self, Bug};

use super::content::{self, Shown};
use super::edit::{Done, edit};
use super::make::{self, Directory};
use super::{Edit, Error, FileKind};
use crate::chance::Chance;
use crate::server::{self, Launch};

/// Longest time for a server to answer or exit.
const PATIENCE: Duration = Duration::from_secs(120);

/// Outcome of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server refused, and named the file.
    Refused,
    /// The server shows all commits.
    Whole,
    /// The server shows a shorter prefix of the commits, where that is allowed.
    Shorter,
    /// A forbidden outcome, described.
    Wrong(String),
}

impl Outcome {
    /// Whether the outcome is forbidden.
    #[must_use]
    pub const fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong(_))
    }
}

/// What a server did with a directory.
enum Served {
    Refused(String),
    Showed(Shown),
    Wrong(String),
}

pub(super) struct Trial<'trial> {
    pub(super) binary: &'trial Path,
    pub(super) directory: &'trial Directory,
    pub(super) kind: FileKind,
    pub(super) file: &'trial Path,
    pub(super) edit: Edit,
    pub(super) verify: bool,
    pub(super) bug: Option<Bug>,
}

impl Trial<'_> {
    /// Runs the trial in a folder of its own. Returns the edit and its outcome; `None` if
    /// the edit did not apply.
    pub(super) async fn run(
        &self,
        folder: &Path,
        chance: &mut Chance,
    ) -> Result<Option<(String, Outcome)>, Error> {
        let edited = folder.join("edited");
        make::copy(&self.directory.at, &edited)?;
        let file = edited.join(self.file);
        let other = self.directory.other(self.file);
        let other = other.map(|other| edited.join(other));
        let older = self.directory.was(self.file);
        let done = edit(self.edit, &file, other.as_deref(), older.as_deref(), chance)?;
        let Some(done) = done else { return Ok(None) };
        let what = format!("{}, {}", self.file.display(), done.what);
        let outcome = self.outcome(folder, &edited, &done).await?;
        Ok(Some((what, outcome)))
    }

    async fn outcome(&self, folder: &Path, edited: &Path, done: &Done) -> Result<Outcome, Error> {
        let home = folder.join("home");
        fs::create_dir_all(&home)?;
        let data = home.join("data");
        let mut launch = Launch::coeval(self.binary.to_owned(), &home, server::free_port().await?)?;
        if let Some(bug) = self.bug {
            let variable = (planted::VARIABLE.to_owned(), bug.name().into());
            launch.environment.push(variable);
        }
        if self.kind.is_of_backup() {
            let (from, to) = (edited.to_string_lossy(), data.to_string_lossy());
            let arguments = ["--from", &from, "--data-dir", &to];
            let (restored, said) = make::command(self.binary, "restore", &arguments).await?;
            if !restored {
                return Ok(self.refused(&said, done));
            }
        } else if let Some(sound) = &self.directory.beside {
            make::copy(sound, &data)?;
            let file = edited.join(self.file).to_string_lossy().into_owned();
            let option = match self.kind {
                FileKind::Settings => "--config",
                _ => "--hba-file",
            };
            launch.arguments.extend([option.to_owned(), file]);
        } else {
            fs::rename(edited, &data)?;
        }
        let called_sound = match self.verify && data.exists() {
            true => {
                let data = data.to_string_lossy();
                let (sound, said) = make::command(self.binary, "verify", &[&data]).await?;
                if said.contains("panicked") {
                    return Ok(Outcome::Wrong(format!("verify: {said}")));
                }
                Some(sound)
            }
            false => None,
        };
        let outcome = match serve(&launch).await? {
            Served::Wrong(what) => Outcome::Wrong(what),
            Served::Refused(said) if called_sound == Some(true) => Outcome::Wrong(format!(
                "verify calls it sound, and a start does not: {said}"
            )),
            Served::Refused(said) => self.refused(&said, done),
            Served::Showed(Shown::Refused(said)) => self.refused(&said, done),
            Served::Showed(Shown::Wrong(what)) => Outcome::Wrong(what),
            Served::Showed(Shown::State(state)) => self.served(state),
        };
        if !matches!(outcome, Outcome::Whole | Outcome::Shorter) {
            return Ok(outcome);
        }
        // A repair must be permanent.
        Ok(match serve(&launch).await? {
            Served::Showed(Shown::State(state)) if self.served(state) == outcome => outcome,
            Served::Showed(other) => Outcome::Wrong(format!("shows {other:?} after a restart")),
            Served::Refused(said) => Outcome::Wrong(format!("a restart is refused: {said}")),
            Served::Wrong(what) => Outcome::Wrong(format!("after a restart: {what}")),
        })
    }

    fn refused(&self, said: &str, done: &Done) -> Outcome {
        let contains =
            |name: Option<&OsStr>| name.is_some_and(|name| said.contains(&*name.to_string_lossy()));
        // The name of a deleted file may be unknown to the server; then the message must
        // name its folder.
        let gone = self.edit == Edit::Delete;
        let names = |file: &PathBuf| {
            let folder = file.parent().and_then(Path::file_name);
            contains(file.file_name()) || gone && contains(folder)
        };
        if said.contains("panicked") {
            Outcome::Wrong(format!("a panic: {said}"))
        } else if done.files.iter().any(names) {
            Outcome::Refused
        } else {
            Outcome::Wrong(format!("refused, and the file is not named: {said}"))
        }
    }

    fn served(&self, state: u64) -> Outcome {
        let Directory {
            beside,
            killed,
            state: whole,
            ..
        } = self.directory;
        if beside.is_some() || state == *whole {
            Outcome::Whole
        } else if *killed && self.kind == FileKind::LastSegment && state < *whole {
            Outcome::Shorter
        } else {
            Outcome::Wrong(format!("serves commit {state} instead of {whole}"))
        }
    }
}

/// Starts a server, reads its data, and stops it.
async fn serve(launch: &Launch) -> Result<Served, Error> {
    let words = |from: u64| {
        let log = fs::read(&launch.log).unwrap_or_default();
        let from = usize::try_from(from).unwrap_or(0).min(log.len());
        String::from_utf8_lossy(&log[from..]).into_owned()
    };
    let before = fs::metadata(&launch.log).map_or(0, |log| log.len());
    let mut server = launch.start()?;
    let began = env::now();
    let connection = loop {
        if server.ended(Duration::from_millis(1)).await?.is_some() {
            return Ok(Served::Refused(words(before)));
        }
        match crate::connect(launch.port).await {
            Ok(connection) => break connection,
            // The edited access file rejects all clients, as an administrator may intend.
            Err(error)
                if error
                    .as_db_error()
                    .is_some_and(|said| said.code().code().starts_with("28")) =>
            {
                server.stop().await?;
                return Ok(Served::Showed(Shown::State(0)));
            }
            Err(_) if began.elapsed() > PATIENCE => {
                return Ok(Served::Wrong(format!(
                    "it neither answers nor ends: {}",
                    words(before)
                )));
            }
            Err(_) => env::sleep(Duration::from_millis(2)).await,
        }
    };
    let shown = content::look(&connection).await;
    drop(connection);
    match server.stop().await {
        Ok(()) => {}
        Err(error @ server::Error::Ended { .. }) => {
            return Ok(Served::Wrong(format!(
                "it shows {shown:?}, and then: {error}"
            )));
        }
        Err(error) => return Err(error.into()),
    }
    let said = words(before);
    if said.contains("panicked") {
        return Ok(Served::Wrong(format!("a panic: {said}")));
    }
    Ok(Served::Showed(shown))
}
