//! What a run brought.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use coeval_env::sim::Traffic;

/// What a run brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What must not be, each behind the name of the judge that says so, or several
    /// joined by `+`, and a colon. None: the run is clean.
    pub objections: Vec<String>,
    /// Why the server refused to start after its files were damaged, if it did.
    pub refused: Option<String>,
    /// Transactions whose client was told that they had committed.
    pub committed: u64,
    /// Transactions whose client was told that they had failed.
    pub failed: u64,
    /// Transactions of which the client was told nothing.
    pub unknown: u64,
    /// How often a server was started.
    pub starts: u64,
    /// Of a cluster: how often a node came to lead.
    pub elections: u64,
    /// What became of what was sent.
    pub traffic: Traffic,
    /// By client: where it got in first, of those of the simulator's own loads over links.
    pub entered: BTreeMap<usize, SocketAddr>,
    /// How much virtual time passed.
    pub elapsed: Duration,
    /// Of everything that happened.
    pub trace_hash: u64,
}

impl Report {
    /// Whether there is nothing to object to.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.objections.is_empty()
    }

    /// What one judge objects to.
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
