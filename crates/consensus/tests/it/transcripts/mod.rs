//! Golden transcripts: one scenario per file, as commands and their effects.
//!
//! A line that begins with `>` is a command; its effects follow it. Lines with `#` are
//! comments. `UPDATE_TRANSCRIPTS=1` writes the present effects into the files: review the
//! difference like code.
//!
//! | command | effect |
//! | --- | --- |
//! | `cluster 1 2 3 + 4 spare 5 recovery=checking lease=100 seed=1` | voters, learners, nodes without members; settings |
//! | `disk 3 term=3 commit=2: S1 a b S3` | a node is down, and has this on its disk: `S3` is the mark of term 3, all else are entries of the term before them |
//! | `start 1 3`, `crash 3` | from their disks; with all writes under way lost |
//! | `tick 1 3`, `tick all 3` | three ticks, of one node or of all together |
//! | `pass 60` | this many ticks of all, everything delivered and written after each; not listed |
//! | `stand 1` | ticks until it campaigns |
//! | `deliver`, `deliver 1>2`, `deliver 1>2 1` | everything in flight, that of one link, or the first of it |
//! | `drop 1>2`, `drop 1` | packets in flight there are lost, or all from and to a node |
//! | `cut 3`, `heal` | from now on everything from and to a node is lost |
//! | `persist 1`, `persist 1 1` | its writes are done, or the first |
//! | `settle` | deliver and persist until nothing is in flight; `settle quietly` lists nothing |
//! | `propose 1 x`, `read 1 7`, `transfer 1 2`, `change 1 voter 4` | as their names say |
//! | `ask 2 7` | node 2 asks its leader up to where it must have applied for read 7 |
//! | `hold 1 3`, `release 1 3` | node 1 sends node 3 no entries, or does again |
//! | `certain 1` | for how many more ticks no other node leads: for certain, and probably |
//! | `awaits 1` | whether, and up to where, node 1's disk is waited for |
//! | `to all 1` | node 1 may send entries also to non-quorum followers (`unawaited=batched`) |
//! | `outruns 3 1 16` | this many times node 1 sends a proposal to all, and node 3 has it first; not listed |
//! | `compact 1` | a checkpoint replaces its committed log |
//! | `status`, `under way` | the status of the nodes; the messages in flight |
//!
//! Entries take one offset each, so an offset is an index.

mod describe;
mod script;

use std::path::{Path, PathBuf};

use script::Script;

#[expect(clippy::disallowed_methods, reason = "the files are beside us")]
fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let entries = std::fs::read_dir(folder).expect("a folder that can be listed");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the files are beside us")]
fn every_scenario_goes_as_it_is_told() {
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some();
    let mut different = String::new();
    let files = files();
    assert!(files.len() > 10, "the scenarios are missing");
    for path in files {
        let told = std::fs::read_to_string(&path).expect("a file that can be read");
        let happens = Script::play(&told);
        if told == happens {
            continue;
        }
        if update {
            std::fs::write(&path, happens).expect("a file that can be written");
            continue;
        }
        let line = told
            .lines()
            .zip(happens.lines())
            .take_while(|(a, b)| a == b)
            .count();
        different += &format!(
            "{}:{}:\n  told    {}\n  happens {}\n",
            path.display(),
            line + 1,
            told.lines().nth(line).unwrap_or("the end"),
            happens.lines().nth(line).unwrap_or("the end"),
        );
    }
    assert!(different.is_empty(), "{different}");
}
