//! Faults at a server's own door to disk and clock.
//!
//! A debug build of the server whose environment names a file by [`VARIABLE`] obeys its
//! lines (`coeval_env`'s `real/faults.rs` says which). They are replaced as a whole and
//! are in force at the server's next call.
#![expect(
    clippy::disallowed_methods,
    reason = "writes a real file for a real process"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names the file in a server's environment.
pub const VARIABLE: &str = "DOCK_FAULTS";

/// The faults of one server.
#[derive(Clone, Debug)]
pub struct Controls {
    path: PathBuf,
    /// Lines that stay.
    always: String,
}

impl Controls {
    /// Faults that are written to a file in `folder`: those of `always`, a line each.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn new(folder: &Path, always: &[&str]) -> io::Result<Self> {
        let controls = Self {
            path: folder.join("faults"),
            always: always.iter().map(|line| format!("{line}\n")).collect(),
        };
        controls.set(&[])?;
        Ok(controls)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on these faults, and those of always, and no others.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set(&self, lines: &[&str]) -> io::Result<()> {
        let mut text = self.always.clone();
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        let new = self.path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, &self.path)
    }
}
