//! A snapshot of all counters and gauges of a server, taken at about one moment.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use coeval_leader::node::{HoldCounts, QuestionCounts};
use coeval_log::ReplicaCounters;
use coeval_sql::expression::EvaluationContext;
use coeval_sql::instance::activity::{SessionState, Shown};
use coeval_sql::instance::{AdmissionCounts, Cluster};

use super::sheet::Sum;
use crate::admin::Problem;
use crate::cluster_view;
use crate::gamma::Summary;
use crate::shared::Shared;

/// The values of all metrics.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) sheets: Sum,
    pub(crate) engine: coeval_occ::Statistics,
    pub(crate) log: coeval_log::Statistics,
    pub(crate) checkpoints: coeval_occ::CheckpointStatus,
    pub(crate) log_kept_bytes: u64,
    pub(crate) log_replay_bytes: u64,
    pub(crate) backups: usize,
    /// The engine's problems that restrict operation.
    pub(crate) problems: Vec<Problem>,
    pub(crate) admission: AdmissionCounts,
    /// Number of sessions by state.
    pub(crate) sessions: BTreeMap<SessionState, u64>,
    /// Number of waiting sessions by wait event: type and event.
    pub(crate) waits: BTreeMap<(&'static str, &'static str), u64>,
    pub(crate) sessions_limit: u64,
    /// Age of the oldest running transaction.
    pub(crate) oldest_transaction: Duration,
    pub(crate) uptime: Duration,
    /// Start time of the process by the wall clock, since the Unix epoch.
    pub(crate) started_at: Duration,
    /// The present time by the wall clock, since the Unix epoch.
    pub(crate) now: Duration,
    /// Duration of the start.
    pub(crate) start: Duration,
    pub(crate) process: Process,
    /// The status of the cluster that the server is a node of.
    pub(crate) cluster: Option<Cluster>,
    /// Counters of the holds of `any` reads, on a node of a cluster.
    pub(crate) holds: Option<HoldCounts>,
    /// This node's estimate of Γ, if it makes one.
    pub(crate) gamma: Option<Summary>,
    /// What this node has counted of its questions to the leader.
    pub(crate) questions: Option<QuestionCounts>,
}

/// The operating system's figures of the process. A figure that it does not report is
/// zero.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Process {
    pub(crate) resident_bytes: u64,
    pub(crate) cpu: Duration,
    pub(crate) threads: u64,
}

impl Reading {
    /// Takes a reading. The engine is the one that leads on this node, or the one that its
    /// clients read while it follows; while there is neither, its metrics are zero, as those of
    /// checkpoints are while the node follows. The log of a node that follows is its copy of the
    /// leader's.
    pub(crate) fn take(shared: &Shared) -> Self {
        let serving_term = shared.serving_term();
        let reader = match &serving_term {
            Some(_) => None,
            None => shared.reader.borrow().clone(),
        };
        let database = serving_term.as_ref().map(|leads| &leads.database);
        let database = database.or(reader.as_ref().map(|reader| &reader.database));
        let own = serving_term.as_ref().map(|serving_term| &*serving_term.own);
        if let Some(serving_term) = &serving_term {
            serving_term.memory.look(&*serving_term.own);
        }
        let replica = shared.node.as_ref().map(|node| node.replica_log());
        let metrics = &shared.metrics;
        let mut sheets = Sum::default();
        for sheet in &*metrics
            .sheets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            sheets.add(sheet);
        }
        let shown =
            database.map_or_else(Vec::new, |database| database.instance().activities().all());
        let mut sessions: BTreeMap<_, u64> = SessionState::ALL
            .into_iter()
            .map(|state| (state, 0))
            .collect();
        let mut waits = BTreeMap::new();
        for each in &shown {
            *sessions.entry(each.state).or_default() += 1;
            if let (SessionState::Active, Some(wait)) = (each.state, each.wait) {
                *waits.entry(wait).or_default() += 1;
            }
        }
        Self {
            sheets,
            engine: match (own, &reader) {
                (Some(own), _) => own.statistics(),
                (None, Some(reader)) => reader.statistics(),
                (None, None) => coeval_occ::Statistics::default(),
            },
            log: match (own, replica) {
                (Some(own), _) => own.log().statistics(),
                (None, Some(replica)) => replica.read(),
                (None, None) => coeval_log::Statistics::default(),
            },
            checkpoints: own.map_or_else(Default::default, coeval_occ::Engine::checkpoint_status),
            log_kept_bytes: match (own, replica) {
                (Some(own), _) => own.log().bytes_kept(),
                (None, replica) => replica.map_or(0, ReplicaCounters::bytes_kept),
            },
            log_replay_bytes: match (own, replica) {
                (Some(own), _) => own.checkpoint_status().log_bytes,
                (None, replica) => replica.map_or(0, ReplicaCounters::bytes_to_replay),
            },
            backups: own.map_or(0, |own| own.log().holders()),
            problems: own.map_or_else(Vec::new, Problem::all),
            admission: database
                .map_or_else(Default::default, |database| database.admission().counts()),
            sessions,
            waits,
            sessions_limit: shared.settings.max_connections as u64,
            oldest_transaction: oldest_transaction(&shown),
            uptime: metrics.started.elapsed(),
            started_at: metrics.started_at,
            now: coeval_env::wall_clock(),
            start: metrics.start.get().copied().unwrap_or_default(),
            process: Process::read(),
            cluster: cluster_view::cluster(shared),
            gamma: shared.gamma.of(shared.settings.cluster_node),
            holds: shared.node.as_ref().map(|node| node.pauses().counts()),
            questions: shared.cluster.status().map(|status| status.questions),
        }
    }
}

impl Reading {
    /// Age of the checkpoint in force, if there is one.
    pub(crate) fn checkpoint_age(&self) -> Option<Duration> {
        let taken_at = self.checkpoints.last?.taken_at;
        Some(self.now.saturating_sub(taken_at))
    }
}

fn oldest_transaction(sessions: &[Shown]) -> Duration {
    let began = sessions.iter().filter_map(|each| each.transaction_start);
    began.min().map_or(Duration::ZERO, |began| {
        let microseconds = EvaluationContext::clock().saturating_sub(began);
        Duration::from_micros(microseconds.try_into().unwrap_or(0))
    })
}

impl Process {
    /// Reads the figures from the operating system; those that it does not report stay
    /// zero.
    #[expect(
        clippy::disallowed_methods,
        reason = "the simulator does not model what the kernel reports of this process"
    )]
    fn read() -> Self {
        let resident = std::fs::read("/proc/self/statm");
        let stat = std::fs::read("/proc/self/stat");
        let pages = resident.ok().and_then(|bytes| number(&bytes, 1));
        let page = rustix::param::page_size() as u64;
        let mut process = Self {
            resident_bytes: pages.unwrap_or(0) * page,
            ..Self::default()
        };
        if let Ok(stat) = stat {
            // The process name in the line may contain any character, parentheses and
            // blanks included.
            let behind = stat.iter().rposition(|&byte| byte == b')');
            let fields = behind.map_or(&[][..], |at| &stat[at + 1..]);
            let ticks = number(fields, 11).unwrap_or(0) + number(fields, 12).unwrap_or(0);
            let per_second = rustix::param::clock_ticks_per_second().max(1);
            process.cpu = Duration::from_micros(ticks * 1_000_000 / per_second);
            process.threads = number(fields, 17).unwrap_or(0);
        }
        process
    }
}

/// The number in field `place` of a line of words, from 0.
fn number(line: &[u8], place: usize) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    line.split_ascii_whitespace().nth(place)?.parse().ok()
}
