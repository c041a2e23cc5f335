//! Self-test of the fault harness: servers with injected known bugs, and the violation
//! that the harness must report for each.
//!
//! ```text
//!   acknowledge-before-write   the client gets an acknowledgement, the process is killed
//!                              before the write               ledger: a transfer is lost
//!   stay-full                  the disk was full for a moment  no commit succeeds any more
//! ```
//!
//! A [`Catch`] is a run of the harness with a server that has a [`Bug`], from a build
//! with the feature `planted`. No check is specific to an injected bug: the judges, and
//! the requirements on a server, are those of every run. The time of a fault depends in
//! part on the machine, so a bug may be caught under any of several seeds; the same run
//! without the bug has to be clean.

use std::path::Path;
use std::time::Duration;

use coeval_txn::Isolation::{self, ReadCommitted, Serializable, SnapshotIsolation};
use coeval_types::planted::Bug;

use super::{Error, FaultKind, Options, Summary, Undecided, level_name, run};

/// Number of seeds under which a bug may be caught.
pub const SEEDS: u64 = 32;

/// A server with a known bug, and the run that catches it.
#[derive(Clone, Copy, Debug)]
pub struct Catch {
    /// The bug that the server has.
    pub bug: Bug,
    /// Kind of fault under which the bug shows.
    pub kind: FaultKind,
    /// Workload under which the bug shows.
    pub workload: &'static str,
    /// Isolation level of the transactions.
    pub level: Isolation,
    /// Text that one of the violations, or the error instead of a verdict, must contain.
    pub says: &'static str,
    /// Whether packets are dropped by a firewall, in a network namespace, which not every
    /// machine has; otherwise by the proxy, which works everywhere.
    pub namespace: bool,
    /// Parameters that widen the window in which the bug shows: further faults, settings
    /// of the server, number of faults, and in milliseconds the longest time under load,
    /// the clients' timeout, and the timeout for the server's requirements.
    faults: &'static [&'static str],
    settings: &'static [(&'static str, u64)],
    rounds: u32,
    load: u64,
    timeout: u64,
    patience: u64,
}

const fn by(
    bug: Bug,
    kind: FaultKind,
    workload: &'static str,
    level: Isolation,
    says: &'static str,
) -> Catch {
    Catch {
        bug,
        kind,
        workload,
        level,
        says,
        namespace: false,
        faults: &[],
        settings: &[],
        rounds: 1,
        load: 100,
        timeout: 2000,
        patience: 4000,
    }
}

/// The server aborts a transaction whose client is idle for longer.
const IDLE: &[(&str, u64)] = &[("idle-in-transaction-session-timeout", 20)];

/// No checkpoints, so that recovery must replay the whole log.
const LOG_ONLY: &[(&str, u64)] = &[("checkpoint-log-bytes", 1 << 30)];

/// Known bugs, at least one for each kind of fault.
pub const CATCHES: &[Catch] = &[
    Catch {
        rounds: 5,
        ..by(
            Bug::AcknowledgeBeforeWrite,
            FaultKind::Kill,
            "ledger",
            ReadCommitted,
            "lost: ",
        )
    },
    Catch {
        load: 600,
        settings: LOG_ONLY,
        ..by(
            Bug::ForgetTombstone,
            FaultKind::Kill,
            "tpcc",
            ReadCommitted,
            "3.3.2",
        )
    },
    by(
        Bug::CommitOnStop,
        FaultKind::Stop,
        "ledger",
        Serializable,
        "torn: ",
    ),
    by(
        Bug::CommitOnStop,
        FaultKind::Stop,
        "bank",
        SnapshotIsolation,
        "garbage-read",
    ),
    Catch {
        settings: IDLE,
        rounds: 5,
        ..by(
            Bug::SessionOutlivesTimeout,
            FaultKind::Pause,
            "bank",
            ReadCommitted,
            "a sum of ",
        )
    },
    Catch {
        timeout: 40,
        rounds: 3,
        ..by(
            Bug::CommitOnDisconnect,
            FaultKind::Network,
            "ledger",
            SnapshotIsolation,
            "torn: ",
        )
    },
    by(
        Bug::CommitOnDisconnect,
        FaultKind::Cut,
        "smallbank",
        ReadCommitted,
        " holds ",
    ),
    Catch {
        settings: IDLE,
        ..by(
            Bug::SessionOutlivesTimeout,
            FaultKind::Partition,
            "bank",
            Serializable,
            "a sum of ",
        )
    },
    Catch {
        timeout: 40,
        rounds: 3,
        ..by(
            Bug::CommitOnDisconnect,
            FaultKind::OneWay,
            "ledger",
            ReadCommitted,
            "torn: ",
        )
    },
    Catch {
        namespace: true,
        settings: IDLE,
        ..by(
            Bug::SessionOutlivesTimeout,
            FaultKind::Partition,
            "bank",
            Serializable,
            "a sum of ",
        )
    },
    Catch {
        namespace: true,
        timeout: 40,
        rounds: 3,
        ..by(
            Bug::CommitOnDisconnect,
            FaultKind::OneWay,
            "ledger",
            ReadCommitted,
            "torn: ",
        )
    },
    Catch {
        timeout: 40,
        ..by(
            Bug::CommitOnDisconnect,
            FaultKind::Loss,
            "ledger",
            Serializable,
            "torn: ",
        )
    },
    Catch {
        faults: &["sync takes 30"],
        ..by(
            Bug::AcknowledgeBeforeSync,
            FaultKind::Power,
            "list-append",
            ReadCommitted,
            "incompatible-order",
        )
    },
    Catch {
        // A shorter timeout, because later the server may exit for another reason: its
        // log needs a new file.
        patience: 300,
        ..by(
            Bug::IgnoreFailedSync,
            FaultKind::Sync,
            "ledger",
            ReadCommitted,
            "goes on although its disk does not sync",
        )
    },
    by(
        Bug::SlowIsFailed,
        FaultKind::Slow,
        "rw-register",
        SnapshotIsolation,
        "G1a",
    ),
    Catch {
        // A commit queued after another one waits for the same fsync, which hides part of
        // the bug.
        load: 200,
        rounds: 3,
        ..by(
            Bug::AcknowledgeBeforeSync,
            FaultKind::Slow,
            "smallbank",
            Serializable,
            "too soon: ",
        )
    },
    by(
        Bug::SlowIsFailed,
        FaultKind::Slow,
        "ledger",
        ReadCommitted,
        "invented: ",
    ),
    by(
        Bug::AcknowledgeBeforeWrite,
        FaultKind::Write,
        "ledger",
        Serializable,
        "lost: ",
    ),
    by(
        Bug::StayFull,
        FaultKind::Full,
        "ycsb",
        SnapshotIsolation,
        "committing anything takes longer",
    ),
    by(
        Bug::OrderByClock,
        FaultKind::Clock,
        "ledger",
        ReadCommitted,
        "lost: ",
    ),
];

/// Result of testing a known bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The harness caught the bug.
    Caught {
        /// Seed under which it was caught.
        seed: u64,
        /// The violation that was reported.
        said: String,
    },
    /// The harness did not report the expected violation; holds the result of each seed.
    Missed(Vec<String>),
}

impl Catch {
    /// Parameters of the run.
    #[must_use]
    pub fn options(&self, seed: u64) -> Options {
        let mut options = Options {
            seed,
            rounds: self.rounds,
            load_at_most: Duration::from_millis(self.load),
            operation_timeout: Duration::from_millis(self.timeout),
            planted: self.faults.to_vec(),
            bug: Some(self.bug),
            loopback: !self.namespace,
            patience: Duration::from_millis(self.patience),
            ..Options::new(self.workload, self.level, self.kind)
        };
        for (name, value) in self.settings {
            options.set(name, *value);
        }
        options
    }

    /// Tests the bug with a server of `binary`, each seed in a folder of its own under
    /// `folder`, until it is caught.
    ///
    /// # Errors
    /// If the machine refuses an operation.
    pub async fn test(&self, binary: &Path, folder: &Path) -> Result<Outcome, Error> {
        let mut missed = Vec::new();
        for seed in 1..=SEEDS {
            let folder = folder.join(seed.to_string());
            let said = match run(binary, &folder, &self.options(seed)).await {
                Ok(summary) => summary.objections,
                Err(Undecided {
                    error: Error::Io(error),
                    ..
                }) => return Err(Error::Io(error)),
                Err(Undecided { error, summary }) => {
                    let mut said = summary.objections;
                    said.push(error.to_string());
                    said
                }
            };
            match said.iter().find(|said| said.contains(self.says)) {
                Some(said) => {
                    let said = said.clone();
                    return Ok(Outcome::Caught { seed, said });
                }
                None => missed.push(said.join("; ")),
            }
        }
        Ok(Outcome::Missed(missed))
    }

    /// Violations of the same run with a server without the bug; there must be none.
    ///
    /// # Errors
    /// If no verdict was reached.
    pub async fn without(&self, binary: &Path, folder: &Path) -> Result<Vec<String>, Error> {
        let mut seed = 1;
        loop {
            let options = Options {
                bug: None,
                patience: super::PATIENCE,
                ..self.options(seed)
            };
            match objections(run(binary, &folder.join(seed.to_string()), &options).await) {
                // On a busy machine, clients with a short timeout may fail to read all
                // data at the end: that is no verdict yet, so another seed is tried.
                Err(Error::Load(_)) if seed < SEEDS => seed += 1,
                done => return done,
            }
        }
    }

    /// Violations of the buggy server without any fault. If the bug needs the fault to
    /// show, there must be none.
    ///
    /// # Errors
    /// If no verdict was reached.
    pub async fn without_fault(&self, binary: &Path, folder: &Path) -> Result<Vec<String>, Error> {
        let options = Options {
            rounds: 0,
            planted: Vec::new(),
            // In place of the duration of the rounds.
            load_at_most: Duration::from_millis(10 * self.load),
            // On a busy machine a client with a short timeout is a fault by itself.
            operation_timeout: super::PATIENCE,
            patience: super::PATIENCE,
            ..self.options(1)
        };
        objections(run(binary, folder, &options).await)
    }

    /// Short name: bug, kind of fault, workload and level.
    #[must_use]
    pub fn name(&self) -> String {
        let level = level_name(self.level);
        let (bug, kind, workload) = (self.bug, self.kind.name(), self.workload);
        let way = match self.namespace {
            true => " in a network namespace",
            false => "",
        };
        format!("{bug} under {kind}{way}, {workload} at {level}")
    }
}

/// The violations of a run; its error only if there are none.
fn objections(done: Result<Summary, Undecided>) -> Result<Vec<String>, Error> {
    match done {
        Ok(summary) => Ok(summary.objections),
        Err(Undecided { summary, .. }) if !summary.objections.is_empty() => Ok(summary.objections),
        Err(Undecided { error, .. }) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::harness::WORKLOADS;

    #[test]
    fn namespaces_are_for_kinds_that_want_one_and_have_a_bug() {
        let mut within = CATCHES.iter().filter(|catch| catch.namespace);
        assert!(within.clone().count() > 0);
        assert!(within.all(|catch| catch.kind.wants_namespace()));
    }

    #[test]
    fn every_kind_of_fault_and_every_workload_has_a_bug() {
        // The combined kind consists of the other ones.
        let alone = FaultKind::ALL
            .iter()
            .filter(|(kind, _)| *kind != FaultKind::Combined);
        for &(kind, name) in alone {
            let is_one = |catch: &Catch| catch.kind == kind && !catch.namespace;
            assert!(CATCHES.iter().any(is_one), "{name}");
        }
        for name in WORKLOADS {
            assert!(CATCHES.iter().any(|catch| catch.workload == name), "{name}");
        }
    }
}
