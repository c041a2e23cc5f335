//! The output folder of a measurement: raw numbers, charts, and the printed text.
#![expect(
    clippy::disallowed_methods,
    reason = "files of a measurement, beside which no database runs"
)]

use std::io;
use std::path::{Path, PathBuf};

use coeval_workload::build::Build;
use coeval_workload::plot::{Bars, Chart};

/// A folder of results.
#[derive(Debug)]
pub struct Output {
    folder: PathBuf,
    text: String,
}

impl Output {
    /// The output in this folder, which is created if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be created, or this program's build profile is not one to
    /// measure.
    pub fn new(folder: &Path, build: Build) -> io::Result<Self> {
        build.check().map_err(io::Error::other)?;
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            text: String::new(),
        })
    }

    /// Prints a line, and keeps it for [`Output::finish`].
    pub fn say(&mut self, line: &str) {
        println!("{line}");
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes a chart under this name, as SVG and as PNG.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn chart(&self, name: &str, chart: &Chart) -> io::Result<()> {
        self.file(&format!("{name}.svg"), chart.svg().as_bytes())?;
        self.file(&format!("{name}.png"), &chart.png()?)
    }

    /// Writes a bar chart under this name, as SVG and as PNG.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn bars(&self, name: &str, bars: &Bars) -> io::Result<()> {
        self.file(&format!("{name}.svg"), bars.svg().as_bytes())?;
        self.file(&format!("{name}.png"), &bars.png()?)
    }

    /// Writes a file into the output folder.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        std::fs::write(self.folder.join(name), bytes)
    }

    /// Writes the printed text to a file of this name.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self, name: &str) -> io::Result<()> {
        self.file(name, self.text.as_bytes())
    }
}
