//! The server as SQL sees it: its settings and metrics, for `coeval.settings` and
//! `coeval.metrics`.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coeval_memory::counters::Distribution;
use coeval_occ::AbortCause;
use coeval_sql::expression::EvaluationContext;
use coeval_sql::instance::{
    Changing, Cluster, ClusterChange, Finding, Host, HostMetric, HostSetting, Interruption,
    NodeGamma, SessionElsewhere, Sought, Totals,
};
use coeval_sql::statement::StatementKind;

use super::exposition::write_labels;
use super::families::{FAMILIES, Family, Samples};
use super::reading::Reading;
use crate::cluster_view;
use crate::gamma::Summary;
use crate::session::elsewhere;
use crate::settings::{Effective, KEYS};
use crate::shared::Shared;

/// The server, as an interface that its database calls.
#[derive(Debug)]
pub(crate) struct ServerHost {
    shared: Weak<Shared>,
    settings: Effective,
    started: i64,
}

impl ServerHost {
    pub(crate) fn new(shared: Weak<Shared>, settings: Effective) -> Self {
        Self {
            shared,
            settings,
            started: EvaluationContext::clock(),
        }
    }

    fn reading(&self) -> Option<Reading> {
        let shared = self.shared.upgrade()?;
        Some(Reading::take(&shared))
    }
}

/// The suffix of a setting's name that gives its unit, and PostgreSQL's unit for it.
const UNITS: [(&str, &str); 2] = [("_milliseconds", "ms"), ("_bytes", "B")];

impl Host for ServerHost {
    fn settings(&self) -> Vec<HostSetting> {
        KEYS.iter()
            .map(|key| HostSetting {
                name: key.name.to_owned(),
                value: self.settings.shown(key),
                unit: UNITS
                    .iter()
                    .find(|(ending, _)| key.name.ends_with(ending))
                    .map(|(_, unit)| *unit),
                source: self.settings.origin(key).to_string(),
                about: key.help.split_whitespace().collect::<Vec<_>>().join(" "),
                for_superusers: matches!(key.placeholder, "DIR" | "FILE"),
            })
            .collect()
    }

    fn metrics(&self) -> Vec<HostMetric> {
        let Some(reading) = self.reading() else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for family in FAMILIES {
            (family.read)(
                &reading,
                &mut Rows {
                    rows: &mut rows,
                    family,
                },
            );
        }
        rows
    }

    fn totals(&self) -> Totals {
        let Some(reading) = self.reading() else {
            return Totals::default();
        };
        let engine = &reading.engine;
        let aborted = |cause: AbortCause| engine.aborted[cause as usize];
        let conflicts = [
            AbortCause::WriteWrite,
            AbortCause::ReadChanged,
            AbortCause::RangeChanged,
            AbortCause::RingOverflow,
            AbortCause::LockOrder,
            AbortCause::Schema,
        ];
        let rows = |kind| reading.sheets.of(kind).rows;
        Totals {
            committed: engine.committed,
            rolled_back: engine.aborted.iter().sum(),
            returned: rows(StatementKind::Select),
            inserted: rows(StatementKind::Insert),
            updated: rows(StatementKind::Update),
            deleted: rows(StatementKind::Delete),
            conflicts: conflicts.into_iter().map(aborted).sum(),
            deadlocks: engine.deadlocks,
        }
    }

    fn started(&self) -> i64 {
        self.started
    }

    fn cluster(&self) -> Option<Cluster> {
        cluster_view::cluster(&*self.shared.upgrade()?)
    }

    fn keeps_role_settings(&self) -> bool {
        let shared = self.shared.upgrade();
        shared.is_some_and(|shared| shared.keeps_role_settings.load(Ordering::Relaxed))
    }

    fn reads_version(&self, version: u32) -> bool {
        let shared = self.shared.upgrade();
        shared.is_some_and(|shared| version <= shared.cluster_version.load(Ordering::Relaxed))
    }

    fn gamma(&self) -> Vec<NodeGamma> {
        let all = self
            .shared
            .upgrade()
            .map_or_else(Vec::new, |shared| shared.gamma.all());
        let shown = |(node, summary): (u64, Summary)| NodeGamma {
            node,
            reads: summary.reads,
            writes: summary.values,
            positive: summary.positive,
            violations: summary.violations,
            greatest: Duration::from_nanos(summary.greatest),
        };
        all.into_iter().map(shown).collect()
    }

    fn change_cluster(&self, change: ClusterChange) -> Changing {
        Box::pin(cluster_view::change(Weak::clone(&self.shared), change))
    }

    fn sessions_elsewhere(&self, sought: Sought) -> Finding {
        Box::pin(elsewhere::find(Weak::clone(&self.shared), sought))
    }

    fn interrupt_elsewhere(&self, session: SessionElsewhere, how: Interruption) {
        elsewhere::interrupt(&self.shared, session, how);
    }
}

/// Collects metrics as rows; a histogram becomes its count and its sum.
struct Rows<'rows> {
    rows: &'rows mut Vec<HostMetric>,
    family: &'static Family,
}

impl Rows<'_> {
    fn push(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64, unit: &'static str) {
        let mut text = String::new();
        write_labels(&mut text, labels);
        self.rows.push(HostMetric {
            name: format!("{}{suffix}", self.family.name),
            labels: text,
            value,
            unit,
            about: self.family.about,
        });
    }
}

impl Samples for Rows<'_> {
    fn value(&mut self, labels: &[(&str, &str)], value: f64) {
        self.push("", labels, value, self.family.unit);
    }

    fn distribution(&mut self, labels: &[(&str, &str)], values: &Distribution, per: f64) {
        let sum = values.sum as f64 / per;
        self.push("_count", labels, values.count() as f64, "values");
        self.push("_sum", labels, sum, self.family.unit);
    }
}
