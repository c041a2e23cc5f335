//! Files: positioned reads and writes, syncs, and directory operations.
//!
//! In the real environment every call here is a plain system call that blocks the calling
//! thread until it is done. That is deliberate: the flusher writes the log from a
//! dedicated thread that does nothing else, and recovery reads on threads of its own, so
//! handing the calls to a thread pool would add two thread switches to each commit and
//! relieve no other task. A task that shares its executor with sessions uses files only
//! to open a few while it starts.
//!
//! In both environments a crash preserves bytes whose [`File::sync_data`] (or
//! [`File::sync_all`], when the length changed) has returned, under a name whose
//! directory's [`sync_dir`] has returned. Every other written sector may have become
//! durable or not, in any order.
//!
//! Whatever the process's umask, a new file belongs to its owner alone (0600), and so does a
//! new directory (0700); with [`allow_group_access`] their group may read them (0640, 0750).

use std::io;
use std::path::{Path, PathBuf};

use crate::real;
#[cfg(feature = "sim")]
use crate::sim;
use crate::world::{World, current};

/// Options for opening a file. The default reads an existing file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Opens the file for writing, too.
    pub write: bool,
    /// Creates the file when it does not exist.
    pub create: bool,
    /// Creates the file, and fails when it exists.
    pub create_new: bool,
    /// Truncates the file to zero bytes.
    pub truncate: bool,
}

impl OpenOptions {
    /// Reads an existing file.
    pub const READ: Self = Self {
        write: false,
        create: false,
        create_new: false,
        truncate: false,
    };
    /// Reads and writes an existing file.
    pub const WRITE: Self = Self {
        write: true,
        ..Self::READ
    };
    /// Reads and writes a file, created if it does not exist.
    pub const CREATE: Self = Self {
        create: true,
        ..Self::WRITE
    };
    /// Reads and writes a file, created or truncated to zero bytes.
    pub const REPLACE: Self = Self {
        truncate: true,
        ..Self::CREATE
    };
    /// Reads and writes a new file, and fails when it exists.
    pub const CREATE_NEW: Self = Self {
        create_new: true,
        ..Self::WRITE
    };
}

/// An open file.
#[derive(Debug)]
pub struct File(FileKind);

#[derive(Debug)]
enum FileKind {
    Real(real::fs::File),
    #[cfg(feature = "sim")]
    Sim(sim::fs::File),
}

impl File {
    /// Reads into `buffer` from `offset` on, and returns the number of bytes read: fewer
    /// than requested, or none, at the end of the file.
    pub async fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.0 {
            FileKind::Real(file) => file.read_at(buffer, offset),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.read_at(buffer, offset).await,
        }
    }

    /// Fills `buffer` from `offset` on; returns an error when the file ends before.
    pub async fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self
                .read_at(&mut buffer[filled..], offset + filled as u64)
                .await?
            {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        Ok(())
    }

    /// Writes all of `bytes` at `offset`. On an error any part may have been
    /// written.
    pub async fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match &self.0 {
            FileKind::Real(file) => file.write_at(bytes, offset),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.write_at(bytes, offset).await,
        }
    }

    /// Makes written bytes durable, with as much metadata as reading them back needs.
    /// After an error the state of every write since the last success is unknown, and a
    /// retry that succeeds proves nothing.
    pub async fn sync_data(&self) -> io::Result<()> {
        match &self.0 {
            FileKind::Real(file) => file.sync_data(),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.sync().await,
        }
    }

    /// Like [`File::sync_data`], with all metadata.
    pub async fn sync_all(&self) -> io::Result<()> {
        match &self.0 {
            FileKind::Real(file) => file.sync_all(),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.sync().await,
        }
    }

    /// Reserves `length` bytes of disk space for the file, so that writing them cannot
    /// fail for lack of space, and makes the file that long. New bytes read as zeros.
    pub async fn allocate(&self, length: u64) -> io::Result<()> {
        match &self.0 {
            FileKind::Real(file) => file.allocate(length),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.allocate(length).await,
        }
    }

    /// Truncates the file, or extends it by zeros.
    pub async fn set_len(&self, length: u64) -> io::Result<()> {
        match &self.0 {
            FileKind::Real(file) => file.set_len(length),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.set_len(length).await,
        }
    }

    /// The file's length in bytes.
    pub async fn len(&self) -> io::Result<u64> {
        match &self.0 {
            FileKind::Real(file) => file.len(),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.len().await,
        }
    }

    /// Locks the file exclusively until it is closed; returns false when another open
    /// file holds the lock. The lock ends with the process, however that ends.
    pub async fn try_lock(&self) -> io::Result<bool> {
        match &self.0 {
            FileKind::Real(file) => file.try_lock(),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.try_lock().await,
        }
    }
}

/// Opens a file.
pub async fn open(path: impl AsRef<Path>, options: OpenOptions) -> io::Result<File> {
    match current() {
        World::Real => {
            let file = real::fs::open(path.as_ref(), options)?;
            Ok(File(FileKind::Real(file)))
        }
        #[cfg(feature = "sim")]
        World::Sim(context) => {
            let file = sim::fs::open(context, path.as_ref(), options).await?;
            Ok(File(FileKind::Sim(file)))
        }
    }
}

/// Space of the file system that a path is on, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What the file system has in all.
    pub total: u64,
    /// What this process may still take of it.
    pub available: u64,
}

/// The space of the file system that an existing file or directory is on.
pub fn space(path: impl AsRef<Path>) -> io::Result<Space> {
    match current() {
        World::Real => real::fs::space(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => Ok(sim::fs::space(&context)),
    }
}

/// Whether the group of new files and directories may read them. It holds for the whole
/// process, and is false at first.
pub fn allow_group_access(allowed: bool) {
    match current() {
        World::Real => real::permissions::allow_group_access(allowed),
        // Simulated machines have one user.
        #[cfg(feature = "sim")]
        World::Sim(_) => {}
    }
}

/// The user that owns an existing directory, if that is another one than the user this
/// process runs as. A missing directory has none.
pub fn foreign_owner(path: impl AsRef<Path>) -> io::Result<Option<u32>> {
    match current() {
        World::Real => real::permissions::foreign_owner(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(_) => Ok(None),
    }
}

/// Restricts a directory that exists, and the files in it, to the modes of new ones, and
/// returns how many of them were wider. A file whose name `are_ours` says gets exactly its
/// mode; any other file of this user only loses what is beyond. Folders and links in the
/// directory stay as they are.
pub fn restrict(path: impl AsRef<Path>, are_ours: fn(&str) -> bool) -> io::Result<usize> {
    match current() {
        World::Real => real::permissions::restrict(path.as_ref(), are_ours),
        #[cfg(feature = "sim")]
        World::Sim(_) => Ok(0),
    }
}

/// Creates a directory and its missing parents; an existing one is no error.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    match current() {
        World::Real => real::fs::create_dir_all(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::fs::create_dir_all(context, path.as_ref()).await,
    }
}

/// The entries of a directory, sorted by name.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<Vec<PathBuf>> {
    match current() {
        World::Real => real::fs::read_dir(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::fs::read_dir(context, path.as_ref()).await,
    }
}

/// Renames a file, atomically replacing a file of the new name. Durable after
/// [`sync_dir`].
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    match current() {
        World::Real => real::fs::rename(from.as_ref(), to.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::fs::rename(context, from.as_ref(), to.as_ref()).await,
    }
}

/// Removes a file. Durable after [`sync_dir`].
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    match current() {
        World::Real => real::fs::remove_file(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::fs::remove_file(context, path.as_ref()).await,
    }
}

/// Removes an empty directory.
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    match current() {
        World::Real => real::fs::remove_dir(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::fs::remove_dir(context, path.as_ref()).await,
    }
}

/// Makes the names in a directory durable.
pub async fn sync_dir(path: impl AsRef<Path>) -> io::Result<()> {
    match current() {
        World::Real => real::fs::sync_dir(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::fs::sync_dir(context, path.as_ref()).await,
    }
}

/// The absolute path without links and dots; returns an error when the path does not
/// exist.
pub async fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    match current() {
        World::Real => real::fs::canonicalize(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::fs::canonicalize(context, path.as_ref()).await,
    }
}

/// Whether the path exists.
pub async fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    match current() {
        World::Real => real::fs::exists(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::fs::exists(context, path.as_ref()).await,
    }
}

/// [`exists`] as one step with what the caller does next: no other task has a turn.
pub fn exists_now(path: impl AsRef<Path>) -> io::Result<bool> {
    match current() {
        World::Real => real::fs::exists(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => Ok(sim::fs::exists_now(&context, path.as_ref())),
    }
}

/// Reads a whole file.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = open(path, OpenOptions::READ).await?;
    let length = file.len().await?;
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?];
    file.read_exact_at(&mut bytes, 0).await?;
    Ok(bytes)
}
