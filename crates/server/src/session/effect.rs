//! Classification of statements by their effect on committed data, from their first
//! words, without parsing. A relay needs it when the leader is lost: a statement that it
//! cannot classify counts as a commit that may have happened.
//!
//! Of several statements sent as one, the effects of each make that of all: some that only
//! read only read.

use coeval_sql::texts;

/// The effect of a statement, or of several sent as one, on committed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Begins a transaction.
    Begin,
    /// Commits the open transaction.
    Commit,
    /// Rolls the open transaction back.
    Rollback,
    /// Changes no data that could be committed.
    Nothing,
    /// Changes data, and commits the change unless a transaction is open.
    Change,
    /// Several statements.
    Several(Several),
}

/// What one of several statements may do, in whatever order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Several {
    /// Change data.
    pub(super) changes: bool,
    /// Begin a transaction.
    pub(super) begins: bool,
    /// Commit the open transaction.
    pub(super) commits: bool,
    /// Commit the open transaction, or roll it back.
    pub(super) ends: bool,
}

/// Maximum length of a searched text, in bytes; a longer one may have any effect.
const LONGEST: usize = 16 << 10;

/// Statements that change data, and leave an open transaction open.
const CHANGES: [&str; 18] = [
    "alter", "analyze", "comment", "create", "delete", "drop", "execute", "grant", "insert",
    "listen", "lock", "merge", "notify", "revoke", "truncate", "unlisten", "update", "vacuum",
];

/// Words of which a statement has one that reads by its first word, and writes. A table may be
/// called so, and then the statement is taken for one that writes.
const WRITES: [&str; 7] = [
    "create", "delete", "execute", "insert", "into", "merge", "update",
];

impl Effect {
    /// The effect of a statement that is not known.
    pub(super) const UNKNOWN: Self = Self::Several(Several {
        changes: true,
        begins: true,
        commits: true,
        ends: true,
    });

    /// The effect of a query string.
    pub(super) fn of(text: &[u8]) -> Self {
        let text = trim(text);
        match text.iter().position(|&byte| byte == b';') {
            Some(at) if trim(&text[at + 1..]).is_empty() => Self::of_one(&text[..at]),
            Some(_) => Self::of_several(text).unwrap_or(Self::UNKNOWN),
            None => Self::of_one(text),
        }
    }

    fn of_several(text: &[u8]) -> Option<Self> {
        let text = searchable(text)?;
        let each = texts::statements(text)?.into_iter();
        let each = each.map(|text| Self::of_one(text.as_bytes()));
        Some(each.fold(Self::Nothing, Self::and))
    }

    /// The effect of a single statement, as prepared ones are; the text of one that
    /// PREPARE has prepared may be the text of PREPARE itself.
    pub(super) fn of_one(text: &[u8]) -> Self {
        let text = trim(text);
        let mut words = Words(text);
        match &*words.next_lower() {
            "begin" | "start" => Self::Begin,
            "commit" | "end" => Self::Commit,
            "rollback" | "abort" => match &*words.next_lower() {
                "to" => Self::Nothing,
                "work" | "transaction" if words.next_lower() == "to" => Self::Nothing,
                _ => Self::Rollback,
            },
            "prepare" if words.next_lower() != "transaction" => Self::of_prepared(text),
            "select" | "values" | "table"
                if may_change_the_cluster(text) || mentions(text, &["into"]) =>
            {
                Self::Change
            }
            "select" | "show" | "values" | "table" | "set" | "reset" | "savepoint" | "release"
            | "deallocate" | "discard" | "close" | "fetch" | "move" => Self::Nothing,
            "with" | "declare" => Self::unless_it_writes(text),
            "explain" if !mentions(text, &["analyze", "analyse"]) => Self::Nothing,
            "explain" => Self::unless_it_writes(text),
            "copy" if trim(words.0).starts_with(b"(") => Self::unless_it_writes(text),
            "copy" if mentions(text, &["from"]) => Self::Change,
            "copy" => Self::Nothing,
            "" if matches!(text, [] | [b';', ..]) => Self::Nothing,
            "" if text.starts_with(b"(") => Self::unless_it_writes(text),
            change if CHANGES.contains(&change) => Self::Change,
            _ => Self::UNKNOWN,
        }
    }

    /// The effect of PREPARE, which is none, and of what it prepares.
    fn of_prepared(text: &[u8]) -> Self {
        let own = searchable(text).and_then(texts::prepared_by);
        match own.map(str::as_bytes) {
            Some(own) if Words(own).next_lower() != "prepare" => Self::of_one(own),
            Some(_) | None => Self::Change,
        }
    }

    fn unless_it_writes(text: &[u8]) -> Self {
        match mentions(text, &WRITES) || may_change_the_cluster(text) {
            true => Self::Change,
            false => Self::Nothing,
        }
    }

    /// The effect of both.
    fn and(self, other: Self) -> Self {
        let (one, other) = (self.parts(), other.parts());
        let both = Several {
            changes: one.changes || other.changes,
            begins: one.begins || other.begins,
            commits: one.commits || other.commits,
            ends: one.ends || other.ends,
        };
        match both == Several::default() {
            true => Self::Nothing,
            false => Self::Several(both),
        }
    }

    fn parts(self) -> Several {
        let nothing = Several::default();
        match self {
            Self::Nothing => nothing,
            Self::Begin => Several {
                begins: true,
                ..nothing
            },
            Self::Commit => Several {
                commits: true,
                ends: true,
                ..nothing
            },
            Self::Rollback => Several {
                ends: true,
                ..nothing
            },
            Self::Change => Several {
                changes: true,
                ..nothing
            },
            Self::Several(several) => several,
        }
    }
}

/// The name of the prepared statement that a query string executes, if that is all it does.
pub(super) fn executed(text: &[u8]) -> Option<String> {
    let text = trim(text);
    let executes = Words(text).next_lower() == "execute";
    let text = searchable(text).filter(|_| executes)?;
    let is_one = texts::statements(text)?.len() == 1;
    texts::executed_by(text).filter(|_| is_one)
}

/// A text that is short enough to be searched.
fn searchable(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    (text.len() <= LONGEST).then_some(text)
}

/// The text without leading blanks and comments; an unterminated block comment stays.
fn trim(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        if text.starts_with(b"--") {
            let end = text.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            text = &text[end.unwrap_or(text.len())..];
        } else if let Some(end) = block_comment(text) {
            text = &text[end..];
        } else {
            return text;
        }
    }
}

/// Offset of the end of a block comment at the beginning; block comments nest.
fn block_comment(text: &[u8]) -> Option<usize> {
    if !text.starts_with(b"/*") {
        return None;
    }
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(two) = text.get(at..at + 2) {
        match two {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" if depth == 1 => return Some(at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    None
}

/// Whether a query may call a function that changes the cluster, which no rollback
/// undoes.
fn may_change_the_cluster(text: &[u8]) -> bool {
    let name = b"cluster_";
    let mut windows = text.windows(name.len());
    text.len() > LONGEST || windows.any(|window| window.eq_ignore_ascii_case(name))
}

/// Whether the text has one of these words, or may have it.
fn mentions(text: &[u8], which: &[&str]) -> bool {
    let mut words = text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let is_one = |word: &[u8]| {
        let mut which = which.iter();
        which.any(|one| word.eq_ignore_ascii_case(one.as_bytes()))
    };
    text.len() > LONGEST || words.any(is_one)
}

struct Words<'text>(&'text [u8]);

impl Words<'_> {
    fn next_lower(&mut self) -> String {
        let rest = trim(self.0);
        let end = rest.iter().position(|byte| !byte.is_ascii_alphabetic());
        let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.0 = rest;
        String::from_utf8_lossy(word).to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_certain_counts_as_a_commit() {
        for (text, effect) in [
            ("select 1", Effect::Nothing),
            ("  SELECT 1 ; ", Effect::Nothing),
            ("-- x\n/* y */ show all", Effect::Nothing),
            ("", Effect::Nothing),
            (";", Effect::Nothing),
            ("begin", Effect::Begin),
            ("START TRANSACTION", Effect::Begin),
            ("commit;", Effect::Commit),
            ("END", Effect::Commit),
            ("rollback", Effect::Rollback),
            ("rollback to savepoint a", Effect::Nothing),
            ("rollback transaction to a", Effect::Nothing),
            ("rollback work", Effect::Rollback),
            ("insert into t values (1)", Effect::Change),
            ("with x as (select 1) select 1", Effect::Nothing),
            (
                "with x as (insert into t values (1)) select 1",
                Effect::Change,
            ),
            ("(select 1)", Effect::Nothing),
            ("(select coeval.cluster_remove(3))", Effect::Change),
            ("execute x", Effect::Change),
            ("explain insert into t values (1)", Effect::Nothing),
            ("explain analyze select 1", Effect::Nothing),
            ("explain (analyze) insert into t values (1)", Effect::Change),
            ("explain analyze execute x", Effect::Change),
            ("copy t to stdout", Effect::Nothing),
            ("copy (select a from t) to stdout", Effect::Nothing),
            ("copy t from stdin", Effect::Change),
            ("fetch c", Effect::Nothing),
            ("declare c cursor for select 1", Effect::Nothing),
            (
                "declare c cursor for select 1 from t for update",
                Effect::Change,
            ),
            ("select ';end'", Effect::Nothing),
            ("/* /* */ select */ commit", Effect::Commit),
            ("/* select */ /* commit", Effect::UNKNOWN),
            ("-- select\rcommit", Effect::Commit),
            ("\u{b}commit", Effect::UNKNOWN),
            ("something new", Effect::UNKNOWN),
            ("prepare x as select 1", Effect::Nothing),
            ("prepare x (int) as delete from t", Effect::Change),
            ("prepare x as prepare y as select 1", Effect::Change),
            ("prepare transaction 'x'", Effect::UNKNOWN),
            ("select coeval.Cluster_remove(3)", Effect::Change),
            ("select 1 into u", Effect::Change),
        ] {
            assert_eq!(Effect::of(text.as_bytes()), effect, "{text}");
        }
    }

    /// What several statements may do: change, begin, commit, end.
    fn several(text: &str) -> String {
        match Effect::of(text.as_bytes()) {
            Effect::Several(several) => {
                let all = [
                    (several.changes, 'c'),
                    (several.begins, 'b'),
                    (several.commits, 'k'),
                    (several.ends, 'e'),
                ];
                let mut all = all.into_iter().collect::<Vec<_>>();
                all.retain(|(is, _)| *is);
                all.into_iter().map(|(_, letter)| letter).collect()
            }
            Effect::Nothing => "-".to_owned(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn several_statements_do_what_each_does() {
        for (text, expected) in [
            ("select 1; select 2", "-"),
            ("select 1; -- commit; \nvalues (2); show all;", "-"),
            ("select ';'; table t; (select 1); copy t to stdout", "-"),
            ("begin; select 1; commit", "bke"),
            ("begin; select 1; rollback", "be"),
            ("insert into t values (1); commit", "cke"),
            ("select 1; insert into t values (1)", "c"),
            ("select 1; commit", "ke"),
            ("select 1; something new", "cbke"),
            // No statement of a text is executed that has what is no token.
            ("select 1; select 'open", "cbke"),
        ] {
            assert_eq!(several(text), expected, "{text}");
        }
        let long = format!("select 1; select '{}'", "x".repeat(LONGEST));
        assert_eq!(several(&long), "cbke");
    }

    #[test]
    fn a_query_that_only_executes_a_statement_names_it() {
        assert_eq!(executed(b" EXECUTE P (';', $1) ; ").as_deref(), Some("p"));
        for text in ["execute p; execute q", "select 1", "execute", ""] {
            assert_eq!(executed(text.as_bytes()), None, "{text}");
        }
    }
}
