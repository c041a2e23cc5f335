//! What a long court does with processes, in steps, and which of them are done.
//!
//! A step is all workloads at all levels under one kind of fault: on a server alone, or on a
//! cluster of three whose leader, a follower or all are meant. Each that has a verdict stands in
//! a file of the repository, a line each, so that a court that was interrupted goes on with the
//! next one, on this machine or another:
//!
//! ```text
//! # step build rounds verdict seconds
//! kill 76f5297303 5 passed 231
//! full/follower 76f5297303 5 failed 80
//! full/follower 76f5297303 5 passed 84
//! ```
//!
//! Invariants:
//! - What the same build has passed with as many rounds or more is not done again; what other
//!   builds did spares nobody a step.
//! - A step that came to no verdict is not noted: what kept the dock from one may be the
//!   machine's doing.
//! - A step that failed is done again. That it has failed stays, and the court of that build
//!   ends so.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// What is done to servers, as the dock names it.
pub const KINDS: [&str; 15] = [
    "kill",
    "stop",
    "pause",
    "network",
    "cut",
    "partition",
    "one-way",
    "loss",
    "power",
    "sync",
    "slow",
    "write",
    "full",
    "clock",
    "combined",
];
/// Which nodes of a cluster are meant, as the dock names them.
pub const WHOM: [&str; 3] = ["leader", "follower", "all"];
const ROUNDS: u32 = 5;
const HEAD: &str = "# step build rounds verdict seconds\n";

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    kind: &'static str,
    /// Of a cluster.
    whom: Option<&'static str>,
}

impl Step {
    /// Every kind on a server alone.
    pub fn alone() -> Vec<Self> {
        let step = |kind| Self { kind, whom: None };
        KINDS.into_iter().map(step).collect()
    }

    /// Every kind on everybody who can be meant in a cluster.
    pub fn of_clusters() -> Vec<Self> {
        let meant = |kind| {
            let whom = WHOM.into_iter().map(Some);
            whom.map(move |whom| Self { kind, whom })
        };
        KINDS.into_iter().flat_map(meant).collect()
    }

    pub fn name(self) -> String {
        let whom = self.whom.map(|whom| format!("/{whom}"));
        self.kind.to_owned() + &whom.unwrap_or_default()
    }

    /// What the dock is told.
    pub fn arguments(self) -> Vec<String> {
        let rounds = ROUNDS.to_string();
        let mut arguments = vec!["--kind", self.kind, "--rounds", &rounds];
        if let Some(whom) = self.whom {
            arguments.extend(["--nodes", "3", "--whom", whom]);
        }
        arguments.into_iter().map(str::to_owned).collect()
    }
}

/// What the file says of a step of a build: whether it has passed with as many rounds as are
/// wanted, and whether it has failed, with however many.
pub fn on_record(record: &str, step: Step, build: &str) -> (bool, bool) {
    let name = step.name();
    let verdicts = record.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        if words.next()? != name || words.next()? != build {
            return None;
        }
        Some((words.next()?.parse::<u32>().ok()?, words.next()?))
    });
    verdicts.fold((false, false), |(passed, failed), (rounds, verdict)| {
        (
            passed || verdict == "passed" && rounds >= ROUNDS,
            failed || verdict == "failed",
        )
    })
}

/// The file's contents; nothing where there is none yet.
pub fn read(file: &Path) -> io::Result<String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Puts what has come of a step behind the others.
pub fn note(file: &Path, step: Step, build: &str, passed: bool, seconds: u64) -> io::Result<()> {
    let verdict = if passed { "passed" } else { "failed" };
    let mut line = format!("{} {build} {ROUNDS} {verdict} {seconds}\n", step.name());
    if read(file)?.is_empty() {
        line.insert_str(0, HEAD);
    }
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that stand between quotes behind this word.
    fn named(source: &str, word: &str) -> Vec<String> {
        let behind = source.split_once(word).unwrap().1;
        let list = behind.split_once("];").unwrap().0;
        let quoted = list.split('"').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    }

    #[test]
    fn steps_are_of_all_that_the_dock_can_do() {
        let source = include_str!("../../../crates/workload/src/faults/dock/kind.rs");
        let (_, of_whom) = source.split_once("impl Whom").unwrap();
        assert_eq!(named(source, "pub const ALL:"), KINDS);
        assert_eq!(named(of_whom, "pub const ALL:"), WHOM);
        assert_eq!(Step::alone().len(), KINDS.len());
        assert_eq!(Step::of_clusters().len(), KINDS.len() * WHOM.len());
    }

    #[test]
    fn a_step_is_done_when_the_same_build_has_passed_it() {
        let folder = std::env::temp_dir().join(format!("coeval-steps-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("processes");
        let (alone, of_three) = (Step::alone()[0], Step::of_clusters()[0]);
        assert_eq!(
            (alone.name(), of_three.name()),
            ("kill".into(), "kill/leader".into())
        );
        assert_eq!(read(&file).unwrap(), "");
        note(&file, of_three, "one", false, 7).unwrap();
        note(&file, alone, "one", true, 5).unwrap();
        let record = read(&file).unwrap();
        assert_eq!(
            record,
            "# step build rounds verdict seconds\nkill/leader one 5 failed 7\nkill one 5 passed 5\n"
        );
        assert_eq!(on_record(&record, alone, "one"), (true, false));
        assert_eq!(on_record(&record, of_three, "one"), (false, true));
        assert_eq!(on_record(&record, alone, "two"), (false, false));
        note(&file, of_three, "one", true, 6).unwrap();
        let record = read(&file).unwrap();
        assert_eq!(on_record(&record, of_three, "one"), (true, true));
        let fewer = "kill one 4 passed 5\nkill/leader one 4 failed 7\n";
        assert_eq!(on_record(fewer, alone, "one"), (false, false));
        assert_eq!(on_record(fewer, of_three, "one"), (false, true));
        let more = "kill one 50 passed 5\n";
        assert_eq!(on_record(more, alone, "one"), (true, false));
        fs::remove_dir_all(folder).unwrap();
    }
}
