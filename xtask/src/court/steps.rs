//! The steps of a long run of the fault harness, and the record of which are done.
//!
//! A step is all workloads at all levels under one kind of fault, on a single server, or
//! on the leader, a follower or all nodes of a cluster of three. Each step with a verdict
//! is a line in a file of the repository, so that an interrupted run continues with the
//! next step, on this machine or another:
//!
//! ```text
//! # step build rounds verdict seconds
//! kill 76f5297303 5 passed 231
//! full/follower 76f5297303 5 failed 80
//! full/follower 76f5297303 5 passed 84
//! ```
//!
//! Invariants:
//! - A step that the same build has passed with as many rounds or more is not repeated;
//!   results of other builds do not count.
//! - A step without a verdict is not recorded, because the cause may be the machine.
//! - A failed step is repeated. Its failure remains on record, and the run of that
//!   build ends as failed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Kinds of fault, as the harness names them.
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
/// Affected nodes of a cluster, as the harness names them.
pub const WHOM: [&str; 3] = ["leader", "follower", "all"];
const ROUNDS: u32 = 5;
const HEAD: &str = "# step build rounds verdict seconds\n";

/// One step; see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignStep {
    kind: &'static str,
    /// Affected nodes, for a cluster.
    whom: Option<&'static str>,
}

impl CampaignStep {
    /// Every kind of fault on a single server.
    pub fn alone() -> Vec<Self> {
        let step = |kind| Self { kind, whom: None };
        KINDS.into_iter().map(step).collect()
    }

    /// Every kind of fault on every choice of nodes in a cluster.
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

    /// Command-line arguments of the harness for this step.
    pub fn arguments(self) -> Vec<String> {
        let rounds = ROUNDS.to_string();
        let mut arguments = vec!["--kind", self.kind, "--rounds", &rounds];
        if let Some(whom) = self.whom {
            arguments.extend(["--nodes", "3", "--whom", whom]);
        }
        arguments.into_iter().map(str::to_owned).collect()
    }
}

/// The record of a step of a build: whether it has passed with at least the requested
/// rounds, and whether it has failed, with any number.
pub fn on_record(record: &str, step: CampaignStep, build: &str) -> (bool, bool) {
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

/// Contents of the record; empty if the file does not exist.
pub fn read(file: &Path) -> io::Result<String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Appends the result of a step to the record.
pub fn note(
    file: &Path,
    step: CampaignStep,
    build: &str,
    passed: bool,
    seconds: u64,
) -> io::Result<()> {
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

    /// The quoted names that follow this word.
    fn named(source: &str, word: &str) -> Vec<String> {
        let behind = source.split_once(word).unwrap().1;
        let list = behind.split_once("];").unwrap().0;
        let quoted = list.split('"').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    }

    #[test]
    fn steps_are_of_all_that_the_dock_can_do() {
        let source = include_str!("../../../crates/workload/src/faults/harness/kind.rs");
        let (_, of_whom) = source.split_once("impl Whom").unwrap();
        assert_eq!(named(source, "pub const ALL:"), KINDS);
        assert_eq!(named(of_whom, "pub const ALL:"), WHOM);
        assert_eq!(CampaignStep::alone().len(), KINDS.len());
        assert_eq!(CampaignStep::of_clusters().len(), KINDS.len() * WHOM.len());
    }

    #[test]
    fn a_step_is_done_when_the_same_build_has_passed_it() {
        let folder = std::env::temp_dir().join(format!("coeval-steps-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("processes");
        let (alone, of_three) = (CampaignStep::alone()[0], CampaignStep::of_clusters()[0]);
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
