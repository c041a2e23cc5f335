//! The output of a dump: standard output, or a file.
//!
//! A file gets its name only once it is complete and synced; until then its name ends in
//! `.partial`. On standard output the last line shows that the dump is complete.

use std::io::Write;
use std::path::{Path, PathBuf};

use coeval_env::fs::{self, File, OpenOptions};

/// Size of the write buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// The output of a dump.
pub(super) struct Sink {
    target: DumpTarget,
    buffer: Vec<u8>,
}

enum DumpTarget {
    Standard,
    File {
        file: File,
        offset: u64,
        partial: PathBuf,
        path: PathBuf,
    },
}

fn failed<'a, E: std::fmt::Display>(
    action: &'a str,
    path: &'a Path,
) -> impl FnOnce(E) -> String + 'a {
    move |error| format!("cannot {action} {}: {error}", path.display())
}

impl Sink {
    /// A sink that writes to standard output.
    pub(super) fn standard() -> Self {
        Self::of(DumpTarget::Standard)
    }

    /// A sink that writes to a file, which must not exist yet.
    pub(super) async fn file(path: &Path) -> Result<Self, String> {
        if fs::exists(path).await.map_err(failed("look for", path))? {
            return Err(format!("{} is there already", path.display()));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let opened = fs::open(&partial, OpenOptions::REPLACE).await;
        let file = opened.map_err(failed("create", &partial))?;
        Ok(Self::of(DumpTarget::File {
            file,
            offset: 0,
            partial,
            path: path.to_owned(),
        }))
    }

    fn of(target: DumpTarget) -> Self {
        Self {
            target,
            buffer: Vec::with_capacity(BUFFER_BYTES),
        }
    }

    /// Appends these bytes.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), String> {
        match &mut self.target {
            DumpTarget::Standard => {
                let mut out = std::io::stdout().lock();
                let written = out.write_all(&self.buffer).and_then(|()| out.flush());
                written.map_err(|error| format!("cannot write to standard output: {error}"))?;
            }
            DumpTarget::File {
                file,
                offset,
                partial,
                ..
            } => {
                let written = file.write_at(&self.buffer, *offset).await;
                written.map_err(failed("write", partial))?;
                *offset += self.buffer.len() as u64;
            }
        }
        self.buffer.clear();
        Ok(())
    }

    /// Writes the buffered bytes, syncs the file, and gives it its final name.
    pub(super) async fn finish(mut self) -> Result<(), String> {
        self.flush().await?;
        if let DumpTarget::File {
            file,
            partial,
            path,
            ..
        } = self.target
        {
            file.sync_all().await.map_err(failed("sync", &partial))?;
            let renamed = fs::rename(&partial, &path).await;
            renamed.map_err(failed("rename", &partial))?;
            let folder = match path.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            fs::sync_dir(folder).await.map_err(failed("sync", folder))?;
        }
        Ok(())
    }
}
