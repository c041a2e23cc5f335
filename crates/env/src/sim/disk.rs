//! A disk that keeps apart what it shows and what would survive.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rand::RngExt;
use rand::rngs::StdRng;

/// What a disk writes as a whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

type Sector = [u8; SECTOR_BYTES];

/// What a crash leaves of what was not made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// Each piece of it by chance.
    #[default]
    Random,
    /// Nothing: as if the disk had a large cache and had been idle.
    Everything,
    /// All of it: as if only the process had been killed.
    Nothing,
}

/// What is to go wrong.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) crash_at: Option<u64>,
    pub(crate) fail_sync_at: Option<u64>,
    pub(crate) capacity: u64,
    pub(crate) loss: Loss,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            crash_at: None,
            fail_sync_at: None,
            capacity: u64::MAX,
            loss: Loss::Random,
        }
    }
}

/// A file's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inode(u64);

#[derive(Debug, Default)]
struct Content {
    /// What reading shows.
    shown: Vec<u8>,
    /// What is on the platter.
    durable: Vec<u8>,
    /// Versions of each sector written since the last sync, oldest first.
    unsynced: BTreeMap<usize, Vec<Sector>>,
    /// Which open file holds the lock.
    locked_by: Option<u64>,
}

/// A change of a directory that its sync has not made durable yet.
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
    /// Names as shown.
    names: BTreeMap<PathBuf, Inode>,
    durable_names: BTreeMap<PathBuf, Inode>,
    /// By directory, oldest first.
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

impl Content {
    fn sector(bytes: &[u8], sector: usize) -> Sector {
        let start = (sector * SECTOR_BYTES).min(bytes.len());
        let end = (start + SECTOR_BYTES).min(bytes.len());
        let mut content = [0; SECTOR_BYTES];
        content[..end - start].copy_from_slice(&bytes[start..end]);
        content
    }

    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.shown.len() < end {
            self.shown.resize(end, 0);
        }
        self.shown[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let content = Self::sector(&self.shown, sector);
            self.unsynced.entry(sector).or_default().push(content);
        }
    }

    /// Makes durable what was written since the last sync, and nothing else: what a
    /// failed sync has dropped stays shown, and off the platter.
    fn sync(&mut self) {
        self.durable.resize(self.shown.len(), 0);
        for (sector, versions) in std::mem::take(&mut self.unsynced) {
            let start = sector * SECTOR_BYTES;
            let end = (start + SECTOR_BYTES).min(self.durable.len());
            if let Some(newest) = versions.last()
                && start < end
            {
                self.durable[start..end].copy_from_slice(&newest[..end - start]);
            }
        }
    }

    fn crash(&mut self, loss: Loss, random: &mut StdRng) {
        self.locked_by = None;
        match loss {
            Loss::Nothing => self.sync(),
            Loss::Everything => {}
            Loss::Random => {
                if random.random() {
                    self.durable.resize(self.shown.len(), 0);
                }
                for (&sector, versions) in &self.unsynced {
                    // One of the versions, or none.
                    let version = random.random_range(0..=versions.len());
                    let start = sector * SECTOR_BYTES;
                    let end = (start + SECTOR_BYTES).min(self.durable.len());
                    if version > 0 && start < end {
                        let content = &versions[version - 1][..end - start];
                        self.durable[start..end].copy_from_slice(content);
                    }
                }
            }
        }
        self.shown.clone_from(&self.durable);
        self.unsynced.clear();
    }
}

impl Disk {
    fn content(&mut self, inode: Inode) -> &mut Content {
        self.contents.get_mut(&inode).expect("an open file's")
    }

    /// Counts a change; says whether the power fails during it.
    pub(crate) fn count_change(&mut self) -> bool {
        self.changes += 1;
        self.faults.crash_at == Some(self.changes - 1)
    }

    fn used(&self) -> u64 {
        self.contents
            .values()
            .map(|content| content.shown.len() as u64)
            .sum()
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

    /// Opens or makes a file; a number for the open file, and the file's.
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

    pub(crate) fn write(&mut self, inode: Inode, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_room(inode, offset + bytes.len() as u64)?;
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.content(inode).write(bytes, offset);
        Ok(())
    }

    pub(crate) fn set_len(&mut self, inode: Inode, length: u64) -> io::Result<()> {
        self.check_room(inode, length)?;
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let content = self.content(inode);
        let before = content.shown.len();
        content.shown.resize(length, 0);
        // What was cut off reads as zeros if the file grows again.
        for sector in length / SECTOR_BYTES..before.div_ceil(SECTOR_BYTES) {
            let zeroed = Content::sector(&content.shown, sector);
            content.unsynced.entry(sector).or_default().push(zeroed);
        }
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
        if self.faults.fail_sync_at == Some(self.syncs - 1) {
            // The kernel calls the pages clean, and they never reach the platter.
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

    /// Directories are durable at once: making them is no part of any protocol
    /// under test.
    pub(crate) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        for directory in path.ancestors() {
            if self.names.contains_key(directory) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            self.directories.insert(directory.to_owned());
        }
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

    /// The power fails.
    pub(crate) fn crash(&mut self, random: &mut StdRng) {
        self.faults.crash_at = None;
        let loss = self.faults.loss;
        for (_, namings) in std::mem::take(&mut self.unsynced_names) {
            let survive = match loss {
                Loss::Nothing => namings.len(),
                Loss::Everything => 0,
                Loss::Random => random.random_range(0..=namings.len()),
            };
            self.make_durable(&namings[..survive]);
        }
        self.names.clone_from(&self.durable_names);
        for content in self.contents.values_mut() {
            content.crash(loss, random);
        }
    }

    pub(crate) fn damage(&mut self, path: &Path, offset: u64, change: impl FnOnce(u8) -> u8) {
        let inode = *self.names.get(path).expect("a file to damage");
        let content = self.content(inode);
        let at = usize::try_from(offset).expect("within the file");
        content.sync();
        content.shown[at] = change(content.shown[at]);
        content.durable[at] = content.shown[at];
    }

    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        self.names
            .iter()
            .map(|(path, inode)| (path.clone(), self.contents[inode].shown.clone()))
            .collect()
    }
}
