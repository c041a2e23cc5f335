//! PostgreSQL's grammar: from a text to a tree, and back.
//!
//! [`parse`] reads a text as PostgreSQL's own scanner and grammar do (`scan.l`, `gram.y`): a
//! [lexer] over the whole text, then a parser by recursive descent, whose expressions follow
//! the grammar's table of precedences. The result is a [tree] of this crate's own: owned,
//! with positions, and with no option where the grammar has none. Or it is the first error,
//! in PostgreSQL's words and with its SQLSTATE and position.
//!
//! [`print`](print::statement) writes a tree as a text again, with brackets around every
//! operand, so that no precedence is left to interpret. PostgreSQL's grammar reads from that
//! the tree that it reads from the original; `cargo xtask grammar` checks it over
//! PostgreSQL's regression files.
//!
//! What bounds the work on a hostile text: [`Limits`] on bytes and tokens and on the depth of
//! brackets, which the lexer counts, and on the depth of the tree, which the parser counts
//! while it builds it. The parser does not read a clause twice, and asks
//! for more stack before it would run out of it, so no text ends the process.
//!
//! Names are not cut to PostgreSQL's 63 bytes here, and numbers are not converted beyond 31
//! bits: the binder does that, which looks names up and knows the types.

mod error;
pub mod keyword;
pub mod lexer;
mod parse;
pub mod print;
#[expect(
    missing_docs,
    reason = "the parts of a tree are named as the grammar's clauses that they hold"
)]
pub mod tree;

pub use error::{Fault, SyntaxError};
pub use parse::Statements;

use tree::{Expr, Statement, TypeName};

/// Bounds on a text, counted on its bytes and tokens, and on the depth of its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a text.
    pub bytes: usize,
    /// Tokens of a text.
    pub tokens: usize,
    /// Brackets, subqueries, CASEs, prefix operators and the like within each other.
    pub depth: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            tokens: 1 << 27,
            depth: 1000,
        }
    }
}

/// The statements of a text, which semicolons separate; empty ones leave nothing.
///
/// # Errors
///
/// The first error of the text.
pub fn parse(text: &str, limits: &Limits) -> Result<Vec<Statement>, SyntaxError> {
    parse::statements(text, limits).map_err(|error| *error)
}

/// The statements of a text one by one, so that a caller may look around between two of them,
/// and need not keep them all. The whole text is lexed here.
///
/// # Errors
///
/// The first token that is none.
pub fn statements<'text>(
    text: &'text str,
    limits: &'text Limits,
) -> Result<Statements<'text>, SyntaxError> {
    Statements::new(text, limits).map_err(|error| *error)
}

/// The expression that a text is, and nothing behind it.
///
/// # Errors
///
/// The first error of the text.
pub fn parse_expression(text: &str, limits: &Limits) -> Result<Expr, SyntaxError> {
    parse::expression(text, limits).map_err(|error| *error)
}

/// The type that a text names, and nothing behind it.
///
/// # Errors
///
/// The first error of the text.
pub fn parse_type(text: &str, limits: &Limits) -> Result<TypeName, SyntaxError> {
    parse::type_name(text, limits).map_err(|error| *error)
}
