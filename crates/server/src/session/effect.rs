//! What a statement can have done when nobody knows any more: told from its first words,
//! without understanding it. Whatever is not certain counts as a commit that may have
//! happened.

/// What a statement, or several sent as one, does to what is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Begins a transaction.
    Begin,
    /// Commits the one that is open.
    Commit,
    /// Undoes it.
    Rollback,
    /// Changes nothing that could be committed.
    Nothing,
    /// Changes something, and commits it unless a transaction is open.
    Change,
    /// Several of them; whether a transaction may end on the way.
    Several { may_end: bool },
}

/// Longer texts are not looked through.
const LONGEST: usize = 16 << 10;

impl Effect {
    /// That of a text.
    pub(super) fn of(text: &[u8]) -> Self {
        let text = trim(text);
        let body = match text.iter().position(|&byte| byte == b';') {
            Some(at) if trim(&text[at + 1..]).is_empty() => &text[..at],
            Some(_) => {
                let may_end = text.len() > LONGEST || mentions_an_end(text);
                return Self::Several { may_end };
            }
            None => text,
        };
        let mut words = Words(body);
        match &*words.next_lower() {
            "begin" | "start" => Self::Begin,
            "commit" | "end" => Self::Commit,
            "rollback" | "abort" => match &*words.next_lower() {
                "to" => Self::Nothing,
                "work" | "transaction" if words.next_lower() == "to" => Self::Nothing,
                _ => Self::Rollback,
            },
            "" if trim(body).is_empty() => Self::Nothing,
            "select" | "show" | "values" | "table" | "set" | "reset" | "savepoint" | "release"
            | "deallocate" | "discard" => Self::Nothing,
            _ => Self::Change,
        }
    }
}

/// Without blanks and comments in front.
fn trim(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        if text.starts_with(b"--") {
            let end = text.iter().position(|&byte| byte == b'\n');
            text = &text[end.unwrap_or(text.len())..];
        } else if text.starts_with(b"/*") {
            let end = text.windows(2).position(|two| two == b"*/");
            text = end.map_or(&[][..], |end| &text[end + 2..]);
        } else {
            return text;
        }
    }
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
        ] {
            assert_eq!(Effect::of(text.as_bytes()), effect, "{text}");
        }
    }
}
