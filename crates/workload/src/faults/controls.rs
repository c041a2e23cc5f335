//! Fault injection inside the server's own process, in the environment's disk and clock.
//!
//! A debug build of the server obeys the lines of the file named by the environment
//! variable [`VARIABLE`] (they are defined in `coeval_env`'s `real/faults.rs`). The file
//! is replaced as a whole, and takes effect at the server's next system call.
#![expect(
    clippy::disallowed_methods,
    reason = "writes a real file for a real process"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Environment variable with the path of the fault file.
pub const VARIABLE: &str = "DOCK_FAULTS";

/// The injected faults of one server.
#[derive(Clone, Debug)]
pub struct Controls {
    path: PathBuf,
    /// Faults that are always in force, one per line.
    always: String,
}

impl Controls {
    /// Creates a fault file in `folder` with the faults of `always`, one per line.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(folder: &Path, always: &[&str]) -> io::Result<Self> {
        let controls = Self {
            path: folder.join("faults"),
            always: always.iter().map(|line| format!("{line}\n")).collect(),
        };
        controls.set(&[])?;
        Ok(controls)
    }

    /// Path of the fault file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the faults in force by `lines` and those of `always`.
    ///
    /// # Errors
    /// If the file cannot be written.
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
