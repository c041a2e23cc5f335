//! Every file of a data directory damaged in turn: repaired, or refused with the file
//! and the place in it; never served.
//!
//! Each damage is met twice: by an inspection, which must leave the directory as it is,
//! and by a start. They must agree.
#![expect(
    clippy::disallowed_methods,
    reason = "the test damages the files of the data directory itself"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coeval_occ::{Engine, OpenError, Settings};
use coeval_sql::Database;

use crate::client::{must, session};

/// What the database holds, as a client sees it.
type Contents = Vec<String>;

/// Small files, so that every part of them is met.
fn settings() -> Settings {
    let mut settings = Settings {
        sweep_interval: None,
        checkpoint_log_bytes: 0,
        ..Settings::default()
    };
    settings.log.segment_bytes = 16 << 10;
    settings.log.ring_bytes = 64 << 10;
    settings.log.frame_payload_bytes = 2 << 10;
    settings.log.recovery_threads = 2;
    settings.log.checkpoint_block_bytes = 1 << 10;
    settings
}

async fn contents(database: &Arc<Database>) -> Contents {
    let mut session = session(database);
    let mut all = must(&mut session, "select * from t order by id").await;
    all.extend(must(&mut session, "select id from t where n >= 0 order by n").await);
    all.extend(must(&mut session, "select count(*) from other").await);
    all
}

/// Opens the directory and reads everything.
async fn open(directory: &Path) -> Result<(Arc<Engine>, Arc<Database>), OpenError> {
    let (engine, _) = Engine::open(directory, settings()).await?;
    let engine = Arc::new(engine);
    let database = Database::open(Arc::clone(&engine) as _).await;
    Ok((engine, database.expect("what is read makes sense")))
}

/// A database with a checkpoint and a log behind it, closed in order or not. Returns
/// what it held after each of its commits.
async fn make(directory: &Path, close: bool) -> Vec<Contents> {
    let (engine, database) = open(directory).await.expect("a new directory");
    let mut session = session(&database);
    let mut history = Vec::new();
    must(
        &mut session,
        "create table t (id int primary key, name text not null, n int unique)",
    )
    .await;
    must(&mut session, "create table other (id int primary key)").await;
    for batch in 0..10 {
        let rows: Vec<String> = (batch * 20..batch * 20 + 20)
            .map(|id| format!("({id}, 'the name of {id}', {})", 1000 - id))
            .collect();
        must(
            &mut session,
            &format!("insert into t values {}", rows.join(", ")),
        )
        .await;
    }
    must(&mut session, "checkpoint").await;
    history.push(contents(&database).await);
    for round in 0..8 {
        for change in [
            format!("update t set n = -n where id % 8 = {round}"),
            format!("delete from t where id = {}", round * 7),
            format!("insert into other values ({round})"),
        ] {
            must(&mut session, &change).await;
            history.push(contents(&database).await);
        }
    }
    drop(session);
    if close {
        engine.close().await.expect("a sound disk");
    }
    history
}

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn put(directory: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    for folder in ["log", "checkpoints"] {
        fs::create_dir_all(directory.join(folder)).unwrap();
    }
    for (name, bytes) in files {
        fs::write(directory.join(name), bytes).unwrap();
    }
}

/// The same file with damage of many kinds, each with a name.
fn damaged(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    const BLOCK: usize = 512;
    let mut all = Vec::new();
    let length = bytes.len();
    // Every structure is somewhere near one of these; prime steps meet every offset
    // within a word.
    let mut at: Vec<usize> = (0..length).step_by((length / 13).max(1) | 1).collect();
    at.extend([4, 9, 20, 30, 4096, 4100, 4105, 4112, 4125, 4140]);
    at.extend((1..=130).step_by(17).map(|back| length.wrapping_sub(back)));
    for at in at.into_iter().filter(|&at| at < length) {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1 << (at % 8);
        all.push((format!("bit {} of byte {at} flipped", at % 8), flipped));
    }
    for kept in [0, 1, 100, 4096, length / 2, length - length.min(1)] {
        if kept < length {
            all.push((format!("cut to {kept} bytes"), bytes[..kept].to_vec()));
        }
    }
    let blocks = length / BLOCK;
    for (one, other) in [
        (0, 1),
        (8, 9),
        (8, blocks / 2),
        (9, 11),
        (blocks / 2, blocks.saturating_sub(1)),
    ] {
        if one < other && other < blocks {
            let mut swapped = bytes.to_vec();
            let (first, second) = swapped.split_at_mut(other * BLOCK);
            first[one * BLOCK..][..BLOCK].swap_with_slice(&mut second[..BLOCK]);
            all.push((format!("blocks {one} and {other} swapped"), swapped));
        }
    }
    all.retain(|(_, damaged)| damaged != bytes);
    all
}

/// What became of a damaged directory.
#[derive(Debug, PartialEq)]
enum Fate {
    Served(Contents),
    /// By file, place and reason.
    Refused(PathBuf, u64, String),
}

fn refused(directory: &Path, error: OpenError) -> Fate {
    match error {
        OpenError::Damaged { file, offset, what } => {
            let name = file
                .strip_prefix(directory)
                .expect("a file of the directory");
            Fate::Refused(name.to_owned(), offset, what)
        }
        other => panic!("refused without a file and a place: {other}"),
    }
}

async fn inspect(directory: &Path) -> Fate {
    let engine = match Engine::inspect(directory, settings(), |_| {}).await {
        Ok((engine, _)) => engine,
        Err(error) => return refused(directory, error),
    };
    let database = Database::open(Arc::new(engine)).await;
    let database = database.expect("what is read makes sense");
    let verified = database.verify(|_, _| {}).await.expect("an answer");
    assert_eq!(verified.findings, [] as [String; 0]);
    assert_eq!((verified.tables, verified.indexes), (2, 3));
    Fate::Served(contents(&database).await)
}

async fn start(directory: &Path) -> Fate {
    match open(directory).await {
        Ok((_, database)) => Fate::Served(contents(&database).await),
        Err(error) => refused(directory, error),
    }
}

/// Damages every file of a database, and returns how many damages of each file were
/// refused and how many repaired.
async fn damage_in_turn(close: bool) -> BTreeMap<PathBuf, (usize, usize)> {
    let original = tempfile::tempdir().expect("a directory");
    let mut allowed = make(original.path(), close).await;
    if close {
        // Everything was acknowledged, and the log says that it ends there.
        allowed = vec![allowed.pop().expect("a history")];
    }
    let files = files(original.path());
    let mut counts = BTreeMap::new();
    for (name, bytes) in &files {
        let (refused, repaired) = counts.entry(name.clone()).or_default();
        for (what, damaged) in damaged(bytes) {
            let copy = tempfile::tempdir().expect("a directory");
            let mut with_damage = files.clone();
            with_damage.insert(name.clone(), damaged);
            put(copy.path(), &with_damage);
            let seen = inspect(copy.path()).await;
            assert_eq!(
                self::files(copy.path()),
                with_damage,
                "{name:?}, {what}: left alone"
            );
            let fate = start(copy.path()).await;
            match (&seen, &fate) {
                // Two blocks are damaged, and several threads read: either may be named.
                (Fate::Refused(file, _, reason), Fate::Refused(other, _, others))
                    if what.ends_with("swapped") =>
                {
                    assert_eq!((file, reason), (other, others), "{name:?}, {what}");
                }
                _ => assert_eq!(seen, fate, "{name:?}, {what}: both see the same"),
            }
            match fate {
                Fate::Refused(..) => *refused += 1,
                Fate::Served(contents) => {
                    assert!(
                        allowed.contains(&contents),
                        "{name:?}, {what}: {contents:?}"
                    );
                    *repaired += 1;
                }
            }
        }
    }
    counts
}

fn check(counts: &BTreeMap<PathBuf, (usize, usize)>) {
    let of = |part: &str| {
        let of_part = counts.iter().filter(|(name, _)| name.starts_with(part));
        of_part.fold((0, 0), |sum, (_, (refused, repaired))| {
            (sum.0 + refused, sum.1 + repaired)
        })
    };
    // Nothing in these two is there for nothing.
    for part in ["CONTROL", "checkpoints"] {
        let (refused, repaired) = of(part);
        assert!(refused > 10, "{counts:?}");
        assert_eq!(repaired, 0, "{counts:?}");
    }
    // Behind the end of the log there are zeros.
    let (refused, repaired) = of("log");
    assert!(refused > 10 && repaired > 0, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_to_a_database_that_was_closed_is_never_served() {
    check(&damage_in_turn(true).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_to_a_database_that_was_killed_is_never_served() {
    check(&damage_in_turn(false).await);
}
