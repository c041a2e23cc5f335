//! Fuzzing of a data directory: the input decides the files' contents, and the test
//! starts on them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use coeval_env::fs;
use coeval_env::sim::World;
use coeval_log::{Block, Entry, Error, Log, RecoverySummary, Replay, ReplayError, Settings};
use coeval_types::{Remedy, Timestamp};

pub const DIRECTORY: &str = "/data";
pub const SEGMENT_BYTES: u64 = 8192;
pub const HEADER_BYTES: usize = 4096;
/// Log offset at which the stream begins.
pub const FIRST: u64 = 4096;

fn settings() -> Settings {
    Settings {
        segment_bytes: SEGMENT_BYTES,
        ring_bytes: 4096,
        frame_payload_bytes: 512,
        recovery_threads: 1,
        ..Settings::default()
    }
}

/// A replay target that records the entries it is given.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn note(&self, what: String) {
        self.0
            .lock()
            .expect("no panic while it was held")
            .push(what);
    }
}

impl Replay for Notes {
    fn apply(&self, entries: &[(Timestamp, Entry<'_>)]) -> Result<(), ReplayError> {
        for (timestamp, entry) in entries {
            self.note(format!("{timestamp} {entry:?}"));
        }
        Ok(())
    }

    fn restore(&self, block: &Block<'_>) -> Result<(), String> {
        block.each(|record| {
            self.note(format!("{} {record:?}", block.storage()));
            Ok(())
        })
    }
}

async fn open() -> Result<(Log, RecoverySummary, Vec<String>), Error> {
    let notes = Arc::new(Notes::default());
    let (log, summary) = Log::open(Path::new(DIRECTORY), settings(), notes.clone()).await?;
    let notes = std::mem::take(&mut *notes.0.lock().expect("no panic while it was held"));
    Ok((log, summary, notes))
}

/// The files of a new log whose process was killed.
pub fn made() -> Vec<(PathBuf, Vec<u8>)> {
    static MADE: OnceLock<Vec<(PathBuf, Vec<u8>)>> = OnceLock::new();
    let make = || {
        let world = World::new(1);
        let node = world.node();
        let opened = world.run(node, open()).expect("no panic");
        world.kill(node);
        drop(opened.expect("a new directory"));
        world.files(node)
    };
    MADE.get_or_init(make).clone()
}

/// The database's id, read from the files of [`made`], after the 16 bytes of a stamp.
pub fn database(files: &[(PathBuf, Vec<u8>)]) -> [u8; 16] {
    let control = files.iter().find(|(path, _)| path.ends_with("CONTROL"));
    let (_, control) = control.expect("a new log has a control file");
    *control[16..].first_chunk().expect("a stamp and an id")
}

/// Decodes an input into numbers and byte strings.
pub struct Input<'input>(pub &'input [u8]);

impl<'input> Input<'input> {
    pub fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// A byte string, preceded by its length.
    pub fn bytes(&mut self) -> Option<&'input [u8]> {
        let length = usize::from(self.byte()?).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(taken)
    }

    /// Changes some of the first bytes of a block.
    pub fn change(&mut self, block: &mut [u8]) {
        for _ in 0..self.byte().unwrap_or_default() % 8 {
            let (Some(offset), Some(byte)) = (self.byte(), self.byte()) else {
                return;
            };
            let length = block.len().min(128);
            if length > 0 {
                block[usize::from(offset) % length] = byte;
            }
        }
    }
}

/// Recomputes the checksum of a changed stamped block.
pub fn stamp(block: &mut [u8]) {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&block[..12]), &block[16..]);
    block[12..16].copy_from_slice(&crc.to_le_bytes());
}

async fn write(files: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in files {
        let folder = path.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).await.expect("a disk that works");
        let file = fs::open(path, fs::OpenOptions::CREATE).await;
        let file = file.expect("a disk that works");
        file.write_at(bytes, 0).await.expect("a disk that works");
        file.sync_all().await.expect("a disk that works");
        fs::sync_dir(folder).await.expect("a disk that works");
    }
}

/// Starts on these files three times. Either the log refuses them, and changes nothing;
/// or it opens, and the next two starts, the second after an orderly stop, restore and
/// replay the same.
pub fn start(files: Vec<(PathBuf, Vec<u8>)>) {
    let world = World::new(2);
    let node = world.node();
    let written = world.run(node, async move { write(&files).await });
    written.expect("no panic");
    let before = world.files(node);

    let start = |close: bool| {
        let opened = world.run(node, async move {
            let (log, summary, notes) = open().await?;
            if close {
                log.close().await.expect("a disk that works");
            }
            Ok::<_, Error>((log, summary, notes))
        });
        world.kill(node);
        let (_log, summary, notes) = opened.expect("no panic")?;
        Ok::<_, Error>((summary, notes))
    };
    match start(false) {
        Err(error) => {
            assert_eq!(error.remedy(), Remedy::Fix, "{error}");
            assert_eq!(world.files(node), before, "{error}");
        }
        Ok((first, notes)) => {
            let (second, again) = start(true).expect("it opened before");
            assert_eq!(again, notes);
            assert_eq!(
                (second.checkpoint, second.commits, second.entries),
                (first.checkpoint, first.commits, first.entries)
            );
            assert_eq!(second.last_commit, first.last_commit);
            assert_eq!(second.cut_bytes, 0);
            let (third, again) = start(true).expect("it opened before");
            assert_eq!(again, notes);
            assert!(third.clean);
            assert_eq!(third.end, second.end);
        }
    }
}
