//! Whether the dock would find anything: servers that are known to be bad, and what has
//! to object to each.
//!
//! ```text
//!   acknowledge-before-write   a client is told of a commit, the process is killed, and
//!                              the write comes too late        ledger: a transfer is lost
//!   stay-full                  there was no room for a moment  nobody commits any more
//! ```
//!
//! A [`Catch`] is a run of the dock with a server that has a [`Bug`], from a build with
//! the feature `planted`. Nothing looks for what only a planted bug does: the judges, and
//! the demands on a server, are those of every run. What decides when a fault comes is in
//! part the machine, so a bug has a few seeds in which to be caught; the same run without
//! it has to be clean.

use std::path::Path;
use std::time::Duration;

use coeval_txn::Isolation::{self, ReadCommitted, Serializable, SnapshotIsolation};
use coeval_types::planted::Bug;

use super::{Error, Kind, Options, Summary, Undecided, level_name, run};

/// Seeds that a bug has in which to be caught.
pub const SEEDS: u64 = 32;

/// A bad server, and what catches it.
#[derive(Clone, Copy, Debug)]
pub struct Catch {
    /// What it does wrong.
    pub bug: Bug,
    /// Under which fault that shows.
    pub kind: Kind,
    /// With which workload.
    pub workload: &'static str,
    /// At which level.
    pub level: Isolation,
    /// What is said of it, in one of the objections, or instead of a verdict.
    pub says: &'static str,
    /// Whether packets are lost by a firewall, in a network namespace, which not every
    /// machine has; else by the proxy, which is the same everywhere.
    pub namespace: bool,
    /// What makes the moment longer in which it matters: further faults, settings of the
    /// server, how often the fault happens, and in milliseconds the longest time under
    /// load, the time that clients wait, and the time in which the server has to do what
    /// is demanded of it.
    faults: &'static [&'static str],
    settings: &'static [(&'static str, u64)],
    rounds: u32,
    load: u64,
    timeout: u64,
    patience: u64,
}

const fn by(
    bug: Bug,
    kind: Kind,
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

/// A transaction that its client leaves alone for longer is undone.
const IDLE: &[(&str, u64)] = &[("idle-in-transaction-session-timeout", 20)];

/// A start has nothing but log to go by.
const LOG_ONLY: &[(&str, u64)] = &[("checkpoint-log-bytes", 1 << 30)];

/// At least one for each kind of fault.
pub const CATCHES: &[Catch] = &[
    Catch {
        rounds: 5,
        ..by(
            Bug::AcknowledgeBeforeWrite,
            Kind::Kill,
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
            Kind::Kill,
            "tpcc",
            ReadCommitted,
            "3.3.2",
        )
    },
    by(
        Bug::CommitOnStop,
        Kind::Stop,
        "ledger",
        Serializable,
        "torn: ",
    ),
    by(
        Bug::CommitOnStop,
        Kind::Stop,
        "bank",
        SnapshotIsolation,
        "garbage-read",
    ),
    Catch {
        settings: IDLE,
        rounds: 5,
        ..by(
            Bug::SessionOutlivesTimeout,
            Kind::Pause,
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
            Kind::Network,
            "ledger",
            SnapshotIsolation,
            "torn: ",
        )
    },
    by(
        Bug::CommitOnDisconnect,
        Kind::Cut,
        "smallbank",
        ReadCommitted,
        " holds ",
    ),
    Catch {
        settings: IDLE,
        ..by(
            Bug::SessionOutlivesTimeout,
            Kind::Partition,
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
            Kind::OneWay,
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
            Kind::Partition,
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
            Kind::OneWay,
            "ledger",
            ReadCommitted,
            "torn: ",
        )
    },
    Catch {
        timeout: 40,
        ..by(
            Bug::CommitOnDisconnect,
            Kind::Loss,
            "ledger",
            Serializable,
            "torn: ",
        )
    },
    Catch {
        faults: &["sync takes 30"],
        ..by(
            Bug::AcknowledgeBeforeSync,
            Kind::Power,
            "list-append",
            ReadCommitted,
            "incompatible-order",
        )
    },
    Catch {
        // Later it may end for another reason: its log needs a new file.
        patience: 300,
        ..by(
            Bug::IgnoreFailedSync,
            Kind::Sync,
            "ledger",
            ReadCommitted,
            "goes on although its disk does not sync",
        )
    },
    by(
        Bug::SlowIsFailed,
        Kind::Slow,
        "rw-register",
        SnapshotIsolation,
        "G1a",
    ),
    Catch {
        // Who comes after another waits for his sync, which hides a part of it.
        load: 200,
        rounds: 3,
        ..by(
            Bug::AcknowledgeBeforeSync,
            Kind::Slow,
            "smallbank",
            Serializable,
            "too soon: ",
        )
    },
    by(
        Bug::SlowIsFailed,
        Kind::Slow,
        "ledger",
        ReadCommitted,
        "invented: ",
    ),
    by(
        Bug::AcknowledgeBeforeWrite,
        Kind::Write,
        "ledger",
        Serializable,
        "lost: ",
    ),
    by(
        Bug::StayFull,
        Kind::Full,
        "ycsb",
        SnapshotIsolation,
        "committing anything takes longer",
    ),
    by(
        Bug::OrderByClock,
        Kind::Clock,
        "ledger",
        ReadCommitted,
        "lost: ",
    ),
];

/// What came of a bad server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was caught: in this seed, by this.
    Caught {
        /// The seed.
        seed: u64,
        /// What was said.
        said: String,
    },
    /// It was not, or by something else: what each seed came to.
    Missed(Vec<String>),
}

impl Catch {
    /// How it is run.
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

    /// Puts it to the test with a server of `binary`, each seed in a folder of its own
    /// under `folder`, until it is caught.
    ///
    /// # Errors
    /// When the machine refuses something.
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

    /// What has to stay clean: the same run of a server without the bug.
    ///
    /// # Errors
    /// When no verdict was reached.
    pub async fn without(&self, binary: &Path, folder: &Path) -> Result<Vec<String>, Error> {
        let mut seed = 1;
        loop {
            let options = Options {
                bug: None,
                patience: super::PATIENCE,
                ..self.options(seed)
            };
            match objections(run(binary, &folder.join(seed.to_string()), &options).await) {
                // Clients that soon give up do not get a look at everything in the end
                // where the machine is busy: that is no verdict yet.
                Err(Error::Load(_)) if seed < SEEDS => seed += 1,
                done => return done,
            }
        }
    }

    /// Whether it takes the fault to catch it: what is said of the bad server when nothing
    /// else goes wrong. Where it takes the fault, that is nothing.
    ///
    /// # Errors
    /// When no verdict was reached.
    pub async fn without_fault(&self, binary: &Path, folder: &Path) -> Result<Vec<String>, Error> {
        let options = Options {
            rounds: 0,
            planted: Vec::new(),
            // Instead of what a round takes.
            load_at_most: Duration::from_millis(10 * self.load),
            // On a busy machine a client that gives up soon is a fault by itself.
            operation_timeout: super::PATIENCE,
            patience: super::PATIENCE,
            ..self.options(1)
        };
        objections(run(binary, folder, &options).await)
    }

    /// What it is, in a word each.
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

/// What is objected to; why there was no verdict only where that is nothing.
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
    use crate::faults::dock::WORKLOADS;

    #[test]
    fn namespaces_are_for_kinds_that_want_one_and_have_a_bug() {
        let mut within = CATCHES.iter().filter(|catch| catch.namespace);
        assert!(within.clone().count() > 0);
        assert!(within.all(|catch| catch.kind.wants_namespace()));
    }

    #[test]
    fn every_kind_of_fault_and_every_workload_has_a_bug() {
        // What is combined is the others.
        let alone = Kind::ALL.iter().filter(|(kind, _)| *kind != Kind::Combined);
        for &(kind, name) in alone {
            let is_one = |catch: &Catch| catch.kind == kind && !catch.namespace;
            assert!(CATCHES.iter().any(is_one), "{name}");
        }
        for name in WORKLOADS {
            assert!(CATCHES.iter().any(|catch| catch.workload == name), "{name}");
        }
    }
}
