//! Damage to received bytes, and to a follower's disk.

use std::path::Path;

use coeval_env::sim::{Loss, Node, World};
use coeval_log::{Error, HardState};
use coeval_types::{Lsn, Term};

use super::frames::{FIRST, Stretch, content, open};
use crate::support::small;

const DIRECTORY: &str = "/data";

/// Four stretches of one term, each appended and flushed, over several segments; then the
/// log is closed, or killed with everything on the disk.
fn written(closed: bool) -> (World, Node, Stretch) {
    let world = World::new(1);
    let node = world.node();
    world.set_loss(node, Loss::Nothing);
    let mut all = Stretch::at(FIRST).mark(2, b"ab");
    for number in 0..30 {
        all = all.commit(2, number, &[number; 300]);
    }
    let bytes = all.clone();
    let written = world.run(node, async move {
        let (mut log, _) = open(Path::new(DIRECTORY), small()).await.unwrap();
        let term = HardState {
            term: Term(2),
            ..log.hard_state()
        };
        log.set_hard_state(term).await.unwrap();
        let mut start = FIRST;
        for end in &bytes.ends {
            let range = (start - FIRST) as usize..(end - FIRST) as usize;
            log.append(Lsn(start), &bytes.bytes[range]).await.unwrap();
            log.flush().await.unwrap();
            start = *end;
        }
        if closed {
            log.close().await.unwrap();
        } else {
            std::mem::forget(log);
        }
    });
    written.unwrap();
    world.crash(node);
    (world, node, all)
}

fn reopen(world: &World, node: Node) -> Result<Vec<u8>, Error> {
    let opened = world.run(node, async {
        let (log, _) = open(Path::new(DIRECTORY), small()).await?;
        Ok::<_, Error>(content(&log).await)
    });
    world.crash(node);
    opened.unwrap()
}

#[test]
fn a_flipped_bit_in_what_is_sent_is_refused_and_changes_nothing() {
    let world = World::new(1);
    let node = world.node();
    let good = Stretch::at(FIRST).mark(2, b"ab").commit(2, 1, b"value");
    let begun = world.run(node, async {
        let (mut log, _) = open(Path::new(DIRECTORY), small()).await.unwrap();
        let term = HardState {
            term: Term(2),
            ..log.hard_state()
        };
        log.set_hard_state(term).await.unwrap();
        log
    });
    let mut log = begun.unwrap();
    let before = world.files(node);
    let bytes = good.bytes.clone();
    let sent = world.run(node, async move {
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                let refused = log.append(Lsn(FIRST), &bad).await.unwrap_err();
                assert!(matches!(refused, Error::Refused { .. }), "{refused}");
            }
            let cut = log.append(Lsn(FIRST), &bytes[..at]).await;
            assert!(cut.is_err() || at == 0 || at == 40, "cut at {at}");
            if at == 40 {
                log.truncate(Lsn(FIRST)).await.unwrap();
            }
        }
        let elsewhere = log.append(Lsn(FIRST + 8), &bytes).await.unwrap_err();
        assert!(
            elsewhere.to_string().contains("ends at 4096"),
            "{elsewhere}"
        );
        assert_eq!(log.end(), Lsn(FIRST));
        log
    });
    let log = sent.unwrap();
    let streams = |files: Vec<(std::path::PathBuf, Vec<u8>)>| {
        let logs = files
            .into_iter()
            .filter(|(path, _)| !path.ends_with("CONTROL"));
        logs.map(|(path, bytes)| (path, bytes[4096.min(bytes.len())..].to_vec()))
            .collect::<Vec<_>>()
    };
    assert_eq!(streams(world.files(node)).len(), streams(before).len());
    drop(log);
}

#[test]
fn every_flipped_bit_of_a_closed_log_is_refused() {
    let (world, node, all) = written(true);
    let files = world.files(node);
    let mut refused = 0;
    for (path, bytes) in &files {
        let path = path.to_str().unwrap();
        if !path.ends_with(".log") && !path.ends_with("CONTROL") {
            continue;
        }
        let name = Path::new(path).file_stem().unwrap().to_str().unwrap();
        let first: u64 = name[..20.min(name.len())].parse().unwrap_or(0);
        let used = match path.ends_with("CONTROL") {
            true => bytes.len() as u64,
            false => 4096 + all.end().saturating_sub(first),
        };
        for offset in (0..used.min(bytes.len() as u64)).step_by(61) {
            let bit = offset % 8;
            world.damage(node, path, offset, |byte| byte ^ 1 << bit);
            let opened = reopen(&world, node);
            let error = opened.expect_err(&format!("{path} {offset}"));
            assert!(
                matches!(error, Error::Damaged { .. }),
                "{path} {offset}: {error}"
            );
            world.damage(node, path, offset, |byte| byte ^ 1 << bit);
            refused += 1;
        }
    }
    assert!(refused > 100, "{refused}");
    assert_eq!(reopen(&world, node).unwrap(), all.bytes);
}

/// Durable offsets in frames do not refer to a follower's disk; data in the next segment
/// proves durability instead.
#[test]
fn after_a_crash_damage_before_the_last_file_is_told_from_a_torn_tail() {
    let (world, node, all) = written(false);
    let files = world.files(node);
    let firsts: Vec<u64> = files
        .iter()
        .filter_map(|(path, _)| {
            path.file_name()?.to_str()?.strip_suffix(".log")?[..20]
                .parse()
                .ok()
        })
        .filter(|first| *first < all.end())
        .collect();
    assert!(firsts.len() > 2, "{firsts:?}");
    let last = firsts[firsts.len() - 1];
    for (number, end) in all.ends.iter().enumerate() {
        let (world, node, _) = written(false);
        let path = world
            .files(node)
            .into_iter()
            .filter_map(|(path, _)| {
                let first = path.file_name()?.to_str()?.strip_suffix(".log")?;
                let first: u64 = first[..20].parse().ok()?;
                (first < *end).then_some((first, path))
            })
            .max()
            .unwrap();
        let (first, path) = path;
        let offset = 4096 + (end - 1 - first);
        world.damage(node, path.to_str().unwrap(), offset & !7, |byte| !byte);
        match reopen(&world, node) {
            Err(error) => {
                assert!(*end <= last, "frame {number}: {error}");
                assert!(error.to_string().contains("is written, so"), "{error}");
            }
            Ok(left) => {
                assert!(*end > last, "frame {number} of the last file only");
                assert!(all.bytes.starts_with(&left) && left.len() < all.bytes.len());
                assert_eq!(reopen(&world, node).unwrap(), left, "and it stays so");
            }
        }
    }
}
