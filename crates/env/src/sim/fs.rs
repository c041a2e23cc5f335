//! Files of the simulated environment, on a node's simulated disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::RngExt;

use super::disk::{Disk, Inode};
use super::task::interleave;
use super::{Context, hash_bytes};
use crate::fs::{OpenOptions, Space};

fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().expect("no panic under this lock")
}

fn hash_path(path: &Path) -> u64 {
    hash_bytes(0, path.as_os_str().as_encoded_bytes())
}

/// An open file. It belongs to the run of the node in which it was opened.
#[derive(Debug)]
pub(crate) struct File {
    disk: Arc<Mutex<Disk>>,
    handle: u64,
    inode: Inode,
    path: u64,
    context: Context,
}

impl Drop for File {
    fn drop(&mut self) {
        lock(&self.disk).close(self.handle, self.inode);
    }
}

/// Makes one change of the disk: counts it, and cuts it short if the power fails at it.
async fn change<T>(
    context: &Context,
    what: &str,
    details: &[u64],
    action: impl FnOnce(&mut Disk) -> io::Result<T>,
) -> io::Result<T> {
    interleave(context).await;
    context.trace(what, details);
    let disk = context.disk();
    let (crash, result) = {
        let mut disk = lock(&disk);
        let crash = disk.count_change();
        // A sync during which the power fails has no effect.
        let happens = !(crash && what.starts_with("sync"));
        (crash, happens.then(|| action(&mut disk)))
    };
    if crash {
        context.shared.crash(context.node);
    }
    match result {
        Some(result) if !crash => result,
        // The task is dropped while it waits.
        _ => std::future::pending().await,
    }
}

impl File {
    async fn change<T>(
        &self,
        what: &str,
        details: &[u64],
        action: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        let details = [&[self.path], details].concat();
        change(&self.context, what, &details, action).await
    }

    pub(crate) async fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        interleave(&self.context).await;
        let count = lock(&self.disk).read(self.inode, buffer, offset);
        self.context
            .trace("read", &[self.path, offset, count as u64]);
        Ok(count)
    }

    pub(crate) async fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change("write", &[offset, hash_bytes(0, bytes)], |disk| {
            disk.write(self.inode, bytes, offset, &mut self.context.shared.random())
        })
        .await
    }

    pub(crate) async fn sync(&self) -> io::Result<()> {
        let time = lock(&self.disk).faults.sync_time.clone();
        let nanos = u64::try_from((time.end - time.start).as_nanos()).unwrap_or(u64::MAX);
        let beyond = self.context.shared.random().random_range(0..=nanos);
        self.context.machine(|machine| machine.cores.sync());
        super::clock::sleep(time.start + Duration::from_nanos(beyond)).await;
        self.change("sync", &[], |disk| disk.sync(self.inode)).await
    }

    pub(crate) async fn allocate(&self, length: u64) -> io::Result<()> {
        self.change("allocate", &[length], |disk| {
            disk.allocate(self.inode, length)
        })
        .await
    }

    pub(crate) async fn set_len(&self, length: u64) -> io::Result<()> {
        self.change("set_len", &[length], |disk| {
            disk.set_len(self.inode, length)
        })
        .await
    }

    pub(crate) async fn len(&self) -> io::Result<u64> {
        interleave(&self.context).await;
        Ok(lock(&self.disk).len(self.inode))
    }

    pub(crate) async fn try_lock(&self) -> io::Result<bool> {
        interleave(&self.context).await;
        Ok(lock(&self.disk).try_lock(self.handle, self.inode))
    }
}

pub(crate) async fn open(context: Context, path: &Path, options: OpenOptions) -> io::Result<File> {
    let disk = context.disk();
    let changes = lock(&disk).open_changes(path, options);
    let (handle, inode) = if changes {
        change(&context, "open", &[hash_path(path)], |disk| {
            disk.open(path, options)
        })
        .await?
    } else {
        interleave(&context).await;
        lock(&disk).open(path, options)?
    };
    Ok(File {
        disk,
        handle,
        inode,
        path: hash_path(path),
        context,
    })
}

pub(crate) async fn create_dir_all(context: Context, path: &Path) -> io::Result<()> {
    interleave(&context).await;
    lock(&context.disk()).create_dir_all(path)
}

pub(crate) async fn remove_dir(context: Context, path: &Path) -> io::Result<()> {
    interleave(&context).await;
    lock(&context.disk()).remove_dir(path)
}

pub(crate) async fn read_dir(context: Context, path: &Path) -> io::Result<Vec<PathBuf>> {
    interleave(&context).await;
    lock(&context.disk()).read_dir(path)
}

pub(crate) async fn rename(context: Context, from: &Path, to: &Path) -> io::Result<()> {
    let details = [hash_path(from), hash_path(to)];
    change(&context, "rename", &details, |disk| disk.rename(from, to)).await
}

pub(crate) async fn remove_file(context: Context, path: &Path) -> io::Result<()> {
    change(&context, "remove", &[hash_path(path)], |disk| {
        disk.remove_file(path)
    })
    .await
}

pub(crate) async fn sync_dir(context: Context, path: &Path) -> io::Result<()> {
    change(&context, "sync_dir", &[hash_path(path)], |disk| {
        disk.sync_dir(path)
    })
    .await
}

/// The simulated disk has no links, so a path is its own canonical form.
pub(crate) async fn canonicalize(context: Context, path: &Path) -> io::Result<PathBuf> {
    interleave(&context).await;
    Ok(path.to_owned())
}

pub(crate) async fn exists(context: Context, path: &Path) -> io::Result<bool> {
    interleave(&context).await;
    Ok(lock(&context.disk()).exists(path))
}

pub(crate) fn exists_now(context: &Context, path: &Path) -> bool {
    lock(&context.disk()).exists(path)
}

/// The simulated disk's size is unbounded; what may be taken of it is not.
pub(crate) fn space(context: &Context) -> Space {
    Space {
        total: u64::MAX,
        available: lock(&context.disk()).available(),
    }
}
