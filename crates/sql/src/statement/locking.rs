//! Locking clauses: FOR UPDATE and its like, in PostgreSQL's grammar.
//!
//! The sqlparser library knows FOR UPDATE and FOR SHARE, each with at most one table. So
//! before it reads a statement, the tokens of every other clause are brought into a form that
//! it does know, and [`Locking::of`] reads that form:
//!
//! ```text
//!   for no key update of a, b nowait   →  for update of ·key·.a.b nowait
//!   for key share                      →  for share of ·key·
//!   for share of a, b                  →  for share of ·all·.a.b
//! ```
//!
//! The parts of the dotted name are the tables, since PostgreSQL refuses a schema here. The
//! first part is a word with a zero byte in it, which no client can send, so nothing is
//! mistaken for it.

use std::fmt;

use coeval_txn::{LockWait, RowLock};
use sqlparser::ast::{Ident, LockClause, LockType, NonBlock, ObjectNamePart};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::is_solid;
use crate::{Error, Result, SqlState};

/// First part of the name in a clause whose mode is the weaker one of its pair.
const KEY: &str = "\0key";

/// First part of the name in any other clause with several tables.
const ALL: &str = "\0all";

/// A locking clause.
#[derive(Debug)]
pub(crate) struct Locking<'a> {
    pub(crate) mode: RowLock,
    /// The tables after OF; all tables of the query if there are none.
    pub(crate) tables: Vec<&'a Ident>,
    pub(crate) wait: LockWait,
}

impl<'a> Locking<'a> {
    /// The clause that the library has read.
    pub(crate) fn of(clause: &'a LockClause) -> Self {
        let mut tables: Vec<&Ident> = clause
            .of
            .iter()
            .flat_map(|name| name.0.iter().filter_map(ObjectNamePart::as_ident))
            .collect();
        let first = tables.first().map(|ident| ident.value.as_str());
        let keeps_keys = first == Some(KEY);
        if keeps_keys || first == Some(ALL) {
            tables.remove(0);
        }
        Self {
            mode: match (&clause.lock_type, keeps_keys) {
                (LockType::Update, false) => RowLock::Update,
                (LockType::Update, true) => RowLock::NoKeyUpdate,
                (LockType::Share, false) => RowLock::Share,
                (LockType::Share, true) => RowLock::KeyShare,
            },
            tables,
            wait: match clause.nonblock {
                None => LockWait::Wait,
                Some(NonBlock::Nowait) => LockWait::NoWait,
                Some(NonBlock::SkipLocked) => LockWait::Skip,
            },
        }
    }
}

impl fmt::Display for Locking<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FOR {}", self.mode)
    }
}

fn keyword(tokens: &[TokenWithSpan], at: usize) -> Option<Keyword> {
    match &tokens.get(at)?.token {
        Token::Word(word) => Some(word.keyword),
        _ => None,
    }
}

/// The first token from `at` on that is not blank.
fn solid(tokens: &[TokenWithSpan], at: usize) -> usize {
    let blanks = tokens.iter().skip(at).take_while(|token| !is_solid(token));
    at + blanks.count()
}

/// Brings the locking clauses of a statement into the library's form, in one pass: a text may
/// have any number of them.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let is_for = |at: &usize| keyword(tokens, *at) == Some(Keyword::FOR);
    let Some(first) = (0..tokens.len()).find(is_for) else {
        return Ok(());
    };
    let mut from = std::mem::take(tokens);
    let rest = from.split_off(first);
    let mut out = from;
    let mut from = rest;
    let mut at = 0;
    while at < from.len() {
        let clause = match keyword(&from, at) {
            Some(Keyword::FOR) => clause(&mut from, at)?,
            _ => None,
        };
        match clause {
            Some(clause) => at = clause.write(&mut from, at, &mut out),
            None => {
                out.push(take(&mut from, at));
                at += 1;
            }
        }
    }
    *tokens = out;
    Ok(())
}

/// Takes a token out of its place, which is not looked at again.
fn take(tokens: &mut [TokenWithSpan], at: usize) -> TokenWithSpan {
    std::mem::replace(&mut tokens[at], TokenWithSpan::wrap(Token::EOF))
}

/// Where the parts of a locking clause are, whose word FOR has been found.
struct Clause {
    /// The first word of the mode.
    start: usize,
    /// The word UPDATE or SHARE.
    mode: usize,
    /// The word OF, if the clause has it.
    of: Option<usize>,
    /// The word that the library's form begins the list of tables with, if it needs one.
    marker: Option<&'static str>,
}

/// The clause that begins with the word FOR at this place, if it is one. Joins its tables.
fn clause(tokens: &mut [TokenWithSpan], at: usize) -> Result<Option<Clause>> {
    let start = solid(tokens, at + 1);
    let mut next = start;
    let no = keyword(tokens, next) == Some(Keyword::NO);
    if no {
        next = solid(tokens, next + 1);
    }
    let key = keyword(tokens, next) == Some(Keyword::KEY);
    if key {
        next = solid(tokens, next + 1);
    }
    let mode = match (no, key, keyword(tokens, next)) {
        (false, false, Some(Keyword::UPDATE)) => RowLock::Update,
        (true, true, Some(Keyword::UPDATE)) => RowLock::NoKeyUpdate,
        (false, false, Some(Keyword::SHARE)) => RowLock::Share,
        (false, true, Some(Keyword::SHARE)) => RowLock::KeyShare,
        _ => return Ok(None),
    };
    let of = solid(tokens, next + 1);
    let of = (keyword(tokens, of) == Some(Keyword::OF)).then_some(of);
    let several = match of {
        Some(of) => dot_tables(tokens, of, mode)?,
        None => false,
    };
    let marker = match (key, several) {
        (true, _) => Some(KEY),
        (false, true) => Some(ALL),
        (false, false) => None,
    };
    Ok(Some(Clause {
        start,
        mode: next,
        of,
        marker,
    }))
}

impl Clause {
    /// Appends the clause in the library's form, up to its list of tables. Returns the first
    /// token behind that.
    fn write(&self, from: &mut [TokenWithSpan], at: usize, out: &mut Vec<TokenWithSpan>) -> usize {
        let span = from[self.mode].span;
        let token = |token| TokenWithSpan { token, span };
        let word = |value: &str, keyword| {
            token(Token::Word(Word {
                value: value.to_owned(),
                quote_style: None,
                keyword,
            }))
        };
        out.extend((at..self.start).map(|at| take(from, at)));
        let end = self.of.unwrap_or(self.mode) + 1;
        out.extend((self.mode..end).map(|at| take(from, at)));
        if let Some(marker) = self.marker {
            let marker = word(marker, Keyword::NoKeyword);
            match self.of {
                Some(_) => out.extend([marker, token(Token::Period)]),
                None => out.extend([word("of", Keyword::OF), marker]),
            }
        }
        end
    }
}

/// Joins the tables after OF with dots; whether there are several.
fn dot_tables(tokens: &mut [TokenWithSpan], of: usize, mode: RowLock) -> Result<bool> {
    let mut several = false;
    let mut name = solid(tokens, of + 1);
    while let Some(Token::Word(_)) = tokens.get(name).map(|token| &token.token) {
        let comma = solid(tokens, name + 1);
        match tokens.get(comma).map(|token| &token.token) {
            Some(Token::Comma) => {
                tokens[comma].token = Token::Period;
                several = true;
                name = solid(tokens, comma + 1);
            }
            Some(Token::Period) => {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    format!("FOR {mode} must specify unqualified relation names"),
                ));
            }
            _ => break,
        }
    }
    Ok(several)
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;
    use sqlparser::tokenizer::Tokenizer;

    use super::*;

    /// The clauses of a query, as they were understood.
    fn clauses(sql: &str) -> Result<Vec<String>> {
        let dialect = PostgreSqlDialect {};
        let mut tokens = Tokenizer::new(&dialect, sql)
            .tokenize_with_location()
            .expect("tokens");
        rewrite(&mut tokens)?;
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
        let query = parser.parse_query().expect("a query");
        let clauses = query.locks.iter().map(|clause| {
            let locking = Locking::of(clause);
            let tables: Vec<&str> = locking.tables.iter().map(|ident| &*ident.value).collect();
            format!("{locking} {tables:?} {:?}", locking.wait)
        });
        Ok(clauses.collect())
    }

    #[test]
    fn every_clause_of_postgresql_is_understood() {
        for (sql, understood) in [
            ("select 1 from a for update", "FOR UPDATE [] Wait"),
            ("select 1 from a for share of a", "FOR SHARE [\"a\"] Wait"),
            (
                "select 1 from a for no key update",
                "FOR NO KEY UPDATE [] Wait",
            ),
            (
                "select 1 from a for key share skip locked",
                "FOR KEY SHARE [] Skip",
            ),
            (
                "select 1 from a, b FOR /* all */ NO KEY\nUPDATE OF a , \"B\" NOWAIT",
                "FOR NO KEY UPDATE [\"a\", \"B\"] NoWait",
            ),
            (
                "select 1 from a, b for update of a, b",
                "FOR UPDATE [\"a\", \"b\"] Wait",
            ),
        ] {
            assert_eq!(clauses(sql).expect("sound"), [understood], "{sql}");
        }
        let several = clauses("select 1 from a, b for key share of a for no key update of b");
        assert_eq!(
            several.expect("sound"),
            [
                "FOR KEY SHARE [\"a\"] Wait",
                "FOR NO KEY UPDATE [\"b\"] Wait"
            ]
        );
    }

    #[test]
    fn what_is_no_locking_clause_is_left_alone() {
        let error = clauses("select 1 from a for update of public.a").expect_err("qualified");
        assert_eq!(error.state(), SqlState::SYNTAX_ERROR);
        assert_eq!(
            clauses("select substring('abc' from 2 for 1)").expect("sound"),
            [""; 0]
        );
    }
}
