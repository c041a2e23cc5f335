//! Edits that corrupt a file of a stopped server.
#![expect(clippy::disallowed_methods, reason = "edits real files")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::chance::Chance;

/// Size of a disk page, in bytes.
const PAGE: usize = 4096;

/// A kind of edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edit {
    /// A bit is flipped.
    Flip,
    /// A page is overwritten with zeros.
    Zero,
    /// The end of the file is cut off.
    Cut,
    /// The file is truncated to nothing.
    Empty,
    /// The file is deleted.
    Delete,
    /// The file and another one swap their contents.
    Swap,
    /// The file is replaced by an older version.
    Older,
}

impl Edit {
    /// All edits with their names.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Flip, "flip"),
        (Self::Zero, "zero"),
        (Self::Cut, "cut"),
        (Self::Empty, "empty"),
        (Self::Delete, "delete"),
        (Self::Swap, "swap"),
        (Self::Older, "older"),
    ];

    /// Name of the edit.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(edit, _)| *edit == self);
        named.map_or("", |(_, name)| name)
    }
}

/// An edit that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Description of the edit.
    pub what: String,
    /// The files that it changed.
    pub files: Vec<PathBuf>,
}

/// Length of a file without the trailing zeros that it was preallocated with.
fn content(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

fn below(chance: &mut Chance, length: usize) -> usize {
    usize::try_from(chance.within(0..length.max(1) as u64)).unwrap_or(0)
}

/// Edits a file. `other` is the file to swap with, `older` the earlier version. Returns
/// `None` if the edit changes nothing, or does not apply to this file.
///
/// # Errors
/// If a file cannot be read or written.
pub fn edit(
    edit: Edit,
    path: &Path,
    other: Option<&Path>,
    older: Option<&Path>,
    chance: &mut Chance,
) -> io::Result<Option<Done>> {
    let before = fs::read(path)?;
    // Mostly within the content; sometimes in the zeros after it.
    let length = match chance.once_in(8) {
        true => before.len(),
        false => content(&before),
    };
    let at = below(chance, length);
    let mut after = before.clone();
    let mut files = vec![path.to_owned()];
    let what = match edit {
        Edit::Flip => {
            let Some(byte) = after.get_mut(at) else {
                return Ok(None);
            };
            *byte ^= 1 << chance.within(0..8);
            format!("a bit flipped at {at}")
        }
        Edit::Zero => {
            let page = at - at % PAGE;
            let end = after.len().min(page + PAGE);
            after[page..end].fill(0);
            format!("zeros from {page} to {end}")
        }
        Edit::Cut => {
            after.truncate(at);
            format!("cut off at {at}")
        }
        Edit::Empty => {
            after.clear();
            "emptied".to_owned()
        }
        Edit::Delete => {
            fs::remove_file(path)?;
            let what = "deleted".to_owned();
            return Ok(Some(Done { what, files }));
        }
        Edit::Swap => {
            let Some(other) = other else { return Ok(None) };
            after = fs::read(other)?;
            if after != before {
                fs::write(other, &before)?;
            }
            files.push(other.to_owned());
            let name = other.file_name().unwrap_or_default();
            format!("swapped with {}", name.to_string_lossy())
        }
        Edit::Older => {
            let Some(older) = older else { return Ok(None) };
            after = fs::read(older)?;
            "replaced by an older version".to_owned()
        }
    };
    if after == before {
        return Ok(None);
    }
    fs::write(path, after)?;
    Ok(Some(Done { what, files }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_changes_what_it_says_and_nothing_else() {
        for (kind, name) in Edit::ALL {
            let folder = tempfile::tempdir().expect("a folder");
            let file = |name: &str, text: &[u8]| {
                let path = folder.path().join(name);
                fs::write(&path, text).expect("a file");
                path
            };
            let mut long = vec![7; 3 * PAGE];
            long.extend([0; PAGE]);
            let path = file("file", &long);
            let (other, older) = (file("other", b"other"), file("older", b"older"));
            let done = edit(kind, &path, Some(&other), Some(&older), &mut Chance::new(3));
            let done = done.expect("an edit").expect(name);
            assert_eq!(done.files.len(), 1 + usize::from(kind == Edit::Swap));
            let after = fs::read(&path).ok();
            assert_ne!(after.as_ref(), Some(&long), "{name}");
            assert_eq!(after.is_none(), kind == Edit::Delete);
            assert_eq!(fs::read(&older).expect("the older"), b"older");
            let swapped = fs::read(&other).expect("the other") == long;
            assert_eq!(swapped, kind == Edit::Swap);
        }
    }

    #[test]
    fn what_would_change_nothing_is_not_done() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("empty");
        fs::write(&path, b"").expect("a file");
        for kind in [Edit::Flip, Edit::Zero, Edit::Cut, Edit::Empty, Edit::Older] {
            let done = edit(kind, &path, None, None, &mut Chance::new(1)).expect("an edit");
            assert_eq!(done, None, "{kind:?}");
        }
    }
}
