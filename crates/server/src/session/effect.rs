//! Classification of statements by their effect on committed data, from their first
//! words, without parsing. A relay needs it when the leader is lost: a statement that it
//! cannot classify counts as a commit that may have happened.

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
    /// Several statements; `may_end` says whether one of them may end a transaction.
    Several { may_end: bool },
}

/// Maximum length of a searched text, in bytes; a longer one may have any effect.
const LONGEST: usize = 16 << 10;

/// Statements that change data, and leave an open transaction open.
const CHANGES: [&str; 24] = [
    "alter", "analyze", "comment", "copy", "create", "declare", "delete", "drop", "execute",
    "explain", "fetch", "grant", "insert", "listen", "lock", "merge", "move", "notify", "revoke",
    "truncate", "unlisten", "update", "vacuum", "with",
];

impl Effect {
    /// The effect of a statement that is not known.
    pub(super) const UNKNOWN: Self = Self::Several { may_end: true };

    /// The effect of a query string.
    pub(super) fn of(text: &[u8]) -> Self {
        let text = trim(text);
        match text.iter().position(|&byte| byte == b';') {
            Some(at) if trim(&text[at + 1..]).is_empty() => Self::of_one(&text[..at]),
            Some(_) => Self::Several {
                may_end: text.len() > LONGEST || mentions_an_end(text),
            },
            None => Self::of_one(text),
        }
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
            "prepare" if words.next_lower() != "transaction" => Self::Change,
            "select" | "values" | "table" if may_change_the_cluster(text) => Self::Change,
            "select" | "show" | "values" | "table" | "set" | "reset" | "savepoint" | "release"
            | "deallocate" | "discard" | "close" => Self::Nothing,
            "" if matches!(text, [] | [b';', ..]) => Self::Nothing,
            "" if text.starts_with(b"(") => Self::Change,
            change if CHANGES.contains(&change) => Self::Change,
            _ => Self::UNKNOWN,
        }
    }
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

fn mentions_an_end(text: &[u8]) -> bool {
    let words = text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let mut ends = words.filter(|word| {
        [&b"commit"[..], b"end", b"rollback", b"abort", b"prepare"]
            .iter()
            .any(|end| word.eq_ignore_ascii_case(end))
    });
    ends.next().is_some()
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
            ("with x as (select 1) select 1", Effect::Change),
            ("(select 1)", Effect::Change),
            ("execute x", Effect::Change),
            ("select 1; select 2", Effect::Several { may_end: false }),
            (
                "insert into t values (1); commit",
                Effect::Several { may_end: true },
            ),
            ("select ';end'", Effect::Several { may_end: true }),
            ("/* /* */ select */ commit", Effect::Commit),
            ("/* select */ /* commit", Effect::UNKNOWN),
            ("-- select\rcommit", Effect::Commit),
            ("\u{b}commit", Effect::UNKNOWN),
            ("something new", Effect::UNKNOWN),
            ("prepare x as select 1", Effect::Change),
            ("prepare transaction 'x'", Effect::UNKNOWN),
            ("select coeval.Cluster_remove(3)", Effect::Change),
        ] {
            assert_eq!(Effect::of(text.as_bytes()), effect, "{text}");
        }
    }
}
