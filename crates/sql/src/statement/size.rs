//! How much memory a text takes once it is tokens, a tree, and a plan.
//!
//! It is the number of its tokens that counts, not its length: a long string is one
//! token, and each `1,` of a long list is two.
//!
//! ```text
//!   insert into t values (1, 'a long text'), (2, 'another')
//!   1      1    1 1      111 1            11 111 1        1
//! ```
//!
//! Blanks between them are tokens too. The count may be too high, where a token has
//! several characters that could be tokens of their own; it is never too low by much.

/// What a token takes while a text is parsed, in bytes: itself, and its part of the tree.
/// Measured from outside, plan and all: 550 in rows of one number each, which take the
/// most; 410 in one long list, 330 in rows of three numbers, 220 if there are blanks.
pub(crate) const PARSED: u64 = 560;

/// What each byte of a text takes: in a token, and in the statement.
pub(crate) const KEPT: u64 = 2;

/// What a token takes while its statement is planned, in bytes: its part of the plan. The
/// tokens themselves are gone by then, which is a good deal of the above.
pub(crate) const PLANNED: u64 = 250;

/// About how many tokens a text has.
pub(crate) fn tokens(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut tokens) = (0, 0);
    while let Some(&first) = bytes.get(at) {
        tokens += 1;
        at += 1;
        let inside: fn(u8) -> bool = match first {
            b'\'' | b'"' => {
                let rest = &bytes[at..];
                let end = rest.iter().position(|&byte| byte == first);
                at += end.map_or(rest.len(), |end| end + 1);
                continue;
            }
            // A line's end is a token of its own.
            b' ' | b'\t' => |_| false,
            _ if is_word(first) => is_word,
            _ => |_| false,
        };
        at += bytes[at..].iter().take_while(|&&byte| inside(byte)).count();
    }
    tokens
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.') || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    #[test]
    fn the_count_is_about_the_tokenizers() {
        for text in [
            "insert into t values (1,'a long text'),(2,'another')",
            "select a, b, sum(c) from t where a = $1 and b between 3.5 and 7 group by 1, 2",
            "select 'it''s', \"A name\", E'\\n', x'ff', '{1,2,3}'::int[] from a.b",
            "with x as (select 1\n   -- a remark, with words\n) select * from x /* and (more) */",
            "",
        ] {
            let mut tokens = Vec::new();
            Tokenizer::new(&PostgreSqlDialect {}, text)
                .tokenize_with_location_into_buf(&mut tokens)
                .unwrap();
            let (counted, there) = (super::tokens(text), tokens.len());
            assert!(
                counted + counted / 10 >= there && counted <= 2 * there,
                "{counted} for {there} in {text}"
            );
        }
    }
}
