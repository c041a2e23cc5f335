//! The registry of all metric families.
//!
//! Names follow Prometheus' rules: base units, the unit in the name, `_total` for
//! counters. A function of the [`Reading`] returns a family's values.

use coeval_memory::counters::Distribution;
use coeval_occ::{AbortCause, Statistics};
use coeval_sql::instance::{ClusterMember, ClusterTraffic};
use coeval_sql::statement::StatementKind;

use super::reading::Reading;
use super::sheet::{AtLeader, Stamp};
use crate::admin::Problem;

/// The Prometheus type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricKind {
    /// The value only grows, until the process ends.
    Counter,
    /// The value may rise and fall.
    Gauge,
    /// The family counts values by their size, in buckets.
    Histogram,
}

impl MetricKind {
    /// The type's name in Prometheus' text format.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Receives the values of a family.
pub(crate) trait Samples {
    /// Receives one number.
    fn value(&mut self, labels: &[(&str, &str)], value: f64);
    /// Receives a distribution. `per` counted units make one of the family's unit.
    fn distribution(&mut self, labels: &[(&str, &str)], values: &Distribution, per: f64);
}

/// One metric family, for all values of its labels.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: MetricKind,
    /// The unit of a value: seconds, bytes, or the things counted.
    pub(crate) unit: &'static str,
    pub(crate) labels: &'static [&'static str],
    /// The help text.
    pub(crate) about: &'static str,
    pub(crate) read: fn(&Reading, &mut dyn Samples),
}

impl Family {
    /// Whether these labels are exactly the family's labels, in order.
    pub(crate) fn is_labelled(&self, labels: &[(&str, &str)]) -> bool {
        let names = labels.iter().map(|(name, _)| name);
        names.eq(self.labels)
    }
}

/// Microseconds in a second.
const MICROSECONDS: f64 = 1e6;

macro_rules! families {
    ($($kind:ident $name:ident [$($label:literal),*] $unit:literal $about:literal = $read:expr;)*) => {
        /// All metric families.
        pub(crate) const FAMILIES: &[Family] = &[$(Family {
            name: stringify!($name),
            kind: MetricKind::$kind,
            unit: $unit,
            labels: &[$($label),*],
            about: $about,
            read: $read,
        },)*];
    };
}

/// The only metric that the server exposes while it recovers.
pub(crate) const RECOVERY: &str = "coeval_recovery_progress_ratio";

families! {
    Gauge coeval_build_info ["version"] "always 1"
        "The version that runs."
        = |_, out| out.value(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    Gauge coeval_uptime_seconds [] "seconds"
        "How long ago the server started."
        = |r, out| out.value(&[], r.uptime.as_secs_f64());
    Gauge coeval_recovery_progress_ratio [] "share"
        "How much of its checkpoint and its log a server that starts has read, from 0 to 1; while it starts there are no other metrics."
        = |_, out| out.value(&[], 1.0);
    Gauge coeval_start_seconds [] "seconds"
        "How long the start took, recovery included."
        = |r, out| out.value(&[], r.start.as_secs_f64());
    Gauge process_start_time_seconds [] "seconds"
        "When the server started, since the Unix epoch."
        = |r, out| out.value(&[], r.started_at.as_secs_f64());
    Gauge process_resident_memory_bytes [] "bytes"
        "Memory that the process occupies, as the operating system counts it."
        = |r, out| out.value(&[], r.process.resident_bytes as f64);
    Counter process_cpu_seconds_total [] "seconds"
        "Processor time that the process has used, in user and system mode."
        = |r, out| out.value(&[], r.process.cpu.as_secs_f64());
    Gauge process_threads [] "threads"
        "Threads of the process."
        = |r, out| out.value(&[], r.process.threads as f64);

    Gauge coeval_sessions ["state"] "sessions"
        "Sessions by state, as in pg_stat_activity."
        = |r, out| for (state, count) in &r.sessions {
            out.value(&[("state", state.name())], *count as f64);
        };
    Gauge coeval_sessions_waiting ["type", "event"] "sessions"
        "Active sessions that wait, by wait event, as in pg_stat_activity."
        = |r, out| for ((sort, event), count) in &r.waits {
            out.value(&[("type", sort), ("event", event)], *count as f64);
        };
    Gauge coeval_sessions_limit [] "sessions"
        "The most sessions there can be at once (max_connections)."
        = |r, out| out.value(&[], r.sessions_limit as f64);
    Counter coeval_sessions_opened_total [] "sessions"
        "Clients that were let in."
        = |r, out| out.value(&[], r.sheets.sessions as f64);
    Counter coeval_sessions_refused_total [] "connections"
        "Clients that were refused, for any reason."
        = |r, out| out.value(&[], r.sheets.refusals as f64);
    Counter coeval_received_bytes_total [] "bytes"
        "Bytes received from clients."
        = |r, out| out.value(&[], r.sheets.received_bytes as f64);
    Counter coeval_sent_bytes_total [] "bytes"
        "Bytes sent to clients."
        = |r, out| out.value(&[], r.sheets.sent_bytes as f64);

    Histogram coeval_statement_duration_seconds ["kind"] "seconds"
        "How long statements executed, locks and commit included, and without waiting for the disk or the client."
        = |r, out| for kind in StatementKind::ALL {
            let durations = &r.sheets.of(kind).durations;
            out.distribution(&[("kind", kind.name())], durations, MICROSECONDS);
        };
    Counter coeval_statement_failures_total ["kind"] "statements"
        "Statements that failed; they are in the durations too."
        = |r, out| for kind in StatementKind::ALL {
            out.value(&[("kind", kind.name())], r.sheets.of(kind).failures as f64);
        };
    Counter coeval_rows_total ["kind"] "rows"
        "Rows that statements returned (select), changed, or copied."
        = |r, out| for kind in ROW_KINDS {
            out.value(&[("kind", kind.name())], r.sheets.of(kind).rows as f64);
        };
    Counter coeval_reads_total ["route", "stamp", "reason"] "cycles"
        "Queries and pipelines of clients of this node, a follower, that may only read, if their sessions want them executed here (coeval.read_from): by route, local or leader. A local one has a stamp, and no reason: asked, if the leader was asked for the newest commit, for this one first; shared, if for an earlier one as well; spared, if a commit of this node's clients has answered that was sent to the leader later; session, if it includes the session's own commits; or none. One that went to the leader has a reason and no stamp. The stamp waited and the reasons lacks_log and uncommitted are of coeval.read_comparator, a setting for developers."
        = |r, out| {
            for (stamp, count) in Stamp::ALL.iter().zip(r.sheets.reads_here) {
                let labels = [("route", "local"), ("stamp", stamp.name()), ("reason", "")];
                out.value(&labels, count as f64);
            }
            for (why, count) in AtLeader::ALL.iter().zip(r.sheets.reads_at_leader) {
                let labels = [("route", "leader"), ("stamp", ""), ("reason", why.name())];
                out.value(&labels, count as f64);
            }
        };
    Counter coeval_any_read_holds_total ["event"] "holds"
        "Times that this node's process did not run for longer than any_read_away_milliseconds, so that reads with coeval.read_from = any were to wait: begun, ended because the node had heard from the leader and caught up, or ran_out. On a server that is no node of a cluster there is no value."
        = |r, out| if let Some(holds) = r.holds {
            out.value(&[("event", "begun")], holds.begun as f64);
            out.value(&[("event", "ended")], holds.ended as f64);
            out.value(&[("event", "ran_out")], holds.ran_out as f64);
        };
    Histogram coeval_any_read_hold_seconds [] "seconds"
        "How long reads with coeval.read_from = any waited in such a hold, those that did."
        = |r, out| out.distribution(&[], &r.sheets.held_reads, MICROSECONDS);
    Gauge coeval_gamma_seconds [] "seconds"
        "By how much reads of the probe of this node, a follower, were too old (Γ): the greatest score of the last minute. Without gamma_probe, and on the leader, there is no value."
        = |r, out| if let Some(gamma) = r.gamma {
            out.value(&[], gamma.greatest as f64 / 1e9);
        };
    Counter coeval_gamma_reads_total [] "reads"
        "Reads of that probe, each of a register."
        = |r, out| if let Some(gamma) = r.gamma {
            out.value(&[], gamma.reads as f64);
        };
    Counter coeval_gamma_violations_total [] "values"
        "Values of that probe with a score above gamma_threshold_milliseconds."
        = |r, out| if let Some(gamma) = r.gamma {
            out.value(&[], gamma.violations as f64);
        };
    Counter coeval_read_questions_total ["kind"] "questions"
        "Readers of this node that asked which commits are the newest, and questions that it sent to the leader: readers share a question that has not been sent yet, and a commit of a client of this node spares them one. A node reports five times a second."
        = |r, out| if let Some(questions) = &r.questions {
            for (kind, count) in [
                ("asked", questions.asked),
                ("sent", questions.sent),
                ("repeated", questions.repeated),
                ("lost", questions.lost),
                ("refused", questions.refused),
                ("spared", questions.spared),
            ] {
                out.value(&[("kind", kind)], count as f64);
            }
        };
    Histogram coeval_answer_duration_seconds [] "seconds"
        "How long clients waited for an answer: from the first message taken to the last byte sent, the disk included."
        = |r, out| out.distribution(&[], &r.sheets.answers, MICROSECONDS);
    Counter coeval_errors_total ["sqlstate"] "errors"
        "Errors sent to clients, by SQLSTATE."
        = |r, out| for (state, count) in &r.sheets.errors {
            out.value(&[("sqlstate", state)], *count as f64);
        };

    Counter coeval_transactions_committed_total [] "transactions"
        "Transactions that committed, those that wrote nothing included."
        = |r, out| out.value(&[], r.engine.committed as f64);
    Counter coeval_transactions_aborted_total ["cause"] "transactions"
        "Transactions that were aborted, by cause. Each attempt that the server repeated by itself counts."
        = |r, out| for (cause, count) in AbortCause::ALL.iter().zip(r.engine.aborted) {
            out.value(&[("cause", cause.name())], count as f64);
        };
    Gauge coeval_transaction_oldest_age_seconds [] "seconds"
        "How long the oldest transaction of a session has been running; 0 when none runs."
        = |r, out| out.value(&[], r.oldest_transaction.as_secs_f64());
    Histogram coeval_lock_wait_seconds ["lock"] "seconds"
        "How long transactions waited for locks, by what is locked, whether they got them or not."
        = |r, out| for (lock, waits) in [
            ("row", &r.engine.row_waits),
            ("key", &r.engine.key_waits),
            ("table", &r.engine.table_waits),
        ] {
            out.distribution(&[("lock", lock)], waits, MICROSECONDS);
        };
    Counter coeval_deadlocks_total [] "deadlocks"
        "Waits that ended because transactions waited for each other."
        = |r, out| out.value(&[], r.engine.deadlocks as f64);
    Counter coeval_conflicts_total ["kind"] "transactions"
        "Transactions that were undone because of others: write, a newer version of a row came first; read, what it had read or scanned has changed; granularity, a range of keys that it had scanned in part was written, and no key in that part is known to be; ring_overflow, too many wrote there to tell; lock, a lock was not available, deadlocks included. They are in coeval_transactions_aborted_total too."
        = |r, out| for (kind, count) in conflicts(&r.engine) {
            out.value(&[("kind", kind)], count as f64);
        };
    Counter coeval_validation_scans_total [] "commits"
        "Commits at SERIALIZABLE that had changed something, and had scanned something or found a key absent: of those the scans are validated."
        = |r, out| out.value(&[], r.engine.validation.scans as f64);
    Counter coeval_validation_transactions_total [] "transactions"
        "Transactions that these commits looked at: those that wrote in the same ranges of keys meanwhile, counting again in each. In proportion to coeval_validation_scans_total it is what validating a scan costs."
        = |r, out| out.value(&[], r.engine.validation.transactions as f64);
    Counter coeval_validation_records_total [] "rows"
        "Rows that were read a second time, at a commit, because they had been read by their key, those of the catalog included."
        = |r, out| out.value(&[], r.engine.validation.records as f64);
    Counter coeval_validation_registrations_total [] "registrations"
        "Registrations that writers have left in ranges of keys, for scans to find, whether or not there are scans."
        = |r, out| out.value(&[], r.engine.validation.registrations as f64);
    Gauge coeval_ranges [] "ranges"
        "Logical ranges that the keys of all tables and indexes are cut into, those of the catalog included. A table or an index without scans has one."
        = |r, out| out.value(&[], r.engine.ranges as f64);
    Counter coeval_range_splits_total [] "ranges"
        "Ranges that were created by splitting others."
        = |r, out| out.value(&[], r.engine.range_splits as f64);
    Counter coeval_range_merges_total [] "ranges"
        "Ranges that were removed by merging them with neighbours."
        = |r, out| out.value(&[], r.engine.range_merges as f64);
    Gauge coeval_admission_places [] "transactions"
        "How many transactions may work at once. Without a limit there is no value."
        = |r, out| if r.admission.places != usize::MAX {
            out.value(&[], r.admission.places as f64);
        };
    Gauge coeval_admission_working [] "transactions"
        "Transactions that have a place, or work without one because theirs had lapsed."
        = |r, out| out.value(&[], r.admission.working as f64);
    Gauge coeval_admission_waiting [] "transactions"
        "Transactions that wait for a place before they begin."
        = |r, out| out.value(&[], r.admission.waiting as f64);
    Counter coeval_admission_admitted_total [] "transactions"
        "Transactions that came in, without waiting or after it."
        = |r, out| out.value(&[], r.admission.admitted as f64);
    Counter coeval_admission_waited_total [] "transactions"
        "Transactions that had to wait for a place."
        = |r, out| out.value(&[], r.admission.waited as f64);
    Counter coeval_admission_wait_seconds_total [] "seconds"
        "How long transactions waited for a place, all together."
        = |r, out| out.value(&[], r.admission.waited_microseconds as f64 / MICROSECONDS);
    Counter coeval_admission_lapsed_total [] "places"
        "Places that were taken from transactions that waited for something."
        = |r, out| out.value(&[], r.admission.lapsed as f64);
    Gauge coeval_snapshots [] "snapshots"
        "Snapshots that are being read."
        = |r, out| out.value(&[], r.engine.snapshots as f64);
    Gauge coeval_snapshot_oldest_age_seconds [] "seconds"
        "Age of the state that the oldest snapshot shows: how long ago it was the newest; right to about a second, 0 if it still is."
        = |r, out| out.value(&[], r.engine.oldest_snapshot_age.as_secs_f64());
    Gauge coeval_snapshot_oldest_lag_bytes [] "bytes"
        "How much log has been installed since the state that the oldest snapshot shows."
        = |r, out| out.value(&[], r.engine.oldest_snapshot_lag as f64);

    Counter coeval_log_commits_total [] "commits"
        "Commits that changed something, as the log has them. A node that follows counts none, nor skips, groups and writers."
        = |r, out| out.value(&[], r.log.commits as f64);
    Counter coeval_log_skips_total [] "commits"
        "Reservations of log space that a commit gave up, because its validation failed."
        = |r, out| out.value(&[], r.log.skips as f64);
    Counter coeval_log_written_bytes_total [] "bytes"
        "Bytes of log that reached the disk; on a node that follows, of its copy of the leader's log."
        = |r, out| out.value(&[], r.log.written_bytes as f64);
    Histogram coeval_log_sync_seconds [] "seconds"
        "How long syncs of the log took. There is one for each group of commits; on a node that follows, for all that it has received meanwhile."
        = |r, out| out.distribution(&[], &r.log.syncs, MICROSECONDS);
    Histogram coeval_log_group_commits [] "commits"
        "How many commits became durable with one sync."
        = |r, out| out.distribution(&[], &r.log.groups, 1.0);
    Gauge coeval_log_writers [] "transactions"
        "Transactions that have written something, or locked what they may write, and have not committed yet."
        = |r, out| out.value(&[], r.log.writers as f64);
    Histogram coeval_log_group_wait_seconds [] "seconds"
        "How long groups of commits waited for transactions that were about to commit. Groups that did not wait are not counted."
        = |r, out| out.distribution(&[], &r.log.waits, MICROSECONDS);
    Gauge coeval_log_end_bytes [] "bytes"
        "Where the log ends, as an offset; grows with what is written, across restarts too."
        = |r, out| out.value(&[], r.log.installed.0 as f64);
    Gauge coeval_log_undurable_bytes [] "bytes"
        "How much log is installed and not yet durable."
        = |r, out| out.value(&[], r.log.installed.0.saturating_sub(r.log.durable.0) as f64);
    Histogram coeval_durability_wait_seconds [] "seconds"
        "How long answers waited for what they depend on to be durable. Answers that did not wait are not counted."
        = |r, out| out.distribution(&[], &r.sheets.durability_waits, MICROSECONDS);
    Histogram coeval_confirmation_wait_seconds [] "seconds"
        "How long answers of transactions that only read waited until the other nodes had confirmed that this one leads. Answers that did not wait are not counted; a server that is no node of a cluster has none that do."
        = |r, out| out.distribution(&[], &r.sheets.confirmation_waits, MICROSECONDS);

    Gauge coeval_log_replay_bytes [] "bytes"
        "How much log a start would replay now, after the checkpoint in force."
        = |r, out| out.value(&[], r.log_replay_bytes as f64);
    Gauge coeval_log_kept_bytes [] "bytes"
        "How much log the data directory holds, older log that is kept included."
        = |r, out| out.value(&[], r.log_kept_bytes as f64);

    Gauge coeval_checkpoint_age_seconds [] "seconds"
        "Age of the state that the checkpoint in force holds. Without a checkpoint there is no value, as for the two that follow."
        = |r, out| if let Some(age) = r.checkpoint_age() {
            out.value(&[], age.as_secs_f64());
        };
    Gauge coeval_checkpoint_bytes [] "bytes"
        "The size of the checkpoint in force."
        = |r, out| if let Some(last) = r.checkpoints.last {
            out.value(&[], last.bytes as f64);
        };
    Gauge coeval_checkpoint_rows [] "rows"
        "How many rows the checkpoint in force holds."
        = |r, out| if let Some(last) = r.checkpoints.last {
            out.value(&[], last.records as f64);
        };
    Gauge coeval_checkpoint_running [] "checkpoints"
        "1 while a checkpoint is being written, else 0."
        = |r, out| out.value(&[], f64::from(u8::from(r.checkpoints.running.is_some())));
    Gauge coeval_checkpoint_written_rows [] "rows"
        "How many rows the checkpoint has that is being written; coeval_table_rows says about how many there will be. 0 when none is."
        = |r, out| out.value(&[], r.checkpoints.running.unwrap_or(0) as f64);
    Gauge coeval_checkpoint_duration_seconds [] "seconds"
        "How long the latest checkpoint took that this process has taken; 0 before there is one."
        = |r, out| out.value(&[], r.checkpoints.last_took.unwrap_or_default().as_secs_f64());
    Counter coeval_checkpoints_total ["outcome"] "checkpoints"
        "Checkpoints by outcome: taken, or failed. After a failure the one before stays in force with its log."
        = |r, out| for (outcome, count) in [
            ("taken", r.checkpoints.taken),
            ("failed", r.checkpoints.failed),
        ] {
            out.value(&[("outcome", outcome)], count as f64);
        };
    Gauge coeval_problems ["problem"] "problems"
        "1 while it is so, else 0: disk_full, writes are refused until there is room; checkpoints_fail, the last checkpoint failed and none has been taken since. /health has the reason."
        = |r, out| for name in Problem::NAMES {
            let is_so = r.problems.iter().any(|problem| problem.name == name);
            out.value(&[("problem", name)], f64::from(u8::from(is_so)));
        };
    Gauge coeval_backups_running [] "backups"
        "Backups that are being taken."
        = |r, out| out.value(&[], r.backups as f64);

    Gauge coeval_memory_bytes ["class"] "bytes"
        "Memory by what it is for: rows, versions that only older snapshots see, record headers, indexes, the log's window, the rest of what was allocated, what the allocator holds beside that, and the program. Together about the resident size."
        = |r, out| for (class, bytes) in [
            ("rows", r.engine.memory.rows),
            ("old_versions", r.engine.memory.old_versions),
            ("records", r.engine.memory.records),
            ("indexes", r.engine.memory.indexes),
            ("log", r.engine.memory.log),
            ("rest", r.engine.memory.rest),
            ("allocator", r.engine.memory.allocator),
            ("program", r.engine.memory.program),
        ] {
            out.value(&[("class", class)], bytes as f64);
        };
    Gauge coeval_memory_limit_bytes [] "bytes"
        "How much memory the database may take before growth is refused. Without a limit there is no value."
        = |r, out| if r.engine.memory.limit != u64::MAX {
            out.value(&[], r.engine.memory.limit as f64);
        };
    Counter coeval_memory_refusals_total [] "writes"
        "Writes that were refused for want of memory (53200)."
        = |r, out| out.value(&[], r.engine.memory.refused as f64);
    Counter coeval_snapshots_ended_total [] "snapshots"
        "Snapshots that were ended for the old versions they held (72000)."
        = |r, out| out.value(&[], r.engine.memory.ended_snapshots as f64);
    Gauge coeval_table_rows [] "rows"
        "About how many rows all tables have, those of the catalog included."
        = |r, out| out.value(&[], r.engine.rows as f64);
    Gauge coeval_tables [] "tables"
        "Tables, those of the catalog and dropped ones that are still read included."
        = |r, out| out.value(&[], r.engine.storages as f64);
    Gauge coeval_retired [] "objects"
        "Tables and indexes that were dropped and wait for the last snapshot that can see them."
        = |r, out| out.value(&[], r.engine.retired as f64);
    Counter coeval_sweeps_total [] "rounds"
        "Rounds of the garbage collector through the records that were written."
        = |r, out| out.value(&[], r.engine.sweeps as f64);
    Counter coeval_swept_records_total [] "records"
        "Records the garbage collector has inspected."
        = |r, out| out.value(&[], r.engine.swept_records as f64);
    Counter coeval_swept_versions_total [] "versions"
        "Old versions the garbage collector has removed. Most are removed by writers, during their own writes."
        = |r, out| out.value(&[], r.engine.swept_versions as f64);

    Gauge coeval_cluster_term [] "terms"
        "The term that the node knows of. On a server that is no node of a cluster there are no metrics of a cluster."
        = |r, out| if let Some(cluster) = &r.cluster {
            out.value(&[], cluster.term as f64);
        };
    Gauge coeval_cluster_leader [] "nodes"
        "The number of the node that leads, as far as this one knows; 0 when it knows of none."
        = |r, out| if let Some(cluster) = &r.cluster {
            out.value(&[], cluster.leader.unwrap_or(0) as f64);
        };
    Gauge coeval_cluster_voters ["reachable"] "nodes"
        "Nodes that vote, by whether this one has a connection to them; to itself it always has."
        = |r, out| if let Some(cluster) = &r.cluster {
            let (voters, reached) = cluster.voters();
            out.value(&[("reachable", "yes")], reached as f64);
            out.value(&[("reachable", "no")], (voters - reached) as f64);
        };
    Gauge coeval_cluster_member ["node", "kind"] "always 1"
        "The members of the cluster, and what each is: leader, voter or learner."
        = |r, out| for (node, member) in members(r) {
            out.value(&[("node", &node), ("kind", member.role.name())], 1.0);
        };
    Gauge coeval_cluster_connected ["node"] "connections"
        "Whether this node has a connection to that one: 1 or 0."
        = |r, out| for (node, member) in members(r) {
            out.value(&[("node", &node)], f64::from(u8::from(member.connected)));
        };
    Gauge coeval_cluster_version [] "versions"
        "The cluster version in force: what the members write, and every one of them reads."
        = |r, out| if let Some(cluster) = &r.cluster {
            out.value(&[], f64::from(cluster.version));
        };
    Gauge coeval_cluster_reads_version ["node"] "versions"
        "The highest cluster version that a connected member reads: the lowest of them holds the cluster back."
        = |r, out| for (node, member) in members(r) {
            if let Some(reads) = member.reads {
                out.value(&[("node", &node)], f64::from(reads));
            }
        };
    Gauge coeval_cluster_log_end_bytes [] "bytes"
        "Where the log of this node ends."
        = |r, out| if let Some(cluster) = &r.cluster {
            out.value(&[], cluster.end as f64);
        };
    Gauge coeval_visibility_lag_seconds [] "seconds"
        "Age of the oldest commit that this node does not show to its clients' reads, as far as it knows: 0 when it shows all, however long ago that was; it grows while the node knows no leader."
        = |r, out| if let Some(cluster) = &r.cluster {
            let own = cluster.members.iter().find(|member| member.node == cluster.node);
            let lag = own.and_then(|own| own.progress.lag);
            out.value(&[], lag.map_or(0.0, |lag| lag.time.as_secs_f64()));
        };
    Gauge coeval_cluster_lag_bytes ["node", "stage"] "bytes"
        "How much of the log a node has not been sent, has not flushed, does not know as committed, or has not replayed. Only the leader knows this of other nodes, and the last two as those report five times a second."
        = |r, out| for (node, member) in members(r) {
            let end = r.cluster.as_ref().map_or(0, |cluster| cluster.end);
            for (stage, reached) in member.progress.stages() {
                if let Some(reached) = reached {
                    let lag = end.saturating_sub(reached);
                    out.value(&[("node", &node), ("stage", stage)], lag as f64);
                }
            }
        };
    Counter coeval_cluster_elections_total [] "elections"
        "Elections that this node has observed since it was started."
        = |r, out| if let Some(cluster) = &r.cluster {
            out.value(&[], cluster.elections_seen as f64);
        };
    Counter coeval_cluster_frames_total ["node", "direction"] "frames"
        "Frames sent to another node (out) and received from it (in)."
        = |r, out| for (node, traffic) in traffic(r) {
            out.value(&[("node", &node), ("direction", "out")], traffic.sent_frames as f64);
            out.value(&[("node", &node), ("direction", "in")], traffic.received_frames as f64);
        };
    Counter coeval_cluster_traffic_bytes_total ["node", "direction"] "bytes"
        "Bytes of frames sent to another node (out) and received from it (in)."
        = |r, out| for (node, traffic) in traffic(r) {
            out.value(&[("node", &node), ("direction", "out")], traffic.sent_bytes as f64);
            out.value(&[("node", &node), ("direction", "in")], traffic.received_bytes as f64);
        };
    Counter coeval_cluster_skipped_frames_total ["node"] "frames"
        "Frames from another node that were skipped, for they are of a kind that only a later version knows."
        = |r, out| for (node, traffic) in traffic(r) {
            out.value(&[("node", &node)], traffic.skipped_frames as f64);
        };
    Counter coeval_cluster_connects_total ["node", "outcome"] "connections"
        "Connections that this node has made to another (ok), and attempts that failed (failed)."
        = |r, out| for (node, traffic) in traffic(r) {
            out.value(&[("node", &node), ("outcome", "ok")], traffic.connects as f64);
            out.value(&[("node", &node), ("outcome", "failed")], traffic.failures as f64);
        };
    Gauge coeval_cluster_round_trip_seconds ["node"] "seconds"
        "How long the last ping to another node took to come back."
        = |r, out| for (node, traffic) in traffic(r) {
            if let Some(microseconds) = traffic.round_trip {
                out.value(&[("node", &node)], microseconds as f64 / MICROSECONDS);
            }
        };
    Counter coeval_cluster_refused_connections_total ["reason"] "connections"
        "Connections to this node's address for nodes that failed: refused with a reason, without a handshake, too slow, or pushed out by later ones."
        = |r, out| if let Some(cluster) = &r.cluster {
            for (reason, count) in &cluster.refused {
                out.value(&[("reason", reason)], *count as f64);
            }
        };
}

/// The members of the cluster, each with its number as the value of a label.
fn members(reading: &Reading) -> impl Iterator<Item = (String, &ClusterMember)> {
    let cluster = reading.cluster.iter();
    let members = cluster.flat_map(|cluster| &cluster.members);
    members.map(|member| (member.node.to_string(), member))
}

/// The traffic counters of the connection to each other member.
fn traffic(reading: &Reading) -> impl Iterator<Item = (String, ClusterTraffic)> {
    members(reading).filter_map(|(node, member)| Some((node, member.traffic?)))
}

/// Aborted transactions by the kind of conflict with other transactions.
fn conflicts(engine: &Statistics) -> [(&'static str, u64); 5] {
    let aborted = |causes: &[AbortCause]| {
        let counts = causes.iter().map(|cause| engine.aborted[*cause as usize]);
        counts.sum::<u64>()
    };
    let locks = [
        AbortCause::Deadlock,
        AbortCause::LockOrder,
        AbortCause::LockTimeout,
        AbortCause::LockNotAvailable,
    ];
    let validation = &engine.validation;
    [
        ("write", aborted(&[AbortCause::WriteWrite])),
        (
            "read",
            aborted(&[AbortCause::ReadChanged]) + validation.certain,
        ),
        ("granularity", validation.granular),
        ("ring_overflow", aborted(&[AbortCause::RingOverflow])),
        ("lock", aborted(&locks)),
    ]
}

/// The kinds of statements that return or change rows.
const ROW_KINDS: [StatementKind; 5] = [
    StatementKind::Select,
    StatementKind::Insert,
    StatementKind::Update,
    StatementKind::Delete,
    StatementKind::Copy,
];
