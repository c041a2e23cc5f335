//! The report of a simulated run.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use coeval_env::sim::Traffic;

/// Report of a simulated run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Violations, each after the name of the judge that found it, or several names
    /// joined by `+`, and a colon. If there are none, the run is clean.
    pub objections: Vec<String>,
    /// Reason why the server refused to start after its files were damaged, if it did.
    pub refused: Option<String>,
    /// Transactions acknowledged as committed.
    pub committed: u64,
    /// Transactions reported to the client as failed.
    pub failed: u64,
    /// Transactions whose client got no answer.
    pub unknown: u64,
    /// How often a server was started.
    pub starts: u64,
    /// How often a node of a cluster became leader.
    pub elections: u64,
    /// Questions for the newest commit that followers have sent.
    pub questions: u64,
    /// Transactions that readers on followers' machines have read.
    pub reads_on_followers: u64,
    /// How often two nodes were compared while they showed the same commit.
    pub compared: u64,
    /// Long reads on followers that were ended for the memory that they held.
    pub ended_reads: u64,
    /// Statistics of the simulated network.
    pub traffic: Traffic,
    /// The first server that each client entered, for the simulator's own loads over
    /// links.
    pub entered: BTreeMap<usize, SocketAddr>,
    /// Virtual time of the run.
    pub elapsed: Duration,
    /// Hash of all events of the run.
    pub trace_hash: u64,
}

impl Report {
    /// Whether no judge found a violation.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.objections.is_empty()
    }

    /// Violations that one judge found.
    pub fn objections_of<'report>(
        &'report self,
        judge: &'report str,
    ) -> impl Iterator<Item = &'report str> {
        let objections = self.objections.iter().map(String::as_str);
        objections.filter(move |objection| {
            let judges = objection.split(": ").next().unwrap_or_default();
            judges.split('+').any(|name| name == judge)
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} committed, {} failed, {} unknown; {} starts, ",
            self.committed, self.failed, self.unknown, self.starts,
        )?;
        if self.elections > 0 {
            write!(formatter, "{} elections, ", self.elections)?;
        }
        if self.questions > 0 {
            write!(formatter, "{} questions, ", self.questions)?;
        }
        if self.reads_on_followers > 0 {
            write!(formatter, "{} read on followers, ", self.reads_on_followers)?;
        }
        if self.compared > 0 {
            write!(formatter, "{} pairs compared, ", self.compared)?;
        }
        if self.ended_reads > 0 {
            write!(formatter, "{} long reads ended, ", self.ended_reads)?;
        }
        let Traffic {
            segments,
            lost,
            repeated,
            detoured,
        } = self.traffic;
        if segments > 0 {
            write!(
                formatter,
                "{segments} segments ({lost} lost, {repeated} twice, {detoured} out of order), "
            )?;
        }
        write!(
            formatter,
            "{} s of virtual time, trace {:016x}",
            self.elapsed.as_secs(),
            self.trace_hash
        )?;
        if let Some(reason) = &self.refused {
            write!(formatter, "\nrefused to start: {reason}")?;
        }
        for objection in &self.objections {
            write!(formatter, "\nOBJECTION: {objection}")?;
        }
        Ok(())
    }
}
