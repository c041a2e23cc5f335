//! Texts as their tokens show them: what is known of statements that are not parsed. The node of
//! a client that relays its session looks at them so.
//!
//! ```text
//!   select ';'; commit                        two statements
//!   prepare p (int) as select $1              prepares "select $1"
//!   execute "P" (1)                           executes "P"
//! ```

use coeval_sql_syntax::Limits;
use coeval_sql_syntax::lexer::token::{Token, TokenKind};
use coeval_sql_syntax::lexer::tokens;

fn lexed(text: &str) -> Option<Vec<Token>> {
    tokens(text, &Limits::default()).ok()
}

/// The statements of a text, as semicolons separate them. `None` for a text of which something
/// is no token: nothing of it is executed.
#[must_use]
pub fn statements(text: &str) -> Option<Vec<&str>> {
    let tokens = lexed(text)?;
    let ends = |token: &Token| matches!(token.kind, TokenKind::Semicolon | TokenKind::End);
    let each = tokens.split(ends).filter_map(|tokens| {
        let (first, last) = (tokens.first()?, tokens.last()?);
        text.get(first.start as usize..last.end as usize)
    });
    Some(each.collect())
}

/// The text of the statement that a PREPARE of this text prepares.
#[must_use]
pub fn prepared_by(text: &str) -> Option<&str> {
    let tokens = lexed(text)?;
    let mut depth = 0_u32;
    // Behind the name and the types.
    let mut rest = tokens.iter().skip(2).skip_while(|token| {
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth = depth.saturating_sub(1),
            _ => return depth > 0,
        }
        true
    });
    let is_as = rest.next()?.text(text).eq_ignore_ascii_case("as");
    let first = rest.next().filter(|_| is_as)?;
    let own = text.get(first.start as usize..)?;
    (!own.is_empty()).then_some(own)
}

/// The name of the prepared statement that an EXECUTE of this text executes; `None` if the name
/// is written with escapes.
#[must_use]
pub fn executed_by(text: &str) -> Option<String> {
    let tokens = lexed(text)?;
    let name = tokens.get(1)?.text(text);
    match name.strip_prefix('"') {
        None => {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            let is_plain = !name.is_empty() && name.bytes().all(is_plain);
            is_plain.then(|| name.to_ascii_lowercase())
        }
        Some(quoted) => {
            let quoted = quoted.strip_suffix('"')?;
            (!quoted.contains('"')).then(|| quoted.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_separate_statements_where_they_are_tokens() {
        for (text, expected) in [
            ("", &[][..]),
            (" ; -- ;\n;", &[]),
            ("select 1", &["select 1"]),
            ("select ';'; commit ;", &["select ';'", "commit"]),
            (
                "select $a$;$a$, \"x;y\" /* ; */; -- ;\nselect e'\\';'",
                &["select $a$;$a$, \"x;y\"", "select e'\\';'"],
            ),
        ] {
            assert_eq!(statements(text).unwrap(), expected, "{text}");
        }
        assert_eq!(statements("select 'open; commit"), None);
    }

    #[test]
    fn what_is_prepared_and_executed_is_found() {
        for (text, expected) in [
            ("prepare p as select 1", Some("select 1")),
            (
                "PREPARE \"as\" (int, numeric(10, 2)) AS insert into t values ($1)",
                Some("insert into t values ($1)"),
            ),
            ("prepare p /* as x */ as -- y\nselect 1", Some("select 1")),
            ("prepare p as", None),
            ("prepare p", None),
            ("prepare p (int", None),
            ("prepare p is select 1", None),
            ("prepare", None),
        ] {
            assert_eq!(prepared_by(text), expected, "{text}");
        }
        for (text, expected) in [
            ("execute P1_x (1)", Some("p1_x")),
            ("execute \"P\"", Some("P")),
            ("execute \"a\"\"b\"", None),
            ("execute U&\"P\"", None),
            ("execute é", None),
            ("execute", None),
        ] {
            assert_eq!(executed_by(text).as_deref(), expected, "{text}");
        }
    }
}
