//! What a node says of itself: for people, as lines of a name and a value each; for a program
//! that watches it, whether it serves; for a monitoring system, metrics.

use std::fmt::Write as _;

use coeval_peers::NodeId;

use crate::timestamp::{Epoch, FrontEndId};

/// Counts since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Write-only transactions that were committed.
    pub committed: u64,
    /// Read-only transactions that were answered.
    pub read: u64,
    /// Requests that had no effect: refused by a back end, or by their own fault.
    pub refused: u64,
    /// Requests whose outcome is not known, for the front end began anew.
    pub unknown: u64,
    /// Messages that were not sent, for lack of a connection or of room in its queue.
    pub unsent: u64,
    /// Messages that no node of this version sends.
    pub malformed: u64,
    /// Writes to the log, each with one sync.
    pub log_writes: u64,
    /// Bytes of them.
    pub log_bytes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Incarnations after the first, because the front end had been fenced.
    pub begun_anew: u64,
}

/// What the epoch manager knows, on the node that runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagerStatus {
    /// Closes since it took over.
    pub closes: u64,
    /// The front end that drained last in the last close.
    pub drained_last: Option<FrontEndId>,
    /// Front ends that a close under way waits for.
    pub undrained: Vec<FrontEndId>,
    /// Back ends that a close under way waits for.
    pub unsealed: Vec<NodeId>,
    /// Partitions whose last copy is on a dead node.
    pub unavailable: Vec<usize>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The node.
    pub node: u64,
    /// The start of its program.
    pub incarnation: u64,
    /// The council's term, as far as the node knows.
    pub term: u32,
    /// The manager's node, likewise.
    pub manager_at: Option<NodeId>,
    /// The version of the configuration.
    pub configuration: u64,
    /// Other nodes that are connected.
    pub connected: usize,
    /// Whether a majority of the council is connected with it, itself included.
    pub majority: bool,
    /// Whether the node was founded without a front end.
    pub runs_no_front_end: bool,
    /// Whether it was founded to hold no copies.
    pub runs_no_back_end: bool,
    /// Whether the configuration has this start's front end.
    pub front_end: bool,
    /// Whether the configuration has this start's copies.
    pub back_end: bool,
    /// The newest closed epoch that the node knows.
    pub closed: Epoch,
    /// Bytes of versions, and of operations that are not closed.
    pub memory_bytes: u64,
    /// Whether the disk of its copies is full: writes to them are refused.
    pub disk_full: bool,
    /// Microseconds between the last two closes that the node has heard of.
    pub epoch_microseconds: u64,
    /// Requests without an answer.
    pub waiting: usize,
    /// Counts.
    pub counts: Counts,
    /// The manager's, where it runs.
    pub manager: Option<ManagerStatus>,
}

fn list<T: ToString>(values: &[T]) -> String {
    match values.is_empty() {
        true => "none".to_owned(),
        false => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            values.join(",")
        }
    }
}

fn ids(front_ends: &[FrontEndId]) -> Vec<u8> {
    front_ends.iter().map(|id| id.0).collect()
}

impl Status {
    /// Why a client would not be served here; `None` if it would.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let unavailable = self.manager.as_ref().map(|manager| &manager.unavailable);
        if !self.majority {
            Some("a majority of the council is not there".to_owned())
        } else if self.manager_at.is_none() {
            Some("no epoch manager is known yet".to_owned())
        } else if !self.front_end && !self.runs_no_front_end {
            Some("the front end waits to be admitted by the manager".to_owned())
        } else if self.runs_no_front_end && !self.runs_no_back_end && !self.back_end {
            Some("the copies here wait to be admitted by the manager".to_owned())
        } else if let Some(partitions) = unavailable.filter(|found| !found.is_empty()) {
            let partitions = list(partitions);
            Some(format!(
                "the last copy of partitions {partitions} is on a node that is not there"
            ))
        } else {
            None
        }
    }

    /// Numbers: the name, the value, and a sentence on what it is.
    fn values(&self) -> Vec<(&'static str, u64, &'static str)> {
        let counts = &self.counts;
        let manager = self.manager.as_ref();
        vec![
            (
                "closed_epoch",
                self.closed.0,
                "Newest closed epoch known here.",
            ),
            (
                "epoch_microseconds",
                self.epoch_microseconds,
                "Time between the last two closes.",
            ),
            ("incarnation", self.incarnation, "Start of the program."),
            ("term", self.term.into(), "Term of the council."),
            (
                "configuration",
                self.configuration,
                "Version of the configuration.",
            ),
            (
                "connected_nodes",
                self.connected as u64,
                "Other nodes that are connected.",
            ),
            (
                "front_end_admitted",
                self.front_end.into(),
                "Whether the front end may draw timestamps.",
            ),
            (
                "back_end_admitted",
                self.back_end.into(),
                "Whether the copies here count.",
            ),
            (
                "memory_bytes",
                self.memory_bytes,
                "Bytes of versions, and of operations that are not closed.",
            ),
            (
                "disk_full",
                self.disk_full.into(),
                "Whether the disk of the copies is full, and writes to them are refused.",
            ),
            (
                "manages",
                manager.is_some().into(),
                "Whether the manager runs here.",
            ),
            (
                "waiting_requests",
                self.waiting as u64,
                "Requests without an answer.",
            ),
            (
                "undrained_front_ends",
                manager.map_or(0, |manager| manager.undrained.len() as u64),
                "Front ends that a close waits for.",
            ),
            (
                "unsealed_back_ends",
                manager.map_or(0, |manager| manager.unsealed.len() as u64),
                "Back ends that a close waits for.",
            ),
            (
                "unavailable_partitions",
                manager.map_or(0, |manager| manager.unavailable.len() as u64),
                "Partitions whose last copy is on a dead node.",
            ),
            (
                "closes_total",
                manager.map_or(0, |manager| manager.closes),
                "Closes since the manager here took over.",
            ),
            (
                "committed_total",
                counts.committed,
                "Transactions committed.",
            ),
            ("read_total", counts.read, "Reads answered."),
            ("refused_total", counts.refused, "Requests without effect."),
            (
                "unknown_total",
                counts.unknown,
                "Requests whose outcome is not known.",
            ),
            ("unsent_total", counts.unsent, "Messages not sent."),
            (
                "malformed_total",
                counts.malformed,
                "Messages that no node sends.",
            ),
            ("log_writes_total", counts.log_writes, "Writes to the log."),
            (
                "log_bytes_total",
                counts.log_bytes,
                "Bytes written to the log.",
            ),
            ("checkpoints_total", counts.checkpoints, "Checkpoints."),
            (
                "begun_anew_total",
                counts.begun_anew,
                "Incarnations after the first, because of a fence.",
            ),
        ]
    }

    /// Lines of a name and a value each.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut lines = format!("node {}\n", self.node);
        let manager_at = self.manager_at.map(|node| node.to_string());
        let known = manager_at.as_deref().unwrap_or("unknown");
        let _ = writeln!(lines, "manager {known}");
        let roles = match (self.runs_no_front_end, self.runs_no_back_end) {
            (false, false) => "front end, back end",
            (false, true) => "front end",
            (true, false) => "back end",
            (true, true) => "council only",
        };
        let _ = writeln!(lines, "runs {roles}");
        for (name, value, _) in self.values() {
            let _ = writeln!(lines, "{name} {value}");
        }
        if let Some(manager) = &self.manager {
            let last: Vec<u8> = manager.drained_last.iter().map(|id| id.0).collect();
            let _ = writeln!(lines, "drained_last {}", list(&last));
            let _ = writeln!(lines, "undrained {}", list(&ids(&manager.undrained)));
            let _ = writeln!(lines, "unsealed {}", list(&manager.unsealed));
            let _ = writeln!(lines, "unavailable {}", list(&manager.unavailable));
        }
        let problem = self.problem();
        let _ = writeln!(lines, "serves {}", problem.as_deref().unwrap_or("yes"));
        lines
    }

    /// Metrics in Prometheus' text format.
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        for (name, value, help) in self.values() {
            let kind = match name.ends_with("_total") {
                true => "counter",
                false => "gauge",
            };
            let _ = writeln!(text, "# HELP coeval_epoch_{name} {help}");
            let _ = writeln!(text, "# TYPE coeval_epoch_{name} {kind}");
            let _ = writeln!(text, "coeval_epoch_{name} {value}");
        }
        if let Some(last) = self
            .manager
            .as_ref()
            .and_then(|manager| manager.drained_last)
        {
            let name = "coeval_epoch_drained_last";
            let _ = writeln!(text, "# HELP {name} The front end that drained last.");
            let _ = writeln!(text, "# TYPE {name} gauge\n{name} {}", last.0);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_why_it_does_not_serve() {
        let mut status = Status::default();
        assert!(status.problem().unwrap().contains("majority"));
        status.majority = true;
        assert!(status.problem().unwrap().contains("no epoch manager"));
        status.manager_at = Some(NodeId(2));
        assert!(status.problem().unwrap().contains("admitted"));
        let holds_only = Status {
            runs_no_front_end: true,
            ..status.clone()
        };
        assert!(holds_only.problem().unwrap().contains("copies here wait"));
        let holds_only = Status {
            back_end: true,
            ..holds_only
        };
        assert_eq!(holds_only.problem(), None);
        assert!(holds_only.lines().contains("runs back end\n"));
        status.front_end = true;
        assert_eq!(status.problem(), None);
        status.manager = Some(ManagerStatus {
            unavailable: vec![3, 5],
            drained_last: Some(FrontEndId(2)),
            ..ManagerStatus::default()
        });
        assert!(status.problem().unwrap().contains("partitions 3,5"));
        assert!(status.lines().contains("drained_last 2\n"));
        assert!(status.lines().contains("unavailable 3,5\n"));
        assert!(
            status
                .exposition()
                .contains("\ncoeval_epoch_drained_last 2\n")
        );
        assert!(
            status
                .exposition()
                .contains("\ncoeval_epoch_unavailable_partitions 2\n")
        );
        let help = "# HELP coeval_epoch_back_end_admitted Whether the copies here count.\n";
        assert!(status.exposition().contains(help));
    }
}
