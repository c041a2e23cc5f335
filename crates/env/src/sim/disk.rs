//! A simulated disk, which keeps the contents that reads see apart from those that would
//! survive a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rand::RngExt;
use rand::rngs::StdRng;

mod content;
mod faults;

use content::{Content, SECTOR_BYTES};
pub(crate) use faults::Faults;
pub use faults::Loss;

/// An inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inode(u64);

/// A directory change that has not been synced yet.
#[derive(Clone, Debug)]
enum Naming {
    Set(PathBuf, Inode),
    Remove(PathBuf),
}

/// The disk of one node.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    contents: BTreeMap<Inode, Content>,
    next_inode: u64,
    next_handle: u64,
    /// Names as reads see them.
    names: BTreeMap<PathBuf, Inode>,
    durable_names: BTreeMap<PathBuf, Inode>,
    /// Unsynced directory changes, by directory, oldest first.
    unsynced_names: BTreeMap<PathBuf, Vec<Naming>>,
    directories: BTreeSet<PathBuf>,
    pub(crate) faults: Faults,
    pub(crate) changes: u64,
    pub(crate) syncs: u64,
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("/")).to_owned()
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk {
    fn content(&mut self, inode: Inode) -> &mut Content {
        self.contents.get_mut(&inode).expect("an open file's")
    }

    /// Counts a change of the disk; returns whether the power fails during it.
    pub(crate) fn count_change(&mut self) -> bool {
        self.changes += 1;
        self.faults.crash_at == Some(self.changes - 1)
    }

    /// Bytes of all files that have a name.
    fn used(&self) -> u64 {
        let named: BTreeSet<Inode> = self.names.values().copied().collect();
        let bytes = |inode| self.contents[inode].shown.len() as u64;
        named.iter().map(bytes).sum()
    }

    /// Bytes by which its files may still grow.
    pub(crate) fn available(&self) -> u64 {
        self.faults.capacity.saturating_sub(self.used())
    }

    /// Checks that a file may become `length` bytes long.
    fn check_room(&mut self, inode: Inode, length: u64) -> io::Result<()> {
        let now = self.content(inode).shown.len() as u64;
        if length > now && self.used() + (length - now) > self.faults.capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn name(&mut self, naming: Naming) {
        let path = match &naming {
            Naming::Set(path, _) | Naming::Remove(path) => path.clone(),
        };
        match &naming {
            Naming::Set(path, inode) => {
                self.names.insert(path.clone(), *inode);
            }
            Naming::Remove(path) => {
                self.names.remove(path);
            }
        }
        self.unsynced_names
            .entry(parent(&path))
            .or_default()
            .push(naming);
    }

    fn make_durable(&mut self, namings: &[Naming]) {
        for naming in namings {
            match naming {
                Naming::Set(path, inode) => {
                    self.durable_names.insert(path.clone(), *inode);
                }
                Naming::Remove(path) => {
                    self.durable_names.remove(path);
                }
            }
        }
    }

    /// Opens or creates a file; returns a number for the open file, and the inode.
    pub(crate) fn open(
        &mut self,
        path: &Path,
        options: crate::fs::OpenOptions,
    ) -> io::Result<(u64, Inode)> {
        let inode = match self.names.get(path) {
            Some(_) if options.create_new => return Err(io::ErrorKind::AlreadyExists.into()),
            Some(&inode) => {
                if options.truncate {
                    self.set_len(inode, 0)?;
                }
                inode
            }
            None if options.create || options.create_new => {
                if !self.is_directory(&parent(path)) {
                    return Err(not_found());
                }
                let inode = Inode(self.next_inode);
                self.next_inode += 1;
                self.contents.insert(inode, Content::default());
                self.name(Naming::Set(path.to_owned(), inode));
                inode
            }
            None => return Err(not_found()),
        };
        self.next_handle += 1;
        Ok((self.next_handle, inode))
    }

    /// Whether opening with these options changes the disk.
    pub(crate) fn open_changes(&self, path: &Path, options: crate::fs::OpenOptions) -> bool {
        options.truncate || !self.names.contains_key(path)
    }

    pub(crate) fn close(&mut self, handle: u64, inode: Inode) {
        let content = self.content(inode);
        if content.locked_by == Some(handle) {
            content.locked_by = None;
        }
    }

    pub(crate) fn read(&mut self, inode: Inode, buffer: &mut [u8], offset: u64) -> usize {
        let shown = &self.content(inode).shown;
        let start = usize::try_from(offset).map_or(shown.len(), |at| at.min(shown.len()));
        let count = buffer.len().min(shown.len() - start);
        buffer[..count].copy_from_slice(&shown[start..start + count]);
        count
    }

    /// Writes bytes; `astray` chooses the target of a misdirected write.
    pub(crate) fn write(
        &mut self,
        inode: Inode,
        bytes: &[u8],
        offset: u64,
        astray: &mut StdRng,
    ) -> io::Result<()> {
        if self.faults.fail_writes {
            return Err(io::Error::other("simulated failure of a write"));
        }
        self.check_room(inode, offset + bytes.len() as u64)?;
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if self.faults.misdirect_at == Some(self.changes - 1) {
            self.faults.misdirect_at = None;
            return self.misdirect(inode, bytes, offset, astray);
        }
        self.content(inode).write(bytes, offset);
        Ok(())
    }

    /// Writes the bytes to another sector of some file, and reports success. The bytes
    /// they should have replaced stay, although the file has grown.
    fn misdirect(
        &mut self,
        inode: Inode,
        bytes: &[u8],
        offset: usize,
        astray: &mut StdRng,
    ) -> io::Result<()> {
        let content = self.content(inode);
        let end = (offset + bytes.len()).max(content.shown.len());
        content.shown.resize(end, 0);
        let places: Vec<_> = self
            .names
            .values()
            .flat_map(|&file| {
                let sectors = self.contents[&file].shown.len() / SECTOR_BYTES;
                (0..sectors).map(move |sector| (file, sector * SECTOR_BYTES))
            })
            .filter(|&(file, at)| file != inode || at.abs_diff(offset) >= SECTOR_BYTES)
            .collect();
        if places.is_empty() {
            return Ok(());
        }
        let (file, at) = places[astray.random_range(0..places.len())];
        let content = self.content(file);
        let room = bytes.len().min(content.shown.len() - at);
        content.write(&bytes[..room], at);
        Ok(())
    }

    pub(crate) fn set_len(&mut self, inode: Inode, length: u64) -> io::Result<()> {
        self.check_room(inode, length)?;
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.content(inode).set_len(length);
        Ok(())
    }

    pub(crate) fn allocate(&mut self, inode: Inode, length: u64) -> io::Result<()> {
        if length > self.len(inode) {
            self.set_len(inode, length)?;
        }
        Ok(())
    }

    pub(crate) fn len(&mut self, inode: Inode) -> u64 {
        self.content(inode).shown.len() as u64
    }

    pub(crate) fn sync(&mut self, inode: Inode) -> io::Result<()> {
        self.syncs += 1;
        if self.faults.fail_syncs || self.faults.fail_sync_at == Some(self.syncs - 1) {
            // The kernel marks the pages clean, and they never reach the disk.
            self.content(inode).unsynced.clear();
            return Err(io::Error::other("simulated failure of a sync"));
        }
        self.content(inode).sync();
        Ok(())
    }

    pub(crate) fn try_lock(&mut self, handle: u64, inode: Inode) -> bool {
        let content = self.content(inode);
        if content.locked_by.is_some_and(|other| other != handle) {
            return false;
        }
        content.locked_by = Some(handle);
        true
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.parent().is_none() || self.directories.contains(path)
    }

    /// Directories are durable at once: no protocol under test depends on creating them.
    pub(crate) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        for directory in path.ancestors() {
            if self.names.contains_key(directory) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            self.directories.insert(directory.to_owned());
        }
        Ok(())
    }

    pub(crate) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        if !self.read_dir(path)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.directories.remove(path);
        Ok(())
    }

    pub(crate) fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        if !self.is_directory(path) {
            return Err(not_found());
        }
        let mut entries: Vec<_> = self
            .names
            .keys()
            .chain(&self.directories)
            .filter(|entry| entry.parent() == Some(path))
            .cloned()
            .collect();
        entries.sort();
        Ok(entries)
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = *self.names.get(from).ok_or_else(not_found)?;
        if !self.is_directory(&parent(to)) {
            return Err(not_found());
        }
        // Within one directory both halves become durable together: the new name
        // first, so that a prefix never loses the file.
        self.name(Naming::Set(to.to_owned(), inode));
        self.name(Naming::Remove(from.to_owned()));
        Ok(())
    }

    pub(crate) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        if !self.names.contains_key(path) {
            return Err(not_found());
        }
        self.name(Naming::Remove(path.to_owned()));
        Ok(())
    }

    pub(crate) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        if !self.is_directory(path) {
            return Err(not_found());
        }
        let namings = self.unsynced_names.remove(path).unwrap_or_default();
        self.make_durable(&namings);
        Ok(())
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.names.contains_key(path) || self.is_directory(path)
    }

    /// Simulates a power failure.
    pub(crate) fn crash(&mut self, random: &mut StdRng) {
        self.faults.crash_at = None;
        for (_, namings) in std::mem::take(&mut self.unsynced_names) {
            let survive = match self.faults.loss {
                Loss::Nothing => namings.len(),
                Loss::Everything => 0,
                Loss::Random => random.random_range(0..=namings.len()),
            };
            self.make_durable(&namings[..survive]);
        }
        self.names.clone_from(&self.durable_names);
        for content in self.contents.values_mut() {
            content.crash(&self.faults, random);
        }
    }

    pub(crate) fn damage(&mut self, path: &Path, offset: u64, change: impl FnOnce(u8) -> u8) {
        let inode = *self.names.get(path).expect("a file to damage");
        let content = self.content(inode);
        let at = usize::try_from(offset).expect("within the file");
        content.sync();
        content.damage(at, change);
    }

    /// Flips a durable bit in a file that `choose` accepts, and returns its file and
    /// offset. `None` when there is no such bit.
    pub(crate) fn flip_bit(
        &mut self,
        choose: impl Fn(&Path) -> bool,
        random: &mut StdRng,
    ) -> Option<(PathBuf, u64)> {
        let files: Vec<_> = self
            .durable_names
            .iter()
            .filter(|(path, inode)| choose(path) && !self.contents[inode].durable.is_empty())
            .map(|(path, inode)| (path.clone(), *inode))
            .collect();
        if files.is_empty() {
            return None;
        }
        let (path, inode) = &files[random.random_range(0..files.len())];
        let content = self.content(*inode);
        let at = random.random_range(0..content.durable.len().min(content.shown.len()).max(1));
        let bit = 1 << random.random_range(0..8);
        if at >= content.shown.len() || content.unsynced.contains_key(&(at / SECTOR_BYTES)) {
            // The next sync would overwrite it.
            return None;
        }
        content.damage(at, |byte| byte ^ bit);
        Some((path.clone(), at as u64))
    }

    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        self.names
            .iter()
            .map(|(path, inode)| (path.clone(), self.contents[inode].shown.clone()))
            .collect()
    }
}
