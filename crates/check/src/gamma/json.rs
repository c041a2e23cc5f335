//! Γ over time as one JSON object, for programs.

use serde_json::{Map, Value, json};

use super::{Analysis, nanoseconds};

impl Analysis {
    /// The summary, the rows and what became of pauses; times in nanoseconds.
    #[must_use]
    pub fn json(&self) -> Value {
        let report = &self.report;
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "from_ns": row.from,
                    "positive": row.positive,
                    "above": row.above,
                    "gamma_ns": row.gamma,
                })
            })
            .collect();
        let mut summary = json!({
            "operations": report.operations,
            "keys": report.keys,
            "values": report.values,
            "gamma_ns": report.gamma,
            "positive": report.scores.len(),
            "threshold_ns": nanoseconds(self.options.threshold),
            "above": self.above,
            "share_above": self.share_above(),
            "percentiles_ns": percentiles(&self.percentiles),
            "impossible": report.impossible.len(),
            "started_ns": report.span.map(|span| span.0),
            "finished_ns": report.span.map(|span| span.1),
            "rows": rows,
        });
        if let Some((pauses, correlation)) = &self.pauses {
            let lengths = pauses.iter().map(|pause| pause.finished - pause.started);
            summary["pauses"] = json!({
                "count": pauses.len(),
                "longest_ns": lengths.max().unwrap_or(0),
                "shadow_ns": nanoseconds(self.options.shadow),
                "share_of_time": correlation.covered,
                "in_shadow": correlation.in_shadow,
                "outside": correlation.outside,
                "followed": correlation.followed,
                "begins_after_start_ns": percentiles(&correlation.begins_after),
                "ends_after_end_ns": percentiles(&correlation.ends_after),
            });
        }
        summary
    }
}

fn percentiles(percentiles: &[(u64, u64)]) -> Value {
    let named = percentiles.iter().map(|(thousandths, time)| {
        let name = format!("p{}", *thousandths as f64 / 10.0);
        (name, Value::from(*time))
    });
    Value::Object(named.collect::<Map<_, _>>())
}
