//! The health of the server, from the start of recovery until it has stopped, as
//! `/health` reports it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use coeval_log::RecoveryProgress;

use super::availability::{Unavailable, availability};
use crate::serving_term::Lead;
use crate::shared::Shared;

/// The phase that the server is in.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Phase>);

#[derive(Debug)]
enum Phase {
    /// Recovery reads the checkpoint and the log; the progress, once known.
    Recovering(Option<RecoveryProgress>),
    Ready(Weak<Shared>),
    /// The server was stopped, or its engine has stopped by itself, for this reason.
    Stopping(Option<String>),
}

/// A condition that keeps a server from full operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The problem's name, as a label of metrics.
    pub(crate) name: &'static str,
    /// A description of the problem, and of the server's reaction to it.
    pub(crate) reason: String,
    /// Whether the server refuses writes because of it.
    refuses_writes: bool,
}

impl Problem {
    /// The names of all problems that the server knows.
    pub(crate) const NAMES: [&'static str; 2] = [Self::DISK_FULL, Self::CHECKPOINTS_FAIL];
    const DISK_FULL: &'static str = "disk_full";
    const CHECKPOINTS_FAIL: &'static str = "checkpoints_fail";

    /// The problems of a running engine.
    pub(crate) fn all(engine: &coeval_occ::Engine) -> Vec<Self> {
        let full = engine.log().full_reason().map(|reason| Self {
            name: Self::DISK_FULL,
            reason: format!("{reason}; writes are refused until there is room"),
            refuses_writes: true,
        });
        let failing = engine.checkpoint_status().failure.map(|reason| Self {
            name: Self::CHECKPOINTS_FAIL,
            reason: format!(
                "the last checkpoint failed: {reason}; it is tried again, and until one is \
                 taken the log stays and grows"
            ),
            refuses_writes: false,
        });
        full.into_iter().chain(failing).collect()
    }
}

impl Default for Phase {
    fn default() -> Self {
        Self::Recovering(None)
    }
}

/// The part of recovery that is running, and how much of it is done, from 0 to 1.
fn share(progress: RecoveryProgress) -> (&'static str, f64) {
    let (what, done, of) = match progress {
        RecoveryProgress::Checkpoint { records, of } => ("checkpoint", records, of),
        RecoveryProgress::Log { bytes, of } => ("log", bytes, of),
    };
    // The log's total length is an estimate, so `done` may exceed it.
    let share = done.min(of) as f64 / of.max(1) as f64;
    (what, if of == 0 { 1.0 } else { share })
}

impl Health {
    /// Records the progress of recovery.
    pub(crate) fn recovering(&self, progress: RecoveryProgress) {
        if let Phase::Recovering(at) = &mut *self.phase() {
            *at = Some(progress);
        }
    }

    /// How much of recovery is done, from 0 to 1, while it lasts. The checkpoint and the
    /// log after it count as a half each: the server cannot know in advance which of them
    /// takes longer.
    pub(super) fn recovered(&self) -> Option<f64> {
        match &*self.phase() {
            Phase::Recovering(None) => Some(0.0),
            Phase::Recovering(Some(progress)) => Some(match share(*progress) {
                ("checkpoint", share) => share / 2.0,
                (_, share) => 0.5 + share / 2.0,
            }),
            Phase::Ready(_) | Phase::Stopping(_) => None,
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recovery has ended: the server can be asked from now on.
    pub(crate) fn ready(&self, shared: &Arc<Shared>) {
        *self.phase() = Phase::Ready(Arc::downgrade(shared));
    }

    /// The server stops. If the reason is that its engine has failed, reports name it
    /// until the end.
    pub(crate) fn stopping(&self) {
        let mut phase = self.phase();
        let failure = match &*phase {
            Phase::Ready(shared) => shared
                .upgrade()
                .and_then(|shared| shared.failure.borrow().clone()),
            Phase::Stopping(failure) => failure.clone(),
            Phase::Recovering(_) => None,
        };
        *phase = Phase::Stopping(failure);
    }

    /// The running server, while it is ready.
    pub(super) fn shared(&self) -> Option<Arc<Shared>> {
        match &*self.phase() {
            Phase::Ready(shared) => shared.upgrade(),
            Phase::Recovering(_) | Phase::Stopping(_) => None,
        }
    }

    /// Whether a client that connects would be served, at least to read; else the reason.
    pub(super) fn serving(&self) -> Result<(), String> {
        let shared = match &*self.phase() {
            Phase::Recovering(_) => return Err("the server is starting".to_owned()),
            Phase::Stopping(None) => None,
            Phase::Stopping(Some(reason)) => return Err(reason.clone()),
            Phase::Ready(shared) => shared.upgrade(),
        };
        let Some(shared) = shared else {
            return Err("the server is shutting down".to_owned());
        };
        if let Some(reason) = shared.failure.borrow().clone() {
            return Err(reason);
        }
        available(&shared, &shared.lead()).map_err(|unavailable| unavailable.reason)
    }

    /// Whether clients will be served, and the health report as a JSON object.
    pub(super) fn report(&self) -> (bool, String) {
        let status = |status: &str| (false, object(&[("status", status)]));
        let shared = match &*self.phase() {
            Phase::Recovering(None) => return status("recovering"),
            Phase::Recovering(Some(progress)) => {
                let (reading, share) = share(*progress);
                let percent = (share * 100.0) as u64;
                let status = "{\"status\":\"recovering\"";
                let text = format!("{status},\"reading\":\"{reading}\",\"percent\":{percent}}}\n");
                return (false, text);
            }
            Phase::Stopping(None) => return status("stopping"),
            Phase::Stopping(Some(reason)) => return failed(reason),
            Phase::Ready(shared) => shared.upgrade(),
        };
        let Some(shared) = shared else {
            return status("stopping");
        };
        let failure = shared.failure.borrow().clone();
        if let Some(reason) = failure {
            return failed(&reason);
        }
        let lead = shared.lead();
        if let Err(Unavailable { status, reason }) = available(&shared, &lead) {
            return (false, object(&[("status", status), ("reason", &reason)]));
        }
        match (lead, &shared.node) {
            (Lead::Here(serving_term), None) => state(&Problem::all(&serving_term.own), &[]),
            (Lead::Here(serving_term), Some(_)) => {
                state(&Problem::all(&serving_term.own), &[("role", "leader")])
            }
            (Lead::There(node), _) => {
                let leader = node.to_string();
                state(&[], &[("role", "follower"), ("leader", &leader)])
            }
            // Not available, see above.
            (Lead::Nowhere, _) => status("leaderless"),
        }
    }
}

/// Whether a running server would serve a new client.
pub(super) fn available(shared: &Shared, lead: &Lead) -> Result<(), Unavailable> {
    let leader = match lead {
        Lead::Here(_) => return Ok(()),
        Lead::There(node) => Some(*node),
        Lead::Nowhere => None,
    };
    let shown = shared.node.as_ref().map(|node| node.node_status());
    let shut_out = shown.and_then(|shown| shown.borrow().shut_out.clone());
    let status = shared.cluster.status();
    availability(leader, status.as_deref(), shut_out.as_deref())
}

fn failed(reason: &str) -> (bool, String) {
    (false, object(&[("status", "failed"), ("reason", reason)]))
}

/// The status of a running server with these problems; `cluster` has the members that a
/// node of a cluster adds.
fn state(problems: &[Problem], cluster: &[(&str, &str)]) -> (bool, String) {
    let version = ("version", env!("CARGO_PKG_VERSION"));
    if problems.is_empty() {
        let members = [&[("status", "ready")], cluster, &[version]].concat();
        return (true, object(&members));
    }
    let writes = !problems.iter().any(|problem| problem.refuses_writes);
    let reasons: Vec<&str> = problems.iter().map(|each| each.reason.as_str()).collect();
    let reasons = reasons.join("; ");
    let degraded = [
        ("status", "degraded"),
        ("writes", if writes { "taken" } else { "refused" }),
        ("reason", &reasons),
    ];
    let members = [&degraded, cluster, &[version]].concat();
    (writes, object(&members))
}

/// A JSON object of strings, on one line.
fn object(members: &[(&str, &str)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{}:{}", string(name), string(value)))
        .collect();
    format!("{{{}}}\n", members.join(","))
}

fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", control as u32)),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_json() {
        let text = "a \"b\" \\ \n\u{1} ä";
        let parsed: serde_json::Value = serde_json::from_str(&string(text)).unwrap();
        assert_eq!(parsed, text);
    }

    #[test]
    fn problems_are_told_and_turn_writers_away_if_they_must() {
        let problem = |name, refuses_writes| Problem {
            name,
            reason: format!("because of {name}"),
            refuses_writes,
        };
        let failing = problem(Problem::CHECKPOINTS_FAIL, false);
        let full = problem(Problem::DISK_FULL, true);
        for (problems, serves, status, reason) in [
            (&[][..], true, "ready", None),
            (
                std::slice::from_ref(&failing),
                true,
                "degraded",
                Some("because of checkpoints_fail"),
            ),
            (
                &[full, failing.clone()],
                false,
                "degraded",
                Some("because of disk_full; because of checkpoints_fail"),
            ),
        ] {
            let (is_ready, report) = state(problems, &[]);
            let report: serde_json::Value = serde_json::from_str(&report).unwrap();
            assert_eq!((is_ready, &report["status"]), (serves, &status.into()));
            assert_eq!(report["reason"].as_str(), reason);
        }
    }

    #[test]
    fn it_recovers_until_it_is_ready() {
        let health = Health::default();
        assert_eq!(
            health.report(),
            (false, "{\"status\":\"recovering\"}\n".to_owned())
        );
        assert!(health.shared().is_none());
        assert_eq!(health.recovered(), Some(0.0));
        health.recovering(RecoveryProgress::Checkpoint { records: 1, of: 4 });
        let report = health.report().1;
        let parsed: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(parsed["status"], "recovering");
        assert_eq!(
            (&parsed["reading"], &parsed["percent"]),
            (&"checkpoint".into(), &25.into())
        );
        assert_eq!(health.recovered(), Some(0.125));
        health.recovering(RecoveryProgress::Log { bytes: 9, of: 8 });
        assert_eq!(health.recovered(), Some(1.0));
        assert!(
            health
                .report()
                .1
                .contains("\"reading\":\"log\",\"percent\":100")
        );
        assert_eq!(health.serving(), Err("the server is starting".to_owned()));
        health.stopping();
        let reason = "the server is shutting down".to_owned();
        assert_eq!(health.serving(), Err(reason));
        assert_eq!(health.recovered(), None);
        // After the stop began, late reports of recovery change nothing.
        health.recovering(RecoveryProgress::Log { bytes: 9, of: 8 });
        assert_eq!(
            health.report(),
            (false, "{\"status\":\"stopping\"}\n".to_owned())
        );
    }
}
