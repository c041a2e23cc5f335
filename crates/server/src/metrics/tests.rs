//! Tests that the documents, the dashboard and the alert rules name exactly the listed
//! metrics, and that the exposition follows Prometheus' format.

use std::collections::{BTreeMap, BTreeSet};

use coeval_sql::instance::{Cluster, ClusterMember, ClusterProgress, ClusterRole, ClusterTraffic};

use super::exposition::exposition;
use super::families::{FAMILIES, MetricKind};
use super::reading::{Process, Reading};
use super::sheet::Sum;

const DOCUMENT: &str = include_str!("../../../../docs/operations/monitor.md");
const DASHBOARD: &str = include_str!("../../../../docs/operations/grafana-dashboard.json");

const ALERTS: &str = include_str!("../../../../docs/operations/prometheus-alerts.yaml");

const BEGIN: &str = "<!-- metrics begin -->\n";
const END: &str = "<!-- metrics end -->\n";

/// The table of all metrics, as `monitor.md` has it.
fn table() -> String {
    let mut table =
        "| metric | kind | unit | by | meaning |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for family in FAMILIES {
        let labels: Vec<String> = family
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        table.push_str(&format!(
            "| `{}` | {} | {} | {} | {} |\n",
            family.name,
            family.kind.name(),
            family.unit,
            labels.join(", "),
            family.about
        ));
    }
    table
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "rewrites the document when asked to"
)]
fn the_document_lists_every_metric() {
    let (before, rest) = DOCUMENT.split_once(BEGIN).expect("where the list begins");
    let (listed, after) = rest.split_once(END).expect("where it ends");
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/operations/monitor.md"
        );
        let text = format!("{before}{BEGIN}{}{END}{after}", table());
        std::fs::write(path, text).unwrap();
        return;
    }
    assert_eq!(
        listed,
        table(),
        "docs/operations/monitor.md; UPDATE_TRANSCRIPTS=1 rewrites it"
    );
}

/// The words of the text that look like names of metrics.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("coeval_") || word.starts_with("process_"))
        .collect()
}

/// The names of all series.
fn series() -> BTreeSet<String> {
    FAMILIES
        .iter()
        .flat_map(|family| match family.kind {
            MetricKind::Histogram => ["_bucket", "_sum", "_count"]
                .map(|suffix| format!("{}{suffix}", family.name))
                .to_vec(),
            MetricKind::Counter | MetricKind::Gauge => vec![family.name.to_owned()],
        })
        .collect()
}

/// The values of the lines with this key of a YAML file.
fn values_of<'text>(text: &'text str, key: &str) -> Vec<&'text str> {
    let lines = text
        .lines()
        .map(|line| line.trim().trim_start_matches("- "));
    lines.filter_map(|line| line.strip_prefix(key)).collect()
}

#[test]
fn the_alert_rules_name_only_metrics_that_exist() {
    let names = series();
    let alerts = values_of(ALERTS, "alert: ");
    assert!(alerts.len() > 5, "its rules were read");
    let asked = values_of(ALERTS, "expr: ");
    for (alert, expression) in alerts.iter().zip(&asked) {
        let metrics = metrics_in(expression);
        let unknown: Vec<_> = metrics
            .iter()
            .filter(|name| !names.contains(**name))
            .collect();
        assert!(unknown.is_empty(), "{alert}: {unknown:?}");
        assert!(
            !metrics.is_empty() || expression.starts_with("up{"),
            "{alert}"
        );
    }
    for key in ["expr: ", "for: ", "labels: ", "summary: "] {
        assert_eq!(values_of(ALERTS, key).len(), alerts.len(), "{key}");
    }
    // The problems that the server reports are on the dashboard too.
    for text in [ALERTS, DASHBOARD] {
        assert!(metrics_in(text).contains("coeval_problems"));
    }
}

#[test]
fn the_dashboard_names_only_metrics_that_exist() {
    let names = series();
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).expect("it is JSON");
    let mut asked = BTreeSet::new();
    let mut panels = 0;
    for panel in dashboard["panels"].as_array().expect("its panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("what it asks for");
            let metrics = metrics_in(expression);
            assert!(!metrics.is_empty(), "{expression}");
            asked.extend(metrics.into_iter().map(str::to_owned));
        }
        panels += 1;
    }
    assert!(panels > 20, "its panels were read");
    let unknown: Vec<_> = asked.difference(&names).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    for name in metrics_in(DASHBOARD) {
        assert!(names.contains(name), "{name}");
    }
}

/// A reading of a server that has just started.
fn reading() -> Reading {
    let settings = coeval_occ::Settings {
        sweep_interval: None,
        ..coeval_occ::Settings::default()
    };
    let engine = coeval_occ::Engine::ephemeral(settings).unwrap();
    let mut sheets = Sum::default();
    let sheet = super::Sheet::default();
    sheet.error(coeval_sql::SqlState("40001"));
    sheets.add(&sheet);
    Reading {
        sheets,
        log: engine.log().statistics(),
        checkpoints: engine.checkpoint_status(),
        log_kept_bytes: 0,
        log_replay_bytes: 0,
        backups: 0,
        problems: Vec::new(),
        admission: coeval_sql::instance::AdmissionCounts::default(),
        engine: engine.statistics(),
        sessions: BTreeMap::new(),
        waits: BTreeMap::from([(("Lock", "tuple"), 3)]),
        sessions_limit: 7,
        oldest_transaction: std::time::Duration::ZERO,
        uptime: std::time::Duration::from_millis(1500),
        started_at: std::time::Duration::from_secs(1),
        now: std::time::Duration::from_secs(2),
        start: std::time::Duration::ZERO,
        process: Process::default(),
        cluster: Some(cluster()),
        holds: Some(coeval_leader::node::HoldCounts {
            begun: 3,
            ended: 2,
            ran_out: 1,
        }),
        gamma: Some(crate::gamma::Summary {
            reads: 40,
            violations: 2,
            greatest: 5_500_000,
            ..crate::gamma::Summary::default()
        }),
        questions: Some(coeval_leader::node::QuestionCounts::default()),
    }
}

/// A cluster with one unreachable node.
fn cluster() -> Cluster {
    let member = |node, role| ClusterMember {
        node,
        address: None,
        role,
        connected: node != 3,
        connected_since: None,
        heard: None,
        fault: None,
        progress: ClusterProgress {
            flushed: Some(90),
            ..ClusterProgress::default()
        },
        needs_checkpoint: false,
        reads: Some(2),
        announces: true,
        traffic: (node != 1).then(|| ClusterTraffic {
            sent_bytes: 7,
            round_trip: Some(1500),
            ..ClusterTraffic::default()
        }),
    };
    Cluster {
        term: 4,
        leader: Some(1),
        end: 100,
        members: vec![
            member(1, ClusterRole::Leader),
            member(2, ClusterRole::Voter),
            member(3, ClusterRole::Voter),
        ],
        elections_seen: 2,
        refused: vec![("slow", 3)],
        ..Cluster::default()
    }
}

#[test]
fn names_and_values_are_as_prometheus_wants_them() {
    let mut seen = BTreeSet::new();
    for family in FAMILIES {
        assert!(seen.insert(family.name), "{} twice", family.name);
        let total = family.name.ends_with("_total");
        assert_eq!(total, family.kind == MetricKind::Counter, "{}", family.name);
        for unit in ["seconds", "bytes"] {
            let named = family.name.trim_end_matches("_total").ends_with(unit);
            assert_eq!(named, family.unit == unit, "{}", family.name);
        }
        assert!(family.about.ends_with('.'), "{}", family.name);
        assert!(!family.about.contains('|'), "{}", family.name);
    }
    let text = exposition(&reading());
    let mut family = "";
    let mut buckets: BTreeMap<String, f64> = BTreeMap::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            family = comment.split(' ').nth(1).unwrap();
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a series and its value");
        let value: f64 = value.parse().expect(line);
        assert!(series.starts_with(family), "{line} under {family}");
        if series.contains("_bucket{")
            && let Some((series, limit)) = series.split_once("le=\"")
        {
            let limit = limit.trim_end_matches("\"}");
            let limit: f64 = limit.replace("+Inf", "inf").parse().unwrap();
            let before = buckets.insert(series.to_owned(), value).unwrap_or(0.0);
            assert!(value >= before, "{line}: buckets are sums up to {limit}");
        }
    }
    for expected in [
        "coeval_uptime_seconds 1.5",
        "coeval_errors_total{sqlstate=\"40001\"} 1",
        "coeval_sessions_waiting{type=\"Lock\",event=\"tuple\"} 3",
        "coeval_log_group_commits_bucket{le=\"+Inf\"} 0",
        "coeval_log_sync_seconds_bucket{le=\"0.000001\"} 0",
        "coeval_cluster_term 4",
        "coeval_gamma_seconds 0.0055",
        "coeval_any_read_holds_total{event=\"ran_out\"} 1",
        "coeval_cluster_leader 1",
        "coeval_cluster_voters{reachable=\"no\"} 1",
        "coeval_cluster_member{node=\"2\",kind=\"voter\"} 1",
        "coeval_cluster_connected{node=\"3\"} 0",
        "coeval_cluster_lag_bytes{node=\"2\",stage=\"flushed\"} 10",
        "coeval_cluster_elections_total 2",
        "coeval_cluster_traffic_bytes_total{node=\"2\",direction=\"out\"} 7",
        "coeval_cluster_round_trip_seconds{node=\"3\"} 0.0015",
        "coeval_cluster_refused_connections_total{reason=\"slow\"} 3",
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected}");
    }
}
