//! The parser: recursive descent over the tokens, one function for each rule of the grammar
//! that has a name there. A rule that cannot be told from another by its next two tokens is
//! read once, in the form that both share ([`Parser::inside`]).

mod alter;
mod call;
mod change;
mod cursor;
mod define;
mod drop;
mod expr;
mod from;
mod grant;
mod index;
mod name;
mod object;
mod primary;
mod role;
mod routine;
mod select;
mod setting;
mod special;
mod statement;
mod table;
mod trigger;
mod types;
mod utility;
mod xml;

use crate::Limits;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword;
use crate::lexer::token::{Token, TokenKind};
use crate::lexer::{self, too_deep};
use crate::tree::{Expr, Statement, TypeName};

/// Stack that one level of nesting may take, with a margin.
const RED_ZONE: usize = 128 << 10;
/// Stack asked for when less than [`RED_ZONE`] is left.
const MORE_STACK: usize = 2 << 20;

pub(crate) fn statements(text: &str, limits: &Limits) -> Parsed<Vec<Statement>> {
    let mut parser = Parser::new(text, limits)?;
    let mut statements = Vec::new();
    while let Some(statement) = parser.next_statement()? {
        statements.push(statement);
    }
    Ok(statements)
}

pub(crate) fn expression(text: &str, limits: &Limits) -> Parsed<Expr> {
    whole(text, limits, |parser| parser.expr())
}

pub(crate) fn type_name(text: &str, limits: &Limits) -> Parsed<TypeName> {
    whole(text, limits, |parser| parser.type_name())
}

/// A text that is this rule from its first token to its last.
fn whole<T>(
    text: &str,
    limits: &Limits,
    rule: impl FnOnce(&mut Parser<'_>) -> Parsed<T>,
) -> Parsed<T> {
    let mut parser = Parser::new(text, limits)?;
    let value = rule(&mut parser)?;
    match parser.kind() {
        TokenKind::End => Ok(value),
        _ => Err(parser.error()),
    }
}

/// The statements of a text, parsed one by one. Ends behind the first error.
pub struct Statements<'text> {
    parser: Parser<'text>,
    failed: bool,
    /// The first token of the statement parsed last.
    first: usize,
}

impl<'text> Statements<'text> {
    pub(crate) fn new(text: &'text str, limits: &'text Limits) -> Parsed<Self> {
        Ok(Self {
            parser: Parser::new(text, limits)?,
            failed: false,
            first: 0,
        })
    }

    /// Number of tokens of the statement parsed last.
    pub fn tokens(&self) -> usize {
        self.parser.at - self.first
    }

    /// Takes a statement that consists of exactly these words, of a server that has more
    /// statements than the grammar. Returns its first byte, and the byte behind its last.
    pub fn take_words(&mut self, words: &[&str]) -> Option<(u32, u32)> {
        let parser = &mut self.parser;
        while parser.eat_kind(TokenKind::Semicolon) {}
        let is_word = |(ahead, word): (usize, &&str)| {
            let token = parser.peek(ahead);
            matches!(token.kind, TokenKind::Name | TokenKind::Keyword)
                && token.text(parser.text).eq_ignore_ascii_case(word)
        };
        let end = parser.peek(words.len()).kind;
        let found = words.iter().enumerate().all(is_word)
            && matches!(end, TokenKind::Semicolon | TokenKind::End);
        if !found || words.is_empty() {
            return None;
        }
        self.first = parser.at;
        let at = parser.pos();
        parser.at += words.len();
        Some((at, parser.tokens[parser.at - 1].end))
    }
}

impl Iterator for Statements<'_> {
    type Item = Result<Statement, SyntaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        while self.parser.eat_kind(TokenKind::Semicolon) {}
        self.first = self.parser.at;
        let statement = self.parser.next_statement();
        self.failed = statement.is_err();
        statement.map_err(|error| *error).transpose()
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// Levels of nesting around the current token.
    depth: u32,
    /// Height of the highest expression read since this was last set to 0.
    height: u32,
    /// A run of opening brackets, from its first to the token behind it.
    opens: (usize, usize),
    limits: &'a Limits,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, limits: &'a Limits) -> Parsed<Self> {
        Ok(Self {
            text,
            tokens: lexer::tokens(text, limits)?,
            at: 0,
            depth: 0,
            height: 0,
            opens: (0, 0),
            limits,
        })
    }
}

impl Parser<'_> {
    /// The next statement; none at the end of the text. Empty ones are skipped.
    fn next_statement(&mut self) -> Parsed<Option<Statement>> {
        while self.eat_kind(TokenKind::Semicolon) {}
        if self.kind() == TokenKind::End {
            return Ok(None);
        }
        let at = self.pos();
        let kind = self.statement()?;
        if !matches!(self.kind(), TokenKind::Semicolon | TokenKind::End) {
            return Err(self.error());
        }
        Ok(Some(Statement {
            at,
            end: self.tokens[self.at - 1].end,
            kind,
        }))
    }

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn peek(&self, ahead: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + ahead).min(last)]
    }

    fn kind(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    fn keyword(&self) -> Keyword {
        self.tokens[self.at].keyword
    }

    fn pos(&self) -> u32 {
        self.tokens[self.at].start
    }

    fn token_text(&self) -> &str {
        self.token().text(self.text)
    }

    /// Goes on to the next token. The end of the text is its own next token.
    fn bump(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn is(&self, keyword: Keyword) -> bool {
        self.keyword() == keyword
    }

    fn is_at(&self, ahead: usize, keyword: Keyword) -> bool {
        self.peek(ahead).keyword == keyword
    }

    fn is_kind_at(&self, ahead: usize, kind: TokenKind) -> bool {
        self.peek(ahead).kind == kind
    }

    fn any(&self, keywords: &[Keyword]) -> bool {
        keywords.contains(&self.keyword()) && self.kind() == TokenKind::Keyword
    }

    /// Whether the next tokens are these keywords.
    fn are(&self, keywords: &[Keyword]) -> bool {
        let mut ahead = 0;
        keywords.iter().all(|keyword| {
            ahead += 1;
            self.is_at(ahead - 1, *keyword)
        })
    }

    fn eat(&mut self, keyword: Keyword) -> bool {
        let found = self.is(keyword);
        if found {
            self.bump();
        }
        found
    }

    /// Takes these keywords if they are all there.
    fn eat_all(&mut self, keywords: &[Keyword]) -> bool {
        let found = self.are(keywords);
        if found {
            self.at += keywords.len();
        }
        found
    }

    fn expect(&mut self, keyword: Keyword) -> Parsed<()> {
        if self.eat(keyword) {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    fn expect_all(&mut self, keywords: &[Keyword]) -> Parsed<()> {
        keywords
            .iter()
            .try_for_each(|keyword| self.expect(*keyword))
    }

    fn eat_kind(&mut self, kind: TokenKind) -> bool {
        let found = self.kind() == kind;
        if found {
            self.bump();
        }
        found
    }

    fn expect_kind(&mut self, kind: TokenKind) -> Parsed<()> {
        if self.eat_kind(kind) {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    /// The grammar's own error: the current token is not what it could go on with.
    fn error(&self) -> Box<SyntaxError> {
        self.error_at(self.token(), "syntax error")
    }

    fn error_at(&self, token: Token, message: &str) -> Box<SyntaxError> {
        let message = if token.kind == TokenKind::End {
            format!("{message} at end of input")
        } else {
            format!("{message} at or near \"{}\"", token.text(self.text))
        };
        SyntaxError::new(Fault::Syntax, message, token.start)
    }

    /// A list with commas, of one item at least.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_kind(TokenKind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn in_brackets<T>(&mut self, inside: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.expect_kind(TokenKind::Open)?;
        let value = inside(self)?;
        self.expect_kind(TokenKind::Close)?;
        Ok(value)
    }

    fn bracketed_list<T>(&mut self, item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.in_brackets(|parser| parser.list(item))
    }

    /// One level deeper: counts it, and makes sure that there is stack for it.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= self.limits.depth {
            return Err(too_deep(self.pos()));
        }
        self.depth += 1;
        let result = stacker::maybe_grow(RED_ZONE, MORE_STACK, || inner(self));
        self.depth -= 1;
        result
    }
}
