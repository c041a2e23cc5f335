//! Memory estimates for a text: the bytes of its tokens, its syntax tree and its plan.
//!
//! The estimate depends on the number of tokens, not on the text's length: a long string
//! is one token, and each `1,` of a long list is two.
//!
//! ```text
//!   insert into t values (1, 'a long text'), (2, 'another')
//!   1      1    1 1      111 1            11 111 1        1
//! ```
//!
//! The count may be too high, where a token contains several characters that could be tokens
//! of their own; it is never much too low.

/// Memory of a token while its text is parsed, in bytes: the token and its part of the
/// tree. An upper bound: this parser keeps less for a token.
pub(crate) const PARSED: u64 = 560;

/// Memory for each byte of a text, in bytes: in its token, and in the statement.
pub(crate) const KEPT: u64 = 2;

/// Memory of a token while its statement is planned, in bytes: its part of the plan. The
/// parser has dropped the tokens by then, which are a large part of [`PARSED`].
pub(crate) const PLANNED: u64 = 250;

/// Memory of a token's part of the tree, in bytes, where the allocator does not count.
pub(crate) const TREE: u64 = 200;

/// Approximate number of tokens of a text.
pub(crate) fn tokens(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut tokens) = (0, 0);
    while let Some(&first) = bytes.get(at) {
        at += 1;
        if first.is_ascii_whitespace() {
            continue;
        }
        tokens += 1;
        let inside: fn(u8) -> bool = match first {
            b'\'' | b'"' => {
                let rest = &bytes[at..];
                let end = rest.iter().position(|&byte| byte == first);
                at += end.map_or(rest.len(), |end| end + 1);
                continue;
            }
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
    use coeval_sql_syntax::Limits;

    #[test]
    fn the_count_is_about_the_lexers() {
        for text in [
            "insert into t values (1,'a long text'),(2,'another')",
            "select a, b, sum(c) from t where a = $1 and b between 3.5 and 7 group by 1, 2",
            "select 'it''s', \"A name\", E'\\n', x'ff', '{1,2,3}'::int[] from a.b",
            "with x as (select 1\n) select * from x where y in ('a', 'b') /* more */",
            "",
        ] {
            // The last token is the end of the text.
            let tokens = coeval_sql_syntax::lexer::tokens(text, &Limits::default()).unwrap();
            let (counted, there) = (super::tokens(text), tokens.len() - 1);
            assert!(
                counted + counted / 10 >= there && counted <= 2 * there,
                "{counted} for {there} in {text}"
            );
        }
    }
}
