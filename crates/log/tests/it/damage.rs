//! Damage on the disk: recovery cuts it off if the bytes were never durable, and refuses
//! the log if they were.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coeval_env::sim::{Loss, Node, World};
use coeval_log::{Error, ReplicaLog};
use coeval_types::{Remedy, Timestamp};

use crate::support::{Table, open, put, put_durably, small};

const DIRECTORY: &str = "/data";
const HEADER: u64 = 4096;
const COMMITS: u64 = 6;

/// A log of a few commits, each durable before the next, in one segment. Closed in order,
/// or killed with all writes unsynced.
fn write(clean: bool) -> (World, Node, Vec<Timestamp>) {
    let world = World::new(1);
    let node = world.node();
    world.set_loss(node, Loss::Nothing);
    let commits = world
        .run(node, async move {
            let (log, ..) = open(Path::new(DIRECTORY), small()).await.unwrap();
            let mut commits = Vec::new();
            for rid in 0..COMMITS {
                commits.push(put_durably(&log, rid, b"some value").await.unwrap());
            }
            if clean {
                log.close().await.unwrap();
            } else {
                std::mem::forget(log);
            }
            commits
        })
        .unwrap();
    world.crash(node);
    (world, node, commits)
}

fn segment() -> String {
    format!("{DIRECTORY}/log/{:020}.log", 4096)
}

/// Opens the log, and returns the commits that were recovered.
fn reopen(world: &World, node: Node) -> Result<Vec<Timestamp>, Error> {
    world
        .run(node, async {
            let (log, _, table) = open(Path::new(DIRECTORY), small()).await?;
            log.close().await?;
            Ok(table.commits())
        })
        .unwrap()
}

/// Start and number of the frame that contains this byte of the segment.
fn frame_of(commits: &[Timestamp], offset: u64) -> (usize, u64) {
    let starts = commits.iter().map(|commit| HEADER + commit.lsn().0 - 4096);
    starts
        .enumerate()
        .take_while(|(_, start)| *start <= offset)
        .last()
        .unwrap()
}

fn refused(
    error: &Error,
    path: &str,
    at: u64,
    files: &[(PathBuf, Vec<u8>)],
    world: &World,
    node: Node,
) {
    assert_eq!(error.remedy(), Remedy::Fix);
    let Error::Damaged { file, offset, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((file.as_path(), *offset), (Path::new(path), at), "{error}");
    assert_eq!(world.files(node), files, "nothing has been changed");
}

fn end_of(world: &World, node: Node) -> u64 {
    let files = world.files(node);
    let (_, bytes) = files
        .iter()
        .find(|(path, _)| path == Path::new(&segment()))
        .unwrap();
    let last = bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64;
    (last + 1).next_multiple_of(8)
}

#[test]
fn every_flipped_bit_of_a_closed_log_is_refused_by_file_and_offset() {
    let (world, node, commits) = write(true);
    let end = end_of(&world, node);
    let control = format!("{DIRECTORY}/CONTROL");
    let places = (0..128)
        .map(|at| (control.clone(), at))
        .chain(
            (0..64)
                .chain((64..HEADER).step_by(97))
                .map(|at| (segment(), at)),
        )
        .chain((HEADER..end).map(|at| (segment(), at)));
    for (path, offset) in places {
        for bit in 0..8 {
            world.damage(node, &path, offset, |byte| byte ^ 1 << bit);
            let files = world.files(node);
            let error = match reopen(&world, node) {
                Ok(commits) => panic!("{path} {offset} bit {bit}: opened with {commits:?}"),
                Err(error) => error,
            };
            let at = if path == segment() && offset >= HEADER {
                frame_of(&commits, offset).1
            } else {
                0
            };
            refused(&error, &path, at, &files, &world, node);
            world.damage(node, &path, offset, |byte| byte ^ 1 << bit);
        }
    }
    assert_eq!(reopen(&world, node).unwrap(), commits);
}

#[test]
fn after_a_crash_only_the_last_group_can_be_taken_for_a_torn_tail() {
    let (_, _, commits) = write(false);
    let (world, node, _) = write(false);
    let end = end_of(&world, node);
    for offset in (HEADER..end).step_by(3) {
        let (number, start) = frame_of(&commits, offset);
        let bit = offset % 8;
        let (world, node, same) = write(false);
        assert_eq!(same, commits);
        world.damage(node, &segment(), offset, |byte| byte ^ 1 << bit);
        let files = world.files(node);
        match reopen(&world, node) {
            Err(error) => {
                assert!(number < COMMITS as usize - 1);
                refused(&error, &segment(), start, &files, &world, node);
                assert!(error.to_string().contains("proves"), "{error}");
            }
            Ok(left) => {
                assert_eq!(number, COMMITS as usize - 1, "nothing behind it could tell");
                assert_eq!(left, commits[..number]);
                assert_eq!(reopen(&world, node).unwrap(), left, "and it stays so");
            }
        }
    }
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_there() {
    let (world, node, commits) = write(false);
    let end = end_of(&world, node);
    for torn in HEADER..end {
        let (world, node, _) = write(false);
        for offset in torn..end {
            world.damage(node, &segment(), offset, |_| 0);
        }
        let left = reopen(&world, node).unwrap();
        let (number, start) = frame_of(&commits, torn);
        // Its last bytes may have been zeros anyway.
        let whole = left.len() == number + 1;
        assert!(whole || left.len() == number, "torn at {torn}");
        assert_eq!(left, commits[..left.len()]);
        if torn <= start + 32 {
            assert!(!whole, "a frame without its payload");
        }
    }
}

#[test]
fn a_tail_that_crosses_into_the_next_segment_is_cleared_in_both() {
    let world = World::new(1);
    let node = world.node();
    world.set_loss(node, Loss::Nothing);
    let last = world
        .run(node, async {
            let (log, ..) = open(Path::new(DIRECTORY), small()).await.unwrap();
            // Frames of 432 bytes: the tenth crosses the boundary at 8192.
            let mut last = Timestamp::ZERO;
            for rid in 0..10 {
                last = put_durably(&log, rid, &[9; 388]).await.unwrap();
            }
            std::mem::forget(log);
            last
        })
        .unwrap();
    world.crash(node);
    let offset = HEADER + last.lsn().0 - 4096;
    assert!(last.lsn().0 < 8192 && last.lsn().0 + 400 > 8192, "{last}");
    let second = format!("{DIRECTORY}/log/{:020}.log", 8192);
    let of_second = |world: &World| {
        let files = world.files(node);
        let found = files.iter().find(|(path, _)| path == Path::new(&second));
        found.map(|(_, bytes)| bytes[HEADER as usize..].to_vec())
    };
    assert!(of_second(&world).unwrap().contains(&9));
    world.damage(node, &segment(), offset + 50, |byte| !byte);
    assert_eq!(kill_after_opening(&world, node).len(), 9);
    let spare = of_second(&world).unwrap_or_default();
    assert!(spare.iter().all(|&byte| byte == 0), "the old one has gone");
    assert!(end_of(&world, node) <= offset);
    assert_eq!(reopen(&world, node).unwrap().len(), 9);
}

/// Opens the log, drops it without closing, and returns the commits that were recovered.
fn kill_after_opening(world: &World, node: Node) -> Vec<Timestamp> {
    let commits = world
        .run(node, async {
            let (log, _, table) = open(Path::new(DIRECTORY), small()).await.unwrap();
            std::mem::forget(log);
            table.commits()
        })
        .unwrap();
    world.crash(node);
    commits
}

#[test]
fn a_remnant_of_a_cut_tail_is_never_taken_for_a_part_of_the_log() {
    let (world, node, commits) = write(false);
    let before = world.files(node);
    // The last commit is torn and cut …
    let last = HEADER + commits.last().unwrap().lsn().0 - 4096;
    let remnant = |at: u64| {
        let (_, bytes) = before
            .iter()
            .find(|(path, _)| path == Path::new(&segment()))
            .unwrap();
        bytes[at as usize]
    };
    world.damage(node, &segment(), last + 40, |byte| !byte);
    kill_after_opening(&world, node);
    // … and then, as if the clearing had never reached the disk, the old frame is back.
    assert!(end_of(&world, node) <= last, "it was cleared");
    for offset in last..last + 64 {
        world.damage(node, &segment(), offset, |_| remnant(offset));
    }
    assert_eq!(
        kill_after_opening(&world, node),
        commits[..commits.len() - 1]
    );
    world
        .run(node, async {
            let (log, ..) = open(Path::new(DIRECTORY), small()).await.unwrap();
            let new = put(&log, &[(99, b"new")]).await.unwrap();
            log.wait_durable(new).await.unwrap();
            std::mem::forget(log);
        })
        .unwrap();
    world.crash(node);
    let left = reopen(&world, node).unwrap();
    assert_eq!(left.len(), commits.len());
    assert!(!left.contains(commits.last().unwrap()));
}

#[test]
fn files_of_another_version_or_database_are_told_from_damage() {
    let (world, node, _) = write(true);
    // An older CONTROL: its term is lower than the log's newest.
    let (old_world, old_node, _) = write(true);
    let control = format!("{DIRECTORY}/CONTROL");
    assert!(reopen(&world, node).is_ok());
    world
        .run(node, async {
            let (log, ..) = open(Path::new(DIRECTORY), small()).await.unwrap();
            put_durably(&log, 7, b"in a later term").await.unwrap();
            log.close().await.unwrap();
        })
        .unwrap();
    let old = old_world.files(old_node);
    let (_, bytes) = old
        .iter()
        .find(|(path, _)| path == Path::new(&control))
        .unwrap();
    for (offset, byte) in bytes.iter().enumerate() {
        world.damage(node, &control, offset as u64, |_| *byte);
    }
    // The same seed, so the same database: the older CONTROL's clean end is simply too
    // early, and recovery cannot distinguish the later commits from a tail that was cut.
    // Without the clean end it can.
    let crc_at = 12;
    let clean_at = 16 + 16 + 8 + 8 + 4;
    world.damage(node, &control, clean_at, |_| 0);
    let files = world.files(node);
    let (_, block) = files
        .iter()
        .find(|(path, _)| path == Path::new(&control))
        .unwrap();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&block[..12]), &block[16..]).to_le_bytes();
    for (at, byte) in crc.into_iter().enumerate() {
        world.damage(node, &control, (crc_at + at) as u64, |_| byte);
    }
    let error = reopen(&world, node).unwrap_err();
    assert!(error.to_string().contains("older than the log"), "{error}");

    let files = world.files(node);
    let (_, block) = files
        .iter()
        .find(|(path, _)| path == Path::new(&control))
        .unwrap();
    let mut block = block.clone();
    block[8] = 200;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&block[..12]), &block[16..]).to_le_bytes();
    block[12..16].copy_from_slice(&crc);
    for (offset, byte) in block.into_iter().enumerate() {
        world.damage(node, &control, offset as u64, |_| byte);
    }
    let error = reopen(&world, node).unwrap_err();
    assert!(matches!(error, Error::Format { .. }), "{error}");
    assert!(error.to_string().contains("newer version"), "{error}");
}

/// Earlier format versions allow fewer files than this one; an unreplicated server writes
/// the same bytes: a directory of such a version is one of this version without
/// checkpoints (1) or without a cluster (2).
#[test]
fn directories_of_earlier_versions_are_opened() {
    for version in 1..=2 {
        let (world, node, commits) = write(true);
        let files = [format!("{DIRECTORY}/CONTROL"), segment()];
        for (name, length) in files.into_iter().zip([128, 4096]) {
            let files = world.files(node);
            let (_, block) = files
                .iter()
                .find(|(path, _)| path == Path::new(&name))
                .unwrap();
            let mut block = block[..length].to_vec();
            block[8] = version;
            let crc = crc32c::crc32c_append(crc32c::crc32c(&block[..12]), &block[16..]);
            block[12..16].copy_from_slice(&crc.to_le_bytes());
            for (offset, byte) in block.into_iter().enumerate() {
                world.damage(node, &name, offset as u64, |_| byte);
            }
        }
        assert_eq!(reopen(&world, node).unwrap(), commits);
        let files = world.files(node);
        let (_, control) = &files[0];
        assert_eq!(control[8], 3, "an older program refuses it from now on");
        // A cluster's node made from the directory reads the same commits.
        let joined = world.run(node, async {
            let table = Arc::new(Table::default());
            let replica = ReplicaLog::open(Path::new(DIRECTORY), None, small(), table.clone());
            replica.await.map(|_| table.commits())
        });
        assert_eq!(joined.unwrap().unwrap(), commits);
    }
}
