//! Files of the real environment: std's files, by plain blocking calls.

use std::fs::TryLockError;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

#[cfg(debug_assertions)]
use super::faults;
use super::permissions;
use crate::fs::{OpenOptions, Space};

#[derive(Debug)]
pub(crate) struct File(std::fs::File);

impl File {
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            #[cfg(debug_assertions)]
            let read = faults::read(&self.0, buffer, offset);
            #[cfg(not(debug_assertions))]
            let read = self.0.read_at(buffer, offset);
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        #[cfg(debug_assertions)]
        if faults::write(&self.0, bytes, offset)? {
            return Ok(());
        }
        self.0.write_all_at(bytes, offset)
    }

    pub(crate) fn sync_data(&self) -> io::Result<()> {
        #[cfg(debug_assertions)]
        if faults::sync(&self.0)? {
            return Ok(());
        }
        self.0.sync_data()
    }

    pub(crate) fn sync_all(&self) -> io::Result<()> {
        #[cfg(debug_assertions)]
        if faults::sync(&self.0)? {
            return Ok(());
        }
        self.0.sync_all()
    }

    pub(crate) fn allocate(&self, length: u64) -> io::Result<()> {
        #[cfg(debug_assertions)]
        faults::check_growth()?;
        match fallocate(&self.0, FallocateFlags::empty(), 0, length) {
            Ok(()) => Ok(()),
            // The file system does not support it: the caller's writes will take the
            // space.
            Err(error) if error == rustix::io::Errno::OPNOTSUPP => {
                if self.len()? < length {
                    self.set_len(length)?;
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn set_len(&self, length: u64) -> io::Result<()> {
        #[cfg(debug_assertions)]
        faults::cut(&self.0, length)?;
        self.0.set_len(length)
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        let length = self.0.metadata()?.len();
        #[cfg(debug_assertions)]
        let length = faults::len(&self.0, length)?;
        Ok(length)
    }

    pub(crate) fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

pub(crate) fn open(path: &Path, options: OpenOptions) -> io::Result<File> {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(options.write)
        .create(options.create)
        .create_new(options.create_new)
        .truncate(options.truncate)
        .mode(permissions::file_mode())
        .open(path)?;
    if options.create || options.create_new {
        permissions::settle_file(&file)?;
    }
    Ok(File(file))
}

pub(crate) fn create_dir_all(path: &Path) -> io::Result<()> {
    permissions::create_dir_all(path)
}

pub(crate) fn read_dir(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = std::fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    #[cfg(debug_assertions)]
    faults::forget(path);
    std::fs::remove_file(path)
}

pub(crate) fn remove_dir(path: &Path) -> io::Result<()> {
    std::fs::remove_dir(path)
}

pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}

pub(crate) fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

pub(crate) fn exists(path: &Path) -> io::Result<bool> {
    path.try_exists()
}

pub(crate) fn space(path: &Path) -> io::Result<Space> {
    let found = statvfs(path)?;
    let space = Space {
        total: found.f_blocks.saturating_mul(found.f_frsize),
        available: found.f_bavail.saturating_mul(found.f_frsize),
    };
    #[cfg(debug_assertions)]
    if faults::check_growth().is_err() {
        return Ok(Space {
            available: 0,
            ..space
        });
    }
    Ok(space)
}
