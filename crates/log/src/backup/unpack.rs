//! The receiver of a backup: writes its files from the stream.

use std::path::{Path, PathBuf};

use coeval_env::fs;

use super::BackupSummary;
use super::archive::{Item, Parser};
use super::destination::Destination;
use super::manifest::{BACKUP, Listed, Manifest};
use crate::Error;
use crate::checkpoint::CHECKPOINTS;

/// Receives the stream of a backup, and writes its files into a directory. Without
/// [`Unpacker::finish`] the directory is no backup that can be restored.
#[derive(Debug)]
pub struct Unpacker {
    directory: PathBuf,
    destination: Destination,
    parser: Parser,
    file: Option<Open>,
    files: Vec<Listed>,
    end: Option<Item>,
    bytes: u64,
}

/// The file that is being written.
#[derive(Debug)]
struct Open {
    file: fs::File,
    path: PathBuf,
    listed: Listed,
    /// Bytes of it that have been written.
    at: u64,
}

/// Syncs a directory and its folders, so that the names in them are durable.
pub(super) async fn sync_names(directory: &Path) -> Result<(), Error> {
    for folder in [directory.join("log"), directory.join(CHECKPOINTS)] {
        fs::sync_dir(&folder)
            .await
            .map_err(Error::io("sync", &folder))?;
    }
    fs::sync_dir(directory)
        .await
        .map_err(Error::io("sync", directory))?;
    if let Some(parent) = directory.parent().filter(|parent| *parent != Path::new("")) {
        fs::sync_dir(parent)
            .await
            .map_err(Error::io("sync", parent))?;
    }
    Ok(())
}

impl Unpacker {
    /// An unpacker for a directory that is empty, or does not exist.
    pub async fn new(directory: &Path) -> Result<Self, Error> {
        let destination = Destination::make(directory).await?;
        Ok(Self {
            directory: directory.to_owned(),
            destination,
            parser: Parser::default(),
            file: None,
            files: Vec::new(),
            end: None,
            bytes: 0,
        })
    }

    /// Gives the backup up: the directory is empty or absent again, as it was before.
    pub async fn discard(self) {
        drop(self.file);
        self.destination.undo().await;
    }

    /// Bytes of files received so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Processes the next bytes of the stream, which may be split anywhere.
    pub async fn feed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.parser.feed(bytes);
        while let Some(item) = self.parser.next().map_err(broken)? {
            if self.end.is_some() {
                return Err(broken("there is more behind its end"));
            }
            match item {
                Item::File {
                    name,
                    length,
                    follows,
                } => {
                    self.end_file().await?;
                    let listed = Listed {
                        name,
                        length,
                        bytes: follows,
                        crc: 0,
                    };
                    self.begin_file(listed).await?;
                }
                Item::Data(data) => self.write(&data).await?,
                end @ Item::End { .. } => {
                    self.end_file().await?;
                    self.end = Some(end);
                }
            }
        }
        Ok(())
    }

    async fn begin_file(&mut self, listed: Listed) -> Result<(), Error> {
        let path = self.directory.join(&listed.name);
        let file = fs::open(&path, fs::OpenOptions::CREATE_NEW)
            .await
            .map_err(Error::io("create", &path))?;
        self.file = Some(Open {
            file,
            path,
            listed,
            at: 0,
        });
        Ok(())
    }

    async fn write(&mut self, data: &[u8]) -> Result<(), Error> {
        let open = self
            .file
            .as_mut()
            .ok_or_else(|| broken("bytes of no file"))?;
        if data.len() as u64 > open.listed.bytes - open.at {
            return Err(broken("a file has more bytes than was said"));
        }
        open.file
            .write_at(data, open.at)
            .await
            .map_err(Error::io("write", &open.path))?;
        open.listed.crc = crc32c::crc32c_append(open.listed.crc, data);
        open.at += data.len() as u64;
        self.bytes += data.len() as u64;
        Ok(())
    }

    async fn end_file(&mut self) -> Result<(), Error> {
        let Some(open) = self.file.take() else {
            return Ok(());
        };
        if open.at < open.listed.bytes {
            return Err(broken("a file ends too early"));
        }
        if open.listed.length > open.at {
            open.file
                .set_len(open.listed.length)
                .await
                .map_err(Error::io("lengthen", &open.path))?;
        }
        open.file
            .sync_all()
            .await
            .map_err(Error::io("sync", &open.path))?;
        self.files.push(open.listed);
        Ok(())
    }

    /// Called when the stream has ended: writes the manifest, which makes the directory a
    /// backup. On an error the directory is what it was before.
    pub async fn finish(self) -> Result<BackupSummary, Error> {
        let finished = self.write_manifest().await;
        if finished.is_err() {
            self.discard().await;
        }
        finished
    }

    async fn write_manifest(&self) -> Result<BackupSummary, Error> {
        let Some(Item::End {
            end,
            taken_at,
            database,
        }) = self.end.clone()
        else {
            return Err(broken("it was broken off"));
        };
        if !self.parser.is_empty() {
            return Err(broken("there is more behind its end"));
        }
        sync_names(&self.directory).await?;
        let manifest = Manifest {
            database,
            end,
            taken_at,
            files: self.files.clone(),
        };
        let path = self.directory.join(BACKUP);
        let file = fs::open(&path, fs::OpenOptions::CREATE_NEW)
            .await
            .map_err(Error::io("create", &path))?;
        file.write_at(manifest.encode().as_bytes(), 0)
            .await
            .map_err(Error::io("write", &path))?;
        file.sync_all().await.map_err(Error::io("sync", &path))?;
        sync_names(&self.directory).await?;
        Ok(manifest.summary())
    }
}

fn broken(what: &str) -> Error {
    Error::Setting(format!("the stream of the backup is not whole: {what}"))
}
