//! Tokens: a kind and a range of the text. Values are read from the text when they are used.

use crate::keyword::Keyword;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// The end of the text. Always the last token.
    End,
    /// A name, bare or in double quotes, also with Unicode escapes.
    Name,
    /// A word that the grammar knows.
    Keyword,
    /// A whole number that fits in 31 bits.
    Integer,
    /// Any other number.
    Number,
    /// A string in any notation, with the parts that continue it.
    String,
    /// `b'0101'`.
    BitString,
    /// `x'1f'`.
    HexString,
    /// `$1`.
    Parameter,
    /// An operator that is no token of its own below.
    Operator,
    /// `(`
    Open,
    /// `)`
    Close,
    /// `[`
    OpenBracket,
    /// `]`
    CloseBracket,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// `:`
    Colon,
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// `::`
    Cast,
    /// `:=`
    ColonEquals,
    /// `=>`
    Arrow,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Star,
    /// `/`
    Slash,
    /// `%`
    Percent,
    /// `^`
    Caret,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `=`
    Equal,
    /// `<=`
    LessEquals,
    /// `>=`
    GreaterEquals,
    /// `<>` or `!=`
    NotEquals,
    /// A character that begins no token. The parser refuses it where it meets it.
    Other,
}

/// A token of the text.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Which keyword, if it is one.
    pub keyword: Keyword,
    /// Its first byte.
    pub start: u32,
    /// The byte after its last.
    pub end: u32,
}

impl Token {
    /// Its text.
    pub fn text<'a>(&self, text: &'a str) -> &'a str {
        &text[self.start as usize..self.end as usize]
    }
}
