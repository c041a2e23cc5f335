//! Line reader of the files to assess; holds one line in memory at a time.

use std::io::Read;
use std::path::Path;

use coeval_env::fs::{self, File, OpenOptions};

/// Number of bytes per read.
const CHUNK_BYTES: usize = 256 << 10;
/// Maximum length of a line, in bytes. A server accepts no longer one, as a statement or
/// as data.
const MAX_LINE_BYTES: usize = 300 << 20;

/// Magic numbers of files that are no scripts, each with a description and a remedy.
const OTHERS: [(&[u8], &str); 6] = [
    (
        b"PGDMP",
        "an archive of pg_dump; `pg_restore -f dump.sql FILE` makes a script of it",
    ),
    (
        b"toc.dat",
        "an archive of pg_dump; `pg_restore -f dump.sql FILE` makes a script of it",
    ),
    (
        b"\x1f\x8b",
        "compressed; `gunzip -c FILE | coeval assess -`",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "compressed; `zstd -dc FILE | coeval assess -`",
    ),
    (b"\xff\xfe", "text in UTF-16; it must be UTF-8"),
    (b"\xfe\xff", "text in UTF-16; it must be UTF-8"),
];

enum Input {
    File(File),
    Standard,
}

/// One file, or standard input.
pub(super) struct Source {
    name: String,
    input: Input,
    /// Length of the file in bytes, where it is known.
    length: Option<u64>,
    offset: u64,
    buffer: Vec<u8>,
    start: usize,
    ended: bool,
}

impl Source {
    /// Opens a file, or `-` for standard input, and checks that it may be a script.
    pub(super) async fn open(path: &str) -> Result<Self, String> {
        let (name, input, length) = if path == "-" {
            ("standard input".to_owned(), Input::Standard, None)
        } else {
            let failed = |error| format!("{path}: {error}");
            let file = fs::open(Path::new(path), OpenOptions::READ).await;
            let file = file.map_err(failed)?;
            let length = file.len().await.map_err(failed)?;
            (path.to_owned(), Input::File(file), Some(length))
        };
        let mut source = Self {
            name,
            input,
            length,
            offset: 0,
            buffer: Vec::new(),
            start: 0,
            ended: false,
        };
        source.fill().await?;
        for (beginning, what) in OTHERS {
            if source.buffer.starts_with(beginning) {
                return Err(format!("{} is {what}", source.name));
            }
        }
        if source.buffer.contains(&0) {
            return Err(format!("{} is no text", source.name));
        }
        // Skips a byte order mark, which some editors write.
        if source.buffer.starts_with(b"\xef\xbb\xbf") {
            source.start = 3;
        }
        Ok(source)
    }

    /// The file's name, for people.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Length of the file in bytes, where it is known.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Number of bytes of the file that have been returned.
    pub(super) fn taken(&self) -> u64 {
        self.offset - (self.buffer.len() - self.start) as u64
    }

    /// The next line without its end; `None` at the end of the file.
    pub(super) async fn line(&mut self) -> Result<Option<&[u8]>, String> {
        let mut looked = self.start;
        loop {
            let end = self.buffer[looked..].iter().position(|&byte| byte == b'\n');
            if let Some(end) = end {
                let (start, end) = (self.start, looked + end);
                self.start = end + 1;
                return Ok(Some(&self.buffer[start..end]));
            }
            if self.ended {
                let start = std::mem::replace(&mut self.start, self.buffer.len());
                return Ok((start < self.buffer.len()).then(|| &self.buffer[start..]));
            }
            if self.buffer.len() - self.start > MAX_LINE_BYTES {
                return Err(format!(
                    "{} has a line of more than {MAX_LINE_BYTES} bytes",
                    self.name
                ));
            }
            looked = self.buffer.len() - self.start;
            self.buffer.drain(..std::mem::take(&mut self.start));
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), String> {
        let length = self.buffer.len();
        self.buffer.resize(length + CHUNK_BYTES, 0);
        let room = &mut self.buffer[length..];
        let read = match &mut self.input {
            Input::File(file) => file.read_at(room, self.offset).await,
            Input::Standard => std::io::stdin().lock().read(room),
        };
        let read = read.map_err(|error| format!("{}: {error}", self.name))?;
        self.buffer.truncate(length + read);
        self.offset += read as u64;
        self.ended = read == 0;
        Ok(())
    }
}
