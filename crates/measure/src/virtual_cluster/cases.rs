//! Log divergence cases for table 6.1: logs that diverge in every way that FRS §6.3 to
//! §6.5 describe.

use std::sync::Arc;
use std::time::Duration;

use coeval_consensus::{NodeId, Recovery as Method};

use super::{Cluster, Model, Recovery, disk_with, log_of};

/// The logs of a follower and of the other two nodes, as terms and their lengths. The
/// leader is one of those two; its own mark is appended to their log.
#[derive(Clone, Debug)]
pub struct Case {
    /// Description of the case.
    pub name: &'static str,
    /// Log of the recovering follower.
    pub follower: Vec<(u32, u64)>,
    /// Log of the others, at least as long.
    pub others: Vec<(u32, u64)>,
    /// Length of the log prefix that the follower knows to be committed; 0 if that is
    /// lost.
    pub commit: u64,
    /// Number of marks at the follower's end that the leader has, too: FRS sends them
    /// once more.
    pub repeated: u64,
}

/// All cases of table 6.1.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, follower: &[(u32, u64)], others: &[(u32, u64)], commits: &[u64]| {
        cases.extend(commits.iter().map(|&commit| Case {
            name,
            follower: follower.to_vec(),
            others: others.to_vec(),
            commit,
            repeated: 0,
        }));
    };
    add("figure 6.2", &[(1, 6)], &[(1, 4), (2, 4)], &[2, 0]);
    let one_term = [(1, 300)];
    let another = [(1, 200), (2, 150)];
    add("one old term", &one_term, &another, &[0, 1, 50, 199, 200]);
    let several = [(1, 200), (2, 30), (3, 40), (5, 100)];
    add("several new terms", &one_term, &several, &[0, 150]);
    add(
        "several old terms",
        &[(1, 100), (2, 100), (3, 100)],
        &[(1, 100), (2, 100), (3, 50), (5, 100)],
        &[0, 50, 101, 210],
    );
    let prefix = [(1, 200)];
    add("no entry is invalid", &prefix, &[(1, 250)], &[0, 120, 200]);
    let next_term = [(1, 200), (2, 60)];
    add("a term begins behind it", &prefix, &next_term, &[0, 120]);
    let wrong_mark = [(2, 10), (3, 1)];
    let correction = [(2, 14), (4, 5)];
    add(
        "an uncommitted mark ends it",
        &wrong_mark,
        &correction,
        &[0, 4, 10],
    );
    let wrong_marks = [(2, 10), (3, 1), (5, 1)];
    let others = [(2, 14), (6, 5)];
    add("uncommitted marks end it", &wrong_marks, &others, &[0, 7]);
    let shared = [(1, 10), (2, 1)];
    add("a shared mark ends it", &shared, &[(1, 10), (2, 6)], &[11]);
    cases.push(Case {
        name: "a shared mark ends it, not known to be committed",
        follower: shared.to_vec(),
        others: vec![(1, 10), (2, 6)],
        commit: 4,
        repeated: 1,
    });
    cases
}

/// Requests and entries according to table 6.1: the cost that `recovery` should have
/// under a method.
#[must_use]
pub const fn expected(method: Method, recovery: &Recovery) -> (u64, u64) {
    match method {
        Method::Marks => (1, recovery.invalid()),
        Method::Checking => (recovery.invalid() + 1, 2 * recovery.invalid()),
        Method::Truncating => (1, recovery.unknown()),
    }
}

impl Case {
    /// Runs the follower's recovery, and counts its messages.
    ///
    /// # Errors
    /// If the follower does not recover, or recovers to a wrong log.
    pub fn count(&self, method: Method) -> Result<Recovery, String> {
        let others = Arc::new(log_of(self.others.iter().copied()));
        let follower = Arc::new(log_of(self.follower.iter().copied()));
        let disks = [
            disk_with(others.clone(), self.commit),
            disk_with(others, self.commit),
            disk_with(follower, self.commit),
        ];
        let mut cluster = Cluster::new(Model::default(), method, disks);
        cluster.start_whole(NodeId(1))?;
        cluster.start_whole(NodeId(2))?;
        let limit = Duration::from_secs(60);
        cluster.pass_until("a leader", limit, |cluster| cluster.leader().is_some())?;
        cluster.restart(NodeId(3), false)?;
        cluster.pass_until("recovery", limit, |cluster| {
            let recovery = cluster.recovery();
            recovery.is_some_and(|watch| watch.state_recovered.is_some())
        })?;
        cluster.pass(Duration::from_secs(1))?;
        let common = cluster.check()?;
        let last = cluster.last(NodeId(3));
        if last.is_none_or(|last| last.end != common || Some(last) != cluster.last(NodeId(1))) {
            return Err(format!(
                "{}: its log ends at {last:?} and is shared up to {common}",
                self.name
            ));
        }
        let recovery = cluster.recovery().cloned();
        recovery.ok_or_else(|| "nothing was watched".to_owned())
    }
}
