//! Edits of the files of a server that does not run.
#![expect(clippy::disallowed_methods, reason = "edits real files")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::chance::Chance;

/// An edit, and what takes it back.
#[derive(Debug)]
pub struct Damage {
    path: PathBuf,
    before: Vec<u8>,
    /// What was done, for people.
    pub what: String,
}

/// Every file below a folder that has anything in it, in order.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if fs::metadata(&path)?.len() > 0 {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn below(chance: &mut Chance, length: usize) -> usize {
    usize::try_from(chance.within(0..length as u64)).unwrap_or(0)
}

impl Damage {
    /// Flips a bit of some file below `folder`, or cuts the file off, as `chance` has
    /// it. `None` when there is none.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn somewhere(folder: &Path, chance: &mut Chance) -> io::Result<Option<Self>> {
        let files = files(folder)?;
        if files.is_empty() {
            return Ok(None);
        }
        let path = files[below(chance, files.len())].clone();
        let before = fs::read(&path)?;
        let at = below(chance, before.len());
        let mut after = before.clone();
        let what = if chance.once_in(4) {
            after.truncate(at);
            format!("{} cut off at {at}", path.display())
        } else {
            after[at] ^= 1 << chance.within(0..8);
            format!("a bit of {} flipped at {at}", path.display())
        };
        fs::write(&path, after)?;
        Ok(Some(Self { path, before, what }))
    }

    /// Puts back what was there.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn undo(self) -> io::Result<()> {
        fs::write(&self.path, &self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_changes_one_file_and_can_be_undone() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("below");
        fs::create_dir(&below).expect("a folder");
        fs::write(below.join("one"), [1; 100]).expect("a file");
        fs::write(folder.path().join("empty"), []).expect("a file");
        let mut chance = Chance::new(1);
        for _ in 0..50 {
            let damage = Damage::somewhere(folder.path(), &mut chance)
                .expect("an edit")
                .expect("of a file");
            assert_ne!(fs::read(below.join("one")).expect("read"), [1; 100]);
            damage.undo().expect("undone");
            assert_eq!(fs::read(below.join("one")).expect("read"), [1; 100]);
        }
    }
}
