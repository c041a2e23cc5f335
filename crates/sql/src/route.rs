//! Routes: the node of a cluster that can execute a statement, and why.
//!
//! A client may be connected to a node that follows. A statement that only reads can run
//! there, on a snapshot of the follower's tables; everything else runs on the leader. The
//! route is a property of the bound statement, not of its first words: `SELECT` may lock
//! rows, or call a function whose result only the leader knows.
//!
//! ```text
//!   statement ──parsed──▶ is it a query, COPY TO, EXPLAIN?     no: leader
//!                │ bound
//!                ▼
//!      locks rows, writes, calls a function of the leader,    yes: leader
//!      reads a system table of the leader?                     no: any node
//! ```
//!
//! Invariant: a statement whose route is [`Route::Anywhere`] has no effect on the database
//! and none on its session that a later statement could see, so that the leader can execute
//! it again if the follower has not answered.

use crate::statement::{Command, Statement};

/// Where a statement can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// On any node that has a snapshot.
    Anywhere,
    /// On the leader only.
    Leader(Reason),
}

/// Why a statement runs on the leader only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It writes.
    Writes,
    /// It locks rows.
    LocksRows,
    /// It calls a function whose result only the leader knows, or that changes the session.
    Function,
    /// It calls a function that interrupts sessions, of which some are known to the nodes of
    /// their clients only: the leader asks for those first.
    Interrupts,
    /// It calls a function about the session's settings, which change on the leader; but for
    /// those of a READ ONLY block, which are where it is.
    Setting,
    /// It reads a system table about the process that leads.
    SystemTable,
    /// It is not a query: a transaction command, a setting, a prepared statement, a
    /// definition.
    Command,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::Writes,
        Self::LocksRows,
        Self::Function,
        Self::Interrupts,
        Self::Setting,
        Self::SystemTable,
        Self::Command,
    ];

    /// The reason's name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Writes => "write",
            Self::LocksRows => "row_lock",
            Self::Function => "function",
            Self::Interrupts => "interrupt",
            Self::Setting => "setting",
            Self::SystemTable => "system_table",
            Self::Command => "command",
        }
    }

    /// The reason in EXPLAIN: a sentence about the statement.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Writes => "it writes",
            Self::LocksRows => "it locks rows",
            Self::Function => "it calls a function that is executed there only",
            Self::Interrupts => "it calls a function that interrupts sessions",
            Self::Setting => "it calls a function about settings",
            Self::SystemTable => "it reads a system table that describes it",
            Self::Command => "it is not a query",
        }
    }
}

impl Route {
    /// The stronger of two routes: the leader, where either says so, and for a reason that
    /// holds in every block. [`Reason::Interrupts`] is not lost beside another one, because the
    /// leader has something to do for it before the statement runs.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Anywhere, _)
            | (Self::Leader(Reason::Setting), Self::Leader(_))
            | (Self::Leader(_), Self::Leader(Reason::Interrupts)) => other,
            (Self::Leader(_), _) => self,
        }
    }
}

impl Statement {
    /// The statement's route as far as it follows from its syntax. A query, COPY TO or
    /// EXPLAIN may turn out to need the leader once it is bound.
    #[must_use]
    pub fn route(&self) -> Route {
        match self.command() {
            Command::Query(_) if self.command().may_write() => Route::Leader(Reason::Writes),
            Command::Empty | Command::Query(_) => Route::Anywhere,
            Command::Planned { writes: false, .. } => Route::Anywhere,
            Command::Planned { writes: true, .. } => Route::Leader(Reason::Writes),
            Command::Copy(copy) if !copy.from => Route::Anywhere,
            Command::Copy(_) | Command::Insert(_) | Command::Update(_) | Command::Delete(_) => {
                Route::Leader(Reason::Writes)
            }
            Command::Explain(explain) => match explain.statement.command() {
                // What it explains is part of the session.
                Command::Execute { .. } => Route::Leader(Reason::Command),
                _ if explain.options.analyze => explain.statement.route(),
                _ => Route::Anywhere,
            },
            _ => Route::Leader(Reason::Command),
        }
    }
}

/// First words of the statements that may run anywhere.
const READS: [&str; 6] = ["select", "with", "values", "table", "copy", "explain"];
/// First words of the statements that begin a transaction block.
const BEGINS: [&str; 2] = ["begin", "start"];
/// First words of the statements that end one.
const ENDS: [&str; 4] = ["commit", "end", "rollback", "abort"];
/// First words of the other statements that a session of a follower may execute in a block
/// that may write.
const IN_BLOCKS: [&str; 2] = ["set", "show"];

/// The first word of a text; empty for a comment, a parenthesis, or nothing.
fn first_word(text: &str) -> &str {
    let text = text.trim_ascii_start();
    let end = text.find(|c: char| !c.is_ascii_alphabetic());
    &text[..end.unwrap_or(text.len())]
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|one| one.eq_ignore_ascii_case(word))
}

/// Whether a text may be of statements that can run anywhere, by its first word: a cheap
/// look that spares parsing what the leader will parse. False only where it is certain.
#[must_use]
pub fn may_read(text: &str) -> bool {
    let word = first_word(text);
    word.is_empty() || is_one_of(word, &READS)
}

/// Whether a text begins a transaction block, by its first word.
#[must_use]
pub fn may_begin(text: &str) -> bool {
    is_one_of(first_word(text), &BEGINS)
}

/// As [`may_read`], for a session in a transaction block.
#[must_use]
pub fn may_run_in_block(text: &str) -> bool {
    let word = first_word(text);
    let in_block = [&BEGINS[..], &ENDS, &IN_BLOCKS];
    may_read(text) || in_block.iter().any(|words| is_one_of(word, words))
}

/// Whether a text is one statement that begins or ends a transaction block, and so reads
/// nothing of the database. True only where it is certain.
#[must_use]
pub fn only_controls(text: &str) -> bool {
    let word = first_word(text);
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(';').unwrap_or(text);
    (is_one_of(word, &BEGINS) || is_one_of(word, &ENDS)) && !text.contains(';') && {
        // ROLLBACK TO SAVEPOINT.
        let mut words = text.split_ascii_whitespace();
        !words.any(|word| word.eq_ignore_ascii_case("to"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::MemoryBudget;

    fn route(text: &str) -> Route {
        let statements = crate::statement::parse(text, &MemoryBudget::default()).unwrap();
        assert_eq!(statements.len(), 1, "{text}");
        statements[0].route()
    }

    #[test]
    fn syntax_decides_what_it_can() {
        for text in [
            "select 1",
            "values (1)",
            "table t",
            "with a as (select 1) select * from a",
            "(select 1)",
            "copy t to stdout",
            "copy (select 1) to stdout",
            "explain select 1",
            "explain insert into t values (1)",
            "explain analyze select 1",
        ] {
            assert_eq!(route(text), Route::Anywhere, "{text}");
            assert!(may_read(text), "{text}");
        }
        for (text, reason) in [
            ("insert into t values (1)", Reason::Writes),
            ("update t set a = 1", Reason::Writes),
            ("delete from t", Reason::Writes),
            ("copy t from stdin", Reason::Writes),
            ("explain analyze delete from t", Reason::Writes),
            ("explain execute a", Reason::Command),
            ("explain analyze execute a", Reason::Command),
            ("execute a", Reason::Command),
            ("prepare a as select 1", Reason::Command),
            ("deallocate a", Reason::Command),
            ("set work_mem = '1MB'", Reason::Command),
            ("show work_mem", Reason::Command),
            ("begin", Reason::Command),
            ("commit", Reason::Command),
            ("savepoint a", Reason::Command),
            ("create table t (a int)", Reason::Command),
            ("truncate t", Reason::Command),
            ("lock table t", Reason::Command),
            ("grant select on t to a", Reason::Command),
            ("set role a", Reason::Command),
            ("checkpoint", Reason::Command),
            ("vacuum", Reason::Command),
        ] {
            assert_eq!(route(text), Route::Leader(reason), "{text}");
        }
    }

    #[test]
    fn the_first_word_spares_parsing_only_where_it_is_certain() {
        for text in [
            "insert into t values (1)",
            " UPDATE t",
            "commit",
            "SET a = 1",
        ] {
            assert!(!may_read(text), "{text}");
        }
        for text in [
            "-- insert\nselect 1",
            "/* x */ select 1",
            "",
            "SELECT 1",
            ";;",
        ] {
            assert!(may_read(text), "{text}");
        }
    }

    #[test]
    fn first_words_say_what_a_block_is_asked() {
        for text in ["begin", " START transaction", "Begin; select 1"] {
            assert!(may_begin(text) && !may_read(text), "{text}");
        }
        for text in ["select 1", "commit", "", "beginning"] {
            assert!(!may_begin(text), "{text}");
        }
        for text in ["select 1", "commit", "SET TRANSACTION READ ONLY", "abort"] {
            assert!(may_run_in_block(text), "{text}");
        }
        for text in ["insert into t values (1)", "savepoint a", "execute a"] {
            assert!(!may_run_in_block(text), "{text}");
        }
        for text in ["begin", "COMMIT and chain ;", "rollback work"] {
            assert!(only_controls(text), "{text}");
        }
        for text in [
            "begin; select 1",
            "rollback to a",
            "savepoint a",
            "set a = 1",
            "/* */ commit",
        ] {
            assert!(!only_controls(text), "{text}");
        }
    }

    #[test]
    fn reasons_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = Reason::ALL.map(Reason::name).into();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
