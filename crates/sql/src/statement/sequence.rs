//! The statements of a query string, parsed in two passes to bound memory.
//!
//! The parser checks the whole string before anything runs. A syntax tree takes many
//! times the bytes of its text, so a long string does not keep all trees: beyond the
//! first few statements it keeps only byte ranges, and parses those statements a second
//! time when their turn comes.
//!
//! ```text
//!   insert …; insert …; │ insert …; insert …; insert …; …
//!   trees in memory      │ byte ranges
//! ```

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::text::characters_of;
use super::{PARSED_IN_A_STEP, Statement, parse_each};
use crate::error::{Error, Result};
use crate::instance::MemoryBudget;

/// Number of statements whose syntax trees are kept.
const AT_HAND: usize = 64;

/// The statements of a query string, as an iterator.
#[derive(Debug, Default)]
pub struct Statements {
    at_hand: std::vec::IntoIter<Statement>,
    query: Arc<str>,
    deferred: std::vec::IntoIter<Deferred>,
}

/// A statement that was checked, and will be parsed again.
#[derive(Debug)]
struct Deferred {
    bytes: Range<usize>,
    /// Number of characters of the query string that precede the statement.
    characters: u32,
}

/// A long statement that was checked, and will be parsed again on another thread.
#[derive(Debug)]
pub(crate) struct DeferredLong {
    query: Arc<str>,
    deferred: Deferred,
}

impl DeferredLong {
    pub(crate) fn parse(&self, budget: &MemoryBudget, stop: &AtomicBool) -> Result<Statement> {
        self.deferred.parse(&self.query, budget, Some(stop))
    }
}

impl Deferred {
    fn parse(
        &self,
        query: &str,
        budget: &MemoryBudget,
        stop: Option<&AtomicBool>,
    ) -> Result<Statement> {
        let own = query.get(self.bytes.clone()).unwrap_or_default();
        let mut again = None;
        parse_each(own, self.characters, budget, stop, &mut |statement, _| {
            again = Some(statement);
        })?;
        again.ok_or_else(|| Error::internal("a statement that is none the second time"))
    }
}

impl Statements {
    /// Parses a query string. Fails with SQLSTATE 53200 when `memory_budget` lacks the memory for
    /// it.
    pub(crate) fn parse(
        query: &str,
        budget: &MemoryBudget,
        stop: Option<&AtomicBool>,
    ) -> Result<Self> {
        let mut at_hand = Vec::new();
        let mut deferred = Vec::new();
        let (mut offset, mut characters) = (0, 0_u32);
        let mut visit = |statement, bytes: Range<usize>| {
            if at_hand.len() < AT_HAND {
                at_hand.push(statement);
                return;
            }
            let between = query.get(offset..bytes.start).unwrap_or_default();
            characters = characters.saturating_add(characters_of(between.as_bytes()));
            offset = bytes.start;
            deferred.push(Deferred { bytes, characters });
        };
        parse_each(query, 0, budget, stop, &mut visit)?;
        let query = if deferred.is_empty() { "" } else { query };
        Ok(Self {
            at_hand: at_hand.into_iter(),
            query: query.into(),
            deferred: deferred.into_iter(),
        })
    }

    /// The next statement. Parsing a statement again cannot find a syntax error, but
    /// fails with SQLSTATE 53200 when `memory_budget` lacks the memory for it.
    pub fn next(&mut self, budget: &MemoryBudget) -> Option<Result<Statement>> {
        if let Some(statement) = self.at_hand.next() {
            return Some(Ok(statement));
        }
        let deferred = self.deferred.next()?;
        Some(deferred.parse(&self.query, budget, None))
    }

    /// Takes the next statement if it is so long that another thread parses it.
    pub(crate) fn take_long(&mut self) -> Option<DeferredLong> {
        if !self.at_hand.as_slice().is_empty() {
            return None;
        }
        let next = self.deferred.as_slice().first()?;
        if next.bytes.len() <= PARSED_IN_A_STEP {
            return None;
        }
        Some(DeferredLong {
            query: Arc::clone(&self.query),
            deferred: self.deferred.next()?,
        })
    }

    /// Number of statements that are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at_hand.len() + self.deferred.len()
    }

    /// Whether no statement is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The statement, if the query string holds exactly one.
    pub(crate) fn single(&self) -> Option<&Statement> {
        match (self.at_hand.as_slice(), self.deferred.len()) {
            ([statement], 0) => Some(statement),
            _ => None,
        }
    }
}

impl From<Statement> for Statements {
    fn from(statement: Statement) -> Self {
        Self {
            at_hand: vec![statement].into_iter(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_parsed_again_are_the_same() {
        let query: String = (0..200)
            .map(|number| format!("select 'ä;' -- {number};\n, {number} ;; "))
            .collect();
        let budget = MemoryBudget::default();
        let mut statements = Statements::parse(&query, &budget, None).unwrap();
        assert_eq!(statements.len(), 200);
        let all = super::super::parse(&query, &budget).unwrap();
        let mut start = 0;
        for (index, eager) in all.iter().enumerate() {
            let lazy = statements.next(&budget).unwrap().unwrap();
            assert_eq!(lazy.text(), eager.text());
            // The number is in the statement's last line. The first statements have been
            // parsed with the whole string, the others alone.
            let number = lazy.text().rfind(' ').unwrap() + 1;
            start += query[start..].find(lazy.text()).unwrap();
            let parsed_at = if index < AT_HAND {
                start + number
            } else {
                number
            };
            let position = lazy.position(parsed_at as u32);
            assert_eq!(position, eager.position((start + number) as u32));
            let offset = query
                .char_indices()
                .nth(position.unwrap() as usize - 1)
                .unwrap()
                .0;
            assert!(
                query[offset..].starts_with(|c: char| c.is_ascii_digit()),
                "{position:?}"
            );
        }
    }

    #[test]
    fn a_mistake_anywhere_is_found_before_anything_runs() {
        let query = format!("{} selec 1", "select 1;".repeat(500));
        let budget = MemoryBudget::default();
        let error = Statements::parse(&query, &budget, None).unwrap_err();
        assert_eq!(error.report().position, Some(500 * 9 + 2));
        let nothing = Statements::parse(" ;; -- nothing\n", &budget, None).unwrap();
        assert!(nothing.is_empty());
    }
}
