//! Verdicts on a recorded history: the fault harness passes it to the judges and collects
//! the violations.

use std::time::Duration;

use coeval_check::bank;
use coeval_check::history::History;
use coeval_check::recency::{self, sessions};
use coeval_check::transactions::{self, Unjudgeable, story};
use coeval_env as env;
use coeval_txn::Isolation;

use super::kind::promised;

/// How many violations of one kind are reported.
const TOLD: usize = 3;

/// Which judges apply to a workload's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judges {
    /// Every value is written once: the judges of isolation, read recency and session
    /// guarantees.
    Transactions,
    /// The same, where a value is an account's gain, and all gains add up to zero.
    Bank,
    /// None: the workload checks its own reads and the final state.
    Own,
}

/// The violations that the judges find in a history.
pub(super) fn objections(judges: Judges, level: Isolation, history: &History) -> Vec<String> {
    match judges {
        Judges::Transactions => isolation(level, history)
            .unwrap_or_else(|error| vec![format!("the recorder is at fault: {error}")]),
        Judges::Bank => {
            let report = bank::judge(history, Some(0));
            let wrong = report.wrong.iter().take(TOLD);
            let mut found = objections(Judges::Transactions, level, history);
            found.extend(wrong.map(ToString::to_string));
            found
        }
        Judges::Own => Vec::new(),
    }
}

/// A period in which every fsync that began took at least `takes`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slow {
    pub(super) from: env::Instant,
    pub(super) until: env::Instant,
    pub(super) takes: Duration,
}

/// Reports writes that were acknowledged before they can have been durable. A commit that
/// began and ended within a slow period waited for an fsync that began in that period,
/// after the write; a busy machine can only lengthen this wait.
pub(super) fn too_soon(history: &History, origin: env::Instant, slow: &[Slow]) -> Vec<String> {
    let since = |at: env::Instant| at.duration_since(origin).as_nanos();
    let mut found = Vec::new();
    for (number, transaction) in history.transactions.iter().enumerate() {
        let Some(finished) = transaction.finished.filter(|_| transaction.is_committed()) else {
            continue;
        };
        let (began, ended) = (u128::from(transaction.started), u128::from(finished));
        let within = |slow: &&Slow| since(slow.from) <= began && ended <= since(slow.until);
        if let Some(Slow { takes, .. }) = slow.iter().find(within)
            && transaction.writes()
            && ended - began < takes.as_nanos()
        {
            found.push(format!(
                "too soon: T{number} wrote and was acknowledged within {} us, while each sync \
                 took {takes:?}",
                (ended - began) / 1000
            ));
        }
    }
    found.truncate(TOLD);
    found
}

/// Reason why the judges cannot find anything in an entire history, if so.
pub(super) fn nothing(judges: Judges, history: &History) -> Option<String> {
    let unread = judges == Judges::Bank && bank::judge(history, Some(0)).reads == 0;
    unread.then(|| "no client has read all accounts: nothing was judged".to_owned())
}

/// Judges isolation at the requested level and, at every level, that each transaction
/// sees all commits acknowledged before it began, and that no client reads an older state
/// than it has read before.
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

/// Reports the write outages that were longer than `most`.
pub(super) fn too_long(outages: &[Duration], most: Option<Duration>) -> Vec<String> {
    let longer = |outage: &&Duration| most.is_some_and(|most| **outage > most);
    let say = |outage: &Duration| {
        let milliseconds = outage.as_millis();
        format!("outage: for {milliseconds} ms no remaining node accepted a write")
    };
    outages.iter().filter(longer).map(say).collect()
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
    fn outages_are_judged_where_there_is_a_bound() {
        let outages = [1_999, 2_001].map(Duration::from_millis);
        assert_eq!(too_long(&outages, None), [""; 0]);
        let found = too_long(&outages, Some(Duration::from_secs(2)));
        assert_eq!(
            found,
            ["outage: for 2001 ms no remaining node accepted a write"]
        );
    }

    #[test]
    fn an_acknowledged_append_that_is_gone_is_seen_at_every_level() {
        let history = read(LOST, Format::Edn).expect("a history");
        for (level, name) in super::super::kind::LEVELS {
            let found = objections(Judges::Transactions, level, &history);
            assert!(!found.is_empty(), "{name}");
        }
    }

    #[test]
    fn an_acknowledgement_that_waited_for_no_sync_is_seen() {
        let text = r#"
            {"process":0,"started":0,"finished":50,"outcome":"committed","operations":[["write",1,1]]}
            {"process":0,"started":150,"finished":260,"outcome":"committed","operations":[["write",1,2]]}
            {"process":1,"started":300,"finished":310,"outcome":"committed","operations":[["read",1,2]]}
            {"process":1,"started":320,"finished":330,"outcome":"aborted","operations":[["write",1,3]]}
            {"process":0,"started":340,"finished":410,"outcome":"committed","operations":[["write",1,4]]}
            {"process":1,"started":350,"finished":440,"outcome":"committed","operations":[["write",2,1]]}"#;
        let history = read(text.as_bytes(), Format::JsonLines).expect("a history");
        let origin = env::now();
        let slow = |from, until| Slow {
            from: origin + Duration::from_nanos(from),
            until: origin + Duration::from_nanos(until),
            takes: Duration::from_nanos(100),
        };
        let found = too_soon(&history, origin, &[slow(100, 420)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("T4 "), "{found:?}");
    }

    #[test]
    fn a_bank_that_nobody_has_looked_at_is_not_judged() {
        assert!(nothing(Judges::Bank, &History::default()).is_some());
    }

    #[test]
    fn money_that_was_made_and_money_that_was_overwritten_are_seen() {
        let judged = |text: &str| {
            let history = read(text.as_bytes(), Format::Edn).expect("a history");
            objections(Judges::Bank, Isolation::Serializable, &history)
        };
        let half = "{:type :ok :process 0 :value [[:r 1 nil] [:w 1 -7]]}
                    {:type :ok :process 1 :value [[:r 1 -7] [:r 2 nil]]}";
        assert!(judged(half)[0].contains("found -7"), "{:?}", judged(half));
        // Both transfers keep the total, although one of them is lost.
        let lost = "{:type :ok :process 0 :value [[:r 1 nil] [:w 1 -7] [:r 2 nil] [:w 2 7]]}
                    {:type :ok :process 1 :value [[:r 1 nil] [:w 1 -5] [:r 2 nil] [:w 2 5]]}
                    {:type :ok :process 2 :value [[:r 1 -5] [:r 2 5]]}";
        assert!(!judged(lost).is_empty());
    }
}
