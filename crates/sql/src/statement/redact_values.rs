//! Redaction of values: a statement's text without its literals, for logs.
//!
//! ```text
//!   select * from t where name = 'Ada' and n > 10 -- mine
//!   select * from t where name = ? and n > ? -- mine
//! ```
//!
//! The text may be anything that a client has sent, valid or not; an unterminated literal
//! extends to the end of the text. Comments stay: they often tell where a statement comes
//! from.

/// Replaces each number and each string by a question mark. Truncates the result to
/// `most` bytes, and then appends the number of bytes left out.
#[must_use]
pub fn redact_values(text: &str, most: usize) -> String {
    let mut redacted = String::with_capacity(text.len().min(most) + 32);
    let mut rest = text;
    // Whether the next character continues a word, so that a digit there is not a
    // literal.
    let mut in_word = false;
    while let Some(first) = rest.chars().next() {
        if redacted.len() > most {
            redacted.truncate(redacted.floor_char_boundary(most));
            redacted.push_str(&format!("… ({} more bytes)", rest.len()));
            break;
        }
        let escapes = in_word && matches!(redacted.as_bytes().last(), Some(b'e' | b'E'));
        let (length, is_value) = match first {
            '\'' => (quoted(rest, '\'', escapes), true),
            '"' => (quoted(rest, '"', false), false),
            '$' if !in_word => match dollar_quoted(rest) {
                Some(length) => (length, true),
                // A parameter stays, because its number contains no value.
                None => (1 + run(&rest[1..], |c| c.is_ascii_digit()), false),
            },
            '-' if rest.starts_with("--") => (run(rest, |c| c != '\n'), false),
            '/' if rest.starts_with("/*") => (block_comment(rest), false),
            '0'..='9' if !in_word => (run(rest, |c| is_word(c) || c == '.'), true),
            other => (other.len_utf8(), false),
        };
        let (token, behind) = rest.split_at(length);
        if is_value {
            redacted.push('?');
        } else {
            redacted.push_str(token);
        }
        in_word = !is_value && token.chars().next_back().is_some_and(is_word);
        rest = behind;
    }
    redacted
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Length in bytes of the leading characters for which `inside` holds.
fn run(text: &str, inside: impl Fn(char) -> bool) -> usize {
    text.find(|c| !inside(c)).unwrap_or(text.len())
}

/// Length in bytes of the quoted text at the front; a doubled quote does not end it.
fn quoted(text: &str, quote: char, escapes: bool) -> usize {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((place, character)) = characters.next() {
        if character == '\\' && escapes {
            characters.next();
        } else if character == quote && characters.next_if(|(_, c)| *c == quote).is_none() {
            return place + 1;
        }
    }
    text.len()
}

/// Length in bytes of the dollar-quoted string at the front, if the text begins with one.
fn dollar_quoted(text: &str) -> Option<usize> {
    let tag = 1 + run(&text[1..], is_word);
    let is_tag =
        text[tag..].starts_with('$') && !text[1..].starts_with(|c: char| c.is_ascii_digit());
    let mark = is_tag.then(|| &text[..=tag])?;
    let body = &text[mark.len()..];
    Some(match body.find(mark) {
        Some(end) => end + 2 * mark.len(),
        None => text.len(),
    })
}

/// Length in bytes of the comment at the front; comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_redacted(text: &str, expected: &str) {
        assert_eq!(redact_values(text, 1000), expected);
    }

    #[test]
    fn values_go_and_everything_else_stays() {
        assert_redacted(
            "SELECT a1, \"b 2\" FROM t3 WHERE c = 'it''s' AND d IN (1, -2.5e3, $4)",
            "SELECT a1, \"b 2\" FROM t3 WHERE c = ? AND d IN (?, -?, $4)",
        );
        assert_redacted(
            "alter role ada password $$se'cret$$ -- 'x' 1\n;",
            "alter role ada password ? -- 'x' 1\n;",
        );
        assert_redacted(
            "select E'\\'1' || $x$ $$ $x$ /* 1 /* */ 2 */ + 3",
            "select E? || ? /* 1 /* */ 2 */ + ?",
        );
        assert_redacted("update ä1 set ö = 'é'", "update ä1 set ö = ?");
    }

    #[test]
    fn what_is_not_closed_is_a_value_to_its_end() {
        assert_redacted("insert into t values ('sec ret", "insert into t values (?");
        assert_redacted("select $a$ secret", "select ?");
        assert_redacted("select \"secret", "select \"secret");
        assert_redacted("select /* /* */", "select /* /* */");
        assert_redacted("$", "$");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = format!("select {}", "ä".repeat(100));
        let cut = redact_values(&text, 50);
        assert!(cut.starts_with("select ää"), "{cut}");
        assert!(cut.ends_with("more bytes)"), "{cut}");
        assert!(cut.len() < 90, "{cut}");
        let values = format!("select {}", "1,".repeat(100));
        assert_eq!(redact_values(&values, 1000), values.replace('1', "?"));
    }
}
