//! Statements that are refused as long as a node of the cluster may not read what they write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use coeval_sql::instance::{Host, HostMetric, HostSetting, Totals};

use crate::client::{must, query, session};
use crate::engines::{database, occ};

/// A node of a cluster of this version.
#[derive(Clone, Debug)]
struct Made(Arc<AtomicU32>);

impl Host for Made {
    fn settings(&self) -> Vec<HostSetting> {
        Vec::new()
    }

    fn metrics(&self) -> Vec<HostMetric> {
        Vec::new()
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }

    fn started(&self) -> i64 {
        0
    }

    fn reads_version(&self, version: u32) -> bool {
        version <= self.0.load(Ordering::Relaxed)
    }
}

/// Statements with the version that each needs, and what they make.
const STATEMENTS: &[(u32, &str, &str)] = &[
    (1, "create table p (a int primary key)", ""),
    (6, "create unlogged table u (a int)", "a table of this kind"),
    (6, "create table i (a interval)", "a table of this kind"),
    (6, "alter table p add column b time", "a table of this kind"),
    (6, "create temporary table t (a int)", "a temporary table"),
    (7, "create table j (a jsonb)", "a table of this kind"),
    (7, "alter table p add column c name", "a table of this kind"),
    (7, "create extension pgcrypto", "an extension"),
    (7, "create sequence s", "a sequence"),
    (7, "create view v as select a from p", "a view"),
    (7, "comment on table p is 'x'", "a comment"),
    (7, "create table d (a serial)", "a sequence"),
    (
        7,
        "create table k (a int check (a > 0))",
        "a table of this kind",
    ),
    (
        7,
        "create table g (a int, b int generated always as (a * 2) stored)",
        "a table of this kind",
    ),
];

#[tokio::test]
async fn what_a_node_may_not_read_is_refused() {
    let database = database(occ()).await;
    let version = Arc::new(AtomicU32::new(1));
    let made = Made(Arc::clone(&version));
    database.instance().set_host(Box::new(made));
    let mut session = session(&database);
    for &(needed, statement, what) in STATEMENTS {
        if needed > 1 {
            version.store(needed - 1, Ordering::Relaxed);
            let message = format!(
                "  ERROR 0A000: {what}, before all nodes of the cluster read it, is not supported"
            );
            let hint = format!(
                "  HINT: That takes cluster version {needed}; \"coeval cluster status\" says what \
                 holds it back."
            );
            let said = query(&mut session, statement, "").await;
            assert_eq!(said, [message, hint], "{statement}");
        }
        version.store(needed, Ordering::Relaxed);
        must(&mut session, statement).await;
    }
}
