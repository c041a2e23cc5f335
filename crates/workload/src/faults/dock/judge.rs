//! What cannot be, of what clients were told.

use coeval_check::bank;
use coeval_check::history::History;
use coeval_check::recency::{self, sessions};
use coeval_check::transactions::{self, Unjudgeable, story};
use coeval_txn::Isolation;

use super::kind::promised;

/// How many findings of one kind are told.
const TOLD: usize = 3;

/// Which judges a workload's history is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judges {
    /// Every value is written once: isolation at the level, recency and sessions.
    Transactions,
    /// Balances, of which the sum stays.
    Total(i128),
    /// None: the workload judges by itself what its transactions read, and what there is
    /// in the end.
    Own,
}

/// What they say of a history.
pub(super) fn objections(judges: Judges, level: Isolation, history: &History) -> Vec<String> {
    match judges {
        Judges::Transactions => isolation(level, history)
            .unwrap_or_else(|error| vec![format!("the recorder is at fault: {error}")]),
        Judges::Total(total) => {
            let report = bank::judge(history, Some(total));
            let wrong = report.wrong.iter().take(TOLD);
            let mut objections: Vec<String> = wrong.map(ToString::to_string).collect();
            if report.reads == 0 {
                objections.push("nobody has read all accounts: nothing was judged".to_owned());
            }
            objections
        }
        Judges::Own => Vec::new(),
    }
}

/// By the level that was asked for; and, at every level, that nobody misses what was
/// acknowledged before he began, and no client goes back behind what it saw.
fn isolation(level: Isolation, history: &History) -> Result<Vec<String>, Unjudgeable> {
    let level = promised(level);
    let judgement = transactions::judge(history, &[level])?;
    let violations = judgement.violations(level).take(TOLD);
    let mut objections: Vec<String> = violations.map(|anomaly| story(history, anomaly)).collect();
    let missed = recency::judge(history)?.missed;
    objections.extend(missed.iter().take(TOLD).map(ToString::to_string));
    let went_back = sessions::judge(history)?.went_back;
    objections.extend(went_back.iter().take(TOLD).map(ToString::to_string));
    Ok(objections)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_check::history::{Format, read};

    const LOST: &[u8] = b"
        {:type :ok :process 0 :value [[:append 1 1]]}
        {:type :ok :process 1 :value [[:append 1 2]]}
        {:type :ok :process 2 :value [[:r 1 [1]]]}";

    #[test]
    fn an_acknowledged_append_that_is_gone_is_seen_at_every_level() {
        let history = read(LOST, Format::Edn).expect("a history");
        for (level, name) in super::super::kind::LEVELS {
            let found = objections(Judges::Transactions, level, &history);
            assert!(!found.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_bank_that_nobody_has_looked_at_is_not_judged() {
        let total = Judges::Total(8000);
        let nobody = objections(total, Isolation::Serializable, &History::default());
        assert_eq!(nobody.len(), 1);
        let wrong = read(
            b"{:type :ok :process 0 :value [[:r 1 7999] [:r 2 0]]}",
            Format::Edn,
        );
        let wrong = objections(total, Isolation::Serializable, &wrong.expect("a history"));
        assert!(wrong[0].contains("7999"), "{wrong:?}");
    }
}
