//! PostgreSQL's isolation specs, played on two servers side by side.
//!
//! PostgreSQL tests its locks and isolation levels by *specs*: sessions, steps, and orders in
//! which the steps begin. This module plays each order on a server under test and on a
//! PostgreSQL, and compares, step by step, who waits, which rows and tags are answered and
//! which SQLSTATEs, and then whether the permutation was *refused*: whether any statement of
//! any transaction failed.
//!
//! ```text
//!   spec ──▶ permutation ──▶ play on ours        ──▶ events ──┐
//!                       └──▶ play on PostgreSQL  ──▶ events ──┴──▶ Verdict
//! ```
//!
//! A transaction that a permutation leaves open is committed after its last step: a server that
//! checks at COMMIT has been asked then.
//!
//! Two servers may refuse different transactions of one conflict, and at different statements,
//! and both be right. So the verdict that counts is of the whole permutation: a server under
//! test that commits all of what PostgreSQL refuses part of allows an anomaly.
//!
//! **What waits.** A step waits when its session stands in the server's list of waiting
//! sessions with one that blocks it; a step that neither answers nor stands there for
//! [`BOUND`] counts as waiting, too. A step of a session that waits is sent when the earlier one
//! has been answered. A permutation that cannot go on is ended by cancel requests: a session of
//! the server under test waits where PostgreSQL's does not, which is no anomaly, and is listed.
//!
//! **Settings of the server under test.** It need not know PostgreSQL's settings of planner and
//! deadlock detector: SET of one in [`NOT_OURS`] is replaced by another SET. A spec whose setup it
//! refuses, and a permutation with a step that it refuses as unknown (classes 0A and 42), is
//! counted as not supported, and listed with what it lacks.
//!
//! Source: PostgreSQL, `src/test/isolation/README` and `isolationtester.c`.

mod play;
mod report;
mod spec;

use std::fmt;
use std::time::Duration;

pub use play::{Failure, Server};
pub use report::{Finding, Report};
pub use spec::{Session, Spec, SpecError, Turn};

/// How long a step may be silent before it counts as waiting.
pub const BOUND: Duration = Duration::from_secs(3);

/// Beginnings of the names of settings that only PostgreSQL has.
pub const NOT_OURS: [&str; 11] = [
    "deadlock_timeout",
    "enable_",
    "force_parallel_mode",
    "parallel_",
    "min_parallel_",
    "max_parallel_",
    "debug_",
    "default_statistics_target",
    "cpu_tuple_cost",
    "seq_page_cost",
    "random_page_cost",
];

/// An error of a server. Two with one SQLSTATE are equal, whatever they say.
#[derive(Clone, Debug, Eq)]
pub struct Refusal {
    /// The SQLSTATE.
    pub state: String,
    /// What the server says.
    pub message: String,
}

impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        self.state == other.state
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.message.lines().next().unwrap_or_default();
        write!(formatter, "{} {line}", self.state)
    }
}

/// What a step of a permutation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The step's name.
    pub step: String,
    /// Whether it waited for another session.
    pub waited: bool,
    /// Whether the spec says that it may be seen to wait, or not.
    pub annotated: bool,
    /// Its rows and tags, a line each, or its error.
    pub answer: Result<String, Refusal>,
}

/// The outcome of a permutation on two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Neither refuses a statement.
    BothCommit,
    /// Both refuse one, perhaps not the same.
    BothAbort,
    /// Only the server under test refuses one.
    OnlyOursAborts,
    /// Only PostgreSQL refuses one: the server under test commits what PostgreSQL does not.
    OnlyPostgresAborts,
    /// The server under test has not what a step needs.
    Unsupported,
    /// A session of the server under test waits for a later step of another one.
    Stuck,
}

/// Two plays of a permutation, compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The outcome.
    pub verdict: Verdict,
    /// The first step that waits on one server only.
    pub waits: Option<String>,
    /// The first step whose answers differ, where neither server refuses anything.
    pub answers: Option<String>,
    /// The first step that only one server refuses, and its error; of an unsupported
    /// permutation, what the server under test has not.
    pub refused: Option<String>,
}

/// The first step that the server under test refuses as unknown, and PostgreSQL does not.
#[must_use]
pub fn unsupported(ours: &[Event], postgres: &[Event]) -> Option<String> {
    let unknown =
        |refusal: &Refusal| refusal.state.starts_with("0A") || refusal.state.starts_with("42");
    let mut pairs = ours.iter().zip(postgres);
    pairs.find_map(|(our, their)| {
        let refusal = our.answer.as_ref().err().filter(|error| unknown(error))?;
        (our.answer != their.answer).then(|| format!("step {}: {refusal}", our.step))
    })
}

/// Compares what two servers did.
#[must_use]
pub fn compare(ours: &[Event], postgres: &[Event]) -> Comparison {
    let refused = |events: &[Event]| {
        let mut events = events.iter();
        // A COMMIT of a failed transaction succeeds, and says ROLLBACK; the failure itself was
        // an error before.
        events.find_map(|event| {
            let refusal = event.answer.as_ref().err()?;
            Some(format!("{}: {refusal}", event.step))
        })
    };
    let (our, their) = (refused(ours), refused(postgres));
    let (verdict, refused) = match (unsupported(ours, postgres), our, their) {
        (Some(missing), ..) => (Verdict::Unsupported, Some(missing)),
        (_, None, None) => (Verdict::BothCommit, None),
        (_, Some(_), Some(_)) => (Verdict::BothAbort, None),
        (_, Some(our), None) => (Verdict::OnlyOursAborts, Some(our)),
        (_, None, Some(their)) => (Verdict::OnlyPostgresAborts, Some(their)),
    };
    let first = |differs: &dyn Fn(&Event, &Event) -> bool| {
        let mut pairs = ours.iter().zip(postgres);
        let pair = pairs.find(|(our, their)| differs(our, their));
        pair.map(|(our, _)| our.step.clone())
    };
    let supported = verdict != Verdict::Unsupported;
    Comparison {
        verdict,
        waits: first(&|our, their| !our.annotated && our.waited != their.waited)
            .filter(|_| supported),
        answers: first(&|our, their| our.answer != their.answer)
            .filter(|_| verdict == Verdict::BothCommit),
        refused,
    }
}

/// The comparisons of a spec, counted.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Number of permutations by verdict, in the order of [`Verdict`].
    pub verdicts: [u32; 6],
    /// Number of permutations in which a step waits on one server only.
    pub waits: u32,
    /// Number of permutations with other answers where neither server refuses anything.
    pub answers: u32,
    /// What the spec, or one of its permutations, needs and the server under test has not.
    pub missing: Option<String>,
}

impl Row {
    /// Counts one comparison.
    pub fn add(&mut self, comparison: &Comparison) {
        self.verdicts[comparison.verdict as usize] += 1;
        self.waits += u32::from(comparison.waits.is_some());
        self.answers += u32::from(comparison.answers.is_some());
    }

    /// The title line of a table of rows.
    #[must_use]
    pub fn title() -> String {
        format!(
            "{:<34} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}",
            "spec", "commit", "abort", "ours", "theirs", "unsup.", "stuck", "waits", "rows"
        )
    }

    /// Whether the server under test commits what PostgreSQL refuses, or answers otherwise.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.verdicts[Verdict::OnlyPostgresAborts as usize] > 0 || self.answers > 0
    }

    /// Whether any permutation could be compared.
    #[must_use]
    pub fn is_played(&self) -> bool {
        let unsupported = self.verdicts[Verdict::Unsupported as usize];
        self.verdicts.iter().sum::<u32>() > unsupported
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for count in self.verdicts.iter().chain([&self.waits, &self.answers]) {
            write!(formatter, " {count:>6}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(answers: &[(&str, bool, Result<&str, &str>)]) -> Vec<Event> {
        let event = |&(step, waited, answer): &(&str, bool, Result<&str, &str>)| Event {
            step: step.to_owned(),
            waited,
            annotated: false,
            answer: answer.map(str::to_owned).map_err(|state| Refusal {
                state: state.to_owned(),
                message: "no".to_owned(),
            }),
        };
        answers.iter().map(event).collect()
    }

    #[test]
    fn a_permutation_is_judged_as_a_whole() {
        let commits = events(&[("a", false, Ok("UPDATE 1")), ("b", true, Ok("COMMIT"))]);
        let first = events(&[("a", false, Err("40001")), ("b", true, Ok("ROLLBACK"))]);
        let second = events(&[("a", false, Ok("UPDATE 1")), ("b", false, Err("40001"))]);
        let unknown = events(&[("a", false, Err("0A000")), ("b", true, Ok("ROLLBACK"))]);
        let verdict = |ours, postgres| compare(ours, postgres).verdict;
        assert_eq!(verdict(&commits, &commits), Verdict::BothCommit);
        assert_eq!(verdict(&first, &second), Verdict::BothAbort);
        assert_eq!(verdict(&second, &commits), Verdict::OnlyOursAborts);
        assert_eq!(verdict(&commits, &first), Verdict::OnlyPostgresAborts);
        assert_eq!(verdict(&unknown, &first), Verdict::Unsupported);
        assert_eq!(verdict(&unknown, &unknown), Verdict::BothAbort);
        assert_eq!(compare(&first, &second).waits.as_deref(), Some("b"));
        let refused = |ours, postgres| compare(ours, postgres).refused;
        assert_eq!(refused(&first, &second), None);
        assert_eq!(refused(&second, &commits).as_deref(), Some("b: 40001 no"));
        assert_eq!(refused(&commits, &first).as_deref(), Some("a: 40001 no"));
        assert_eq!(
            refused(&unknown, &first).as_deref(),
            Some("step a: 0A000 no")
        );
        let mut row = Row::default();
        row.add(&compare(&unknown, &first));
        assert!(!row.is_played());
        row.add(&compare(&commits, &commits));
        assert!(row.is_played());
        assert!(!row.is_bad());
        row.add(&compare(&commits, &second));
        assert!(row.is_bad());
        assert_eq!(
            row.to_string(),
            "      1      0      0      1      1      0      1      0"
        );
    }

    #[test]
    fn other_rows_are_named_where_nothing_is_refused() {
        let one = events(&[("a", false, Ok("1"))]);
        let other = events(&[("a", false, Ok("2"))]);
        let mut row = Row::default();
        row.add(&compare(&one, &other));
        assert!(row.is_bad());
        assert_eq!(compare(&one, &other).answers.as_deref(), Some("a"));
        assert_eq!(compare(&one, &one).answers, None);
    }
}
