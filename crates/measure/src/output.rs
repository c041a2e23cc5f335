//! Where results go: a folder with raw numbers, charts and the text that was printed.
#![expect(
    clippy::disallowed_methods,
    reason = "files of a measurement, beside which no database runs"
)]

use std::io;
use std::path::{Path, PathBuf};

use coeval_workload::plot::{Bars, Chart};

/// A folder of results.
#[derive(Debug)]
pub struct Output {
    folder: PathBuf,
    text: String,
}

impl Output {
    /// In this folder, which is made if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            text: String::new(),
        })
    }

    /// Prints a line, and keeps it.
    pub fn say(&mut self, line: &str) {
        println!("{line}");
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Keeps a chart under this name, as SVG and as PNG.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn chart(&self, name: &str, chart: &Chart) -> io::Result<()> {
        self.file(&format!("{name}.svg"), chart.svg().as_bytes())?;
        self.file(&format!("{name}.png"), &chart.png()?)
    }

    /// Keeps a chart of bars under this name, as SVG and as PNG.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn bars(&self, name: &str, bars: &Bars) -> io::Result<()> {
        self.file(&format!("{name}.svg"), bars.svg().as_bytes())?;
        self.file(&format!("{name}.png"), &bars.png()?)
    }

    /// Keeps a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        std::fs::write(self.folder.join(name), bytes)
    }

    /// Keeps what was said, under this name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self, name: &str) -> io::Result<()> {
        self.file(name, self.text.as_bytes())
    }
}
