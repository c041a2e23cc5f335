//! Files, addressed by offset.
//!
//! In the real world every call here is a plain system call that blocks the
//! calling thread until it is done. That is deliberate: the log writes from a
//! dedicated thread whose only work this is, and recovery reads from threads of
//! its own, so handing the call to a pool would add two thread switches to each
//! commit and free nobody. A task that shares its executor with sessions does not
//! do more with files than open a few while starting.
//!
//! What survives a crash, in both worlds: bytes whose [`File::sync_data`] (or
//! [`File::sync_all`], when the length changed) has returned, under a name whose
//! directory's [`sync_dir`] has returned. Of anything else each sector may have
//! become durable or not, in any order.

use std::io;
use std::path::{Path, PathBuf};

use crate::real;
#[cfg(feature = "sim")]
use crate::sim;
use crate::world::{World, current};

/// How to open a file. Reading only, an existing file, unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// For writing, too.
    pub write: bool,
    /// Makes the file when it does not exist.
    pub create: bool,
    /// Makes the file, and fails when it exists.
    pub create_new: bool,
    /// Empties the file.
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
    /// Reads and writes a file, made if need be.
    pub const CREATE: Self = Self {
        create: true,
        ..Self::WRITE
    };
    /// Reads and writes a file that is empty at first, whatever was there.
    pub const REPLACE: Self = Self {
        truncate: true,
        ..Self::CREATE
    };
    /// Reads and writes a new file.
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
    /// Reads into `buffer` from `offset` on; fewer bytes than asked for, or none,
    /// at the end of the file.
    pub async fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.0 {
            FileKind::Real(file) => file.read_at(buffer, offset),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.read_at(buffer, offset).await,
        }
    }

    /// Fills `buffer` from `offset` on; an error when the file ends before.
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

    /// Makes what was written durable, with as much metadata as reading it back
    /// needs. After an error nothing is known of any write since the last
    /// success, and trying again proves nothing.
    pub async fn sync_data(&self) -> io::Result<()> {
        match &self.0 {
            FileKind::Real(file) => file.sync_data(),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.sync().await,
        }
    }

    /// [`File::sync_data`], with all metadata.
    pub async fn sync_all(&self) -> io::Result<()> {
        match &self.0 {
            FileKind::Real(file) => file.sync_all(),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.sync().await,
        }
    }

    /// Takes `length` bytes of space for the file now, so that writing them cannot
    /// run out of it, and makes the file that long. New bytes read as zeros.
    pub async fn allocate(&self, length: u64) -> io::Result<()> {
        match &self.0 {
            FileKind::Real(file) => file.allocate(length),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.allocate(length).await,
        }
    }

    /// Cuts the file, or lengthens it by zeros.
    pub async fn set_len(&self, length: u64) -> io::Result<()> {
        match &self.0 {
            FileKind::Real(file) => file.set_len(length),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.set_len(length).await,
        }
    }

    /// Its length in bytes.
    pub async fn len(&self) -> io::Result<u64> {
        match &self.0 {
            FileKind::Real(file) => file.len(),
            #[cfg(feature = "sim")]
            FileKind::Sim(file) => file.len().await,
        }
    }

    /// Takes the file for this process alone, until it is closed; false when
    /// another open file holds it. Ends with the process, however it ends.
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

/// Makes a directory and those above it; none that exists is an error.
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

/// Gives a file another name; a file that has it is replaced, at once and
/// entirely. Durable after [`sync_dir`].
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

/// Makes the names in a directory durable.
pub async fn sync_dir(path: impl AsRef<Path>) -> io::Result<()> {
    match current() {
        World::Real => real::fs::sync_dir(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::fs::sync_dir(context, path.as_ref()).await,
    }
}

/// The path without links and dots; fails where there is nothing.
pub async fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    match current() {
        World::Real => real::fs::canonicalize(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::fs::canonicalize(context, path.as_ref()).await,
    }
}

/// Whether there is something of this name.
pub async fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    match current() {
        World::Real => real::fs::exists(path.as_ref()),
        #[cfg(feature = "sim")]
        World::Sim(context) => sim::fs::exists(context, path.as_ref()).await,
    }
}

/// A file's whole content.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = open(path, OpenOptions::READ).await?;
    let length = file.len().await?;
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?];
    file.read_exact_at(&mut bytes, 0).await?;
    Ok(bytes)
}
