//! Creates the data directories and backups that the corruption test edits.
#![expect(clippy::disallowed_methods, reason = "makes real files")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use coeval_env as env;

use super::{Error, FileKind, content};
use crate::server::{self, Launch, Server};

/// Number of commits in the older version, in the sound version, and before the kill.
const OLDER: u64 = 150;
const SOUND: u64 = 500;
const KILLED: u64 = 520;
/// Segment size: small, so that the log has several segments.
const SEGMENT: (&str, u64) = ("log-segment-bytes", 16_384);
/// Size of the reserve: small, because directories are copied.
const RESERVE: (&str, u64) = ("disk-reserve-bytes", 65_536);
/// Length of a segment's header, in bytes.
const HEAD: usize = 4096;

/// A directory to be edited, with its expected state.
pub(super) struct Directory {
    /// Path of the directory.
    pub(super) at: PathBuf,
    /// An older version of the directory.
    pub(super) older: Option<PathBuf>,
    /// Files in the directory, with their kinds.
    pub(super) files: Vec<(FileKind, PathBuf)>,
    /// The state that a server on this directory must show.
    pub(super) state: u64,
    /// Whether the server was killed instead of shut down cleanly.
    pub(super) killed: bool,
    /// For a directory of configuration files: the data directory that the server uses
    /// with them.
    pub(super) beside: Option<PathBuf>,
}

impl Directory {
    /// The files of a kind, by their paths in the directory.
    pub(super) fn of_kind(&self, kind: FileKind) -> Vec<PathBuf> {
        let of_kind = self.files.iter().filter(|(is, _)| *is == kind);
        of_kind.map(|(_, path)| path.clone()).collect()
    }

    /// The file to swap with `file`: the next one with other contents.
    pub(super) fn other(&self, file: &Path) -> Option<PathBuf> {
        let at = self.files.iter().position(|(_, path)| path == file)?;
        let others = (1..self.files.len()).map(|step| &self.files[(at + step) % self.files.len()]);
        let mut others = others.map(|(_, path)| path);
        let own = fs::read(self.at.join(file)).ok()?;
        let differs =
            |path: &&PathBuf| fs::read(self.at.join(path)).is_ok_and(|other| other != own);
        others.find(differs).cloned()
    }

    /// An older version of `file`: the file of the same name, or else one of the same
    /// kind.
    pub(super) fn was(&self, file: &Path) -> Option<PathBuf> {
        let older = self.older.as_ref()?;
        let same = older.join(file);
        if same.exists() {
            return Some(same);
        }
        let folder = older.join(file.parent()?);
        let mut others: Vec<PathBuf> = fs::read_dir(folder)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        others.sort();
        others.pop()
    }
}

/// All directories to be edited.
pub(super) struct Made {
    pub(super) directories: Vec<Directory>,
}

/// Copies a folder recursively.
pub(super) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// All files below a folder, by their paths relative to it, in order.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(inside) = path.strip_prefix(folder) {
                files.push(inside.to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The segment that contains the end of the log: the last one with any records.
fn last_segment(folder: &Path, files: &[PathBuf]) -> PathBuf {
    let mut segments = files.iter().filter(|path| path.starts_with("log"));
    let has_log = |path: &&PathBuf| {
        fs::read(folder.join(path))
            .is_ok_and(|bytes| bytes.iter().skip(HEAD).any(|byte| *byte != 0))
    };
    let last = segments.rfind(has_log);
    last.cloned().unwrap_or_default()
}

fn directory(at: PathBuf, older: Option<PathBuf>, state: u64) -> Result<Directory, Error> {
    let found = files(&at)?;
    let is_backup = found.iter().any(|path| path == Path::new("BACKUP"));
    let last = last_segment(&at, &found);
    let known = |path: PathBuf| {
        let kind = match is_backup {
            true => FileKind::of_backup(&path),
            false => FileKind::of_data(&path, &last),
        };
        let kind = kind.ok_or_else(|| Error::Unlisted(path.display().to_string()))?;
        Ok((kind, path))
    };
    let files = found.into_iter().map(known).collect::<Result<_, Error>>()?;
    Ok(Directory {
        at,
        older,
        files,
        state,
        killed: false,
        beside: None,
    })
}

/// Runs one of the server's other commands to its end.
pub(super) async fn command(
    binary: &Path,
    name: &'static str,
    arguments: &[&str],
) -> Result<(bool, String), Error> {
    let mut command = Command::new(binary);
    command.arg(name).args(arguments).stdin(Stdio::null());
    // On a thread of its own: the server that the command connects to may run on this
    // one.
    let ended = env::spawn_dedicated("command", move || async move { command.output() });
    let said = ended.await.map_err(|error| Error::Command {
        command: name,
        said: error.to_string(),
    })??;
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((said.status.success(), text))
}

async fn backup(binary: &Path, port: u16, to: &Path) -> Result<(), Error> {
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let to = to.to_string_lossy();
    let (done, said) = command(binary, "backup", &["--url", &url, "--to", &to]).await?;
    match done {
        true => Ok(()),
        false => Err(Error::Command {
            command: "backup",
            said,
        }),
    }
}

/// Makes commits on a running server.
async fn commit(server: &mut Server, numbers: std::ops::RangeInclusive<u64>) -> Result<(), Error> {
    let connection = server.ready().await?;
    let failed = |doing| move |source| Error::Statement { doing, source };
    if *numbers.start() == 1 {
        let made = content::create(&connection).await;
        made.map_err(failed("making the tables"))?;
    }
    let done = content::commit(&connection, numbers).await;
    done.map_err(failed("a commit"))
}

impl Made {
    pub(super) async fn new(binary: &Path, folder: &Path) -> Result<Self, Error> {
        let home = folder.join("home");
        let port = server::free_port().await?;
        let launch = Launch::coeval(binary.to_owned(), &home, port)?;
        let data = home.join("data");
        let at = |name: &str| folder.join(name);

        // The older version, with a checkpoint.
        let frugal = launch
            .clone()
            .with(&[SEGMENT, RESERVE, ("checkpoint-log-bytes", 10_000)]);
        let mut server = frugal.start()?;
        commit(&mut server, 1..=OLDER).await?;
        while !has_checkpoint(&launch)? {
            env::sleep(Duration::from_millis(5)).await;
        }
        backup(binary, port, &at("backup-older")).await?;
        server.stop().await?;
        copy(&data, &at("older"))?;

        // More log after the checkpoint, and no further checkpoint.
        let launch = launch.with(&[SEGMENT, RESERVE, ("checkpoint-log-bytes", 1 << 40)]);
        let mut server = launch.start()?;
        commit(&mut server, OLDER + 1..=SOUND).await?;
        backup(binary, port, &at("backup")).await?;
        server.stop().await?;
        copy(&data, &at("sound"))?;

        let mut server = launch.start()?;
        commit(&mut server, SOUND + 1..=KILLED).await?;
        server.kill()?;
        copy(&data, &at("killed"))?;

        let sound = directory(at("sound"), Some(at("older")), SOUND)?;
        let mut killed = directory(at("killed"), Some(at("sound")), KILLED)?;
        killed.killed = true;
        let backup = directory(at("backup"), Some(at("backup-older")), SOUND)?;
        let mut directories = vec![sound, killed, backup];
        for (kind, name, text, older) in [
            (
                FileKind::Settings,
                "coeval.toml",
                "lock_timeout = \"5s\"\nmax_connections = 50\n",
                "max_connections = 40\n",
            ),
            (
                FileKind::Access,
                "hba.conf",
                "host all all 127.0.0.1/32 trust\n",
                "host all all 0.0.0.0/0 reject\n",
            ),
        ] {
            let (now, before) = (at(&format!("with-{name}")), at(&format!("before-{name}")));
            fs::create_dir_all(&now)?;
            fs::create_dir_all(&before)?;
            fs::write(now.join(name), text)?;
            fs::write(before.join(name), older)?;
            directories.push(Directory {
                at: now,
                older: Some(before),
                files: vec![(kind, PathBuf::from(name))],
                state: SOUND,
                killed: false,
                beside: Some(at("sound")),
            });
        }
        Ok(Self { directories })
    }
}

/// Whether at least one checkpoint exists, and all checkpoints are complete.
fn has_checkpoint(launch: &Launch) -> Result<bool, Error> {
    let names = launch.checkpoint_files()?;
    let whole = |name: &String| name.ends_with(".checkpoint");
    Ok(names.iter().any(whole) && names.iter().all(whole))
}
