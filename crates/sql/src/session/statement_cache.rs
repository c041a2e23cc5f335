//! The statement cache: a session does not parse or plan a text again that it has seen
//! lately.
//!
//! Many clients prepare every statement anew without a name, so the same few texts arrive
//! over and over. The cache keeps for each text:
//!
//! ```text
//!   text ──▶ statement                        always the same
//!              └─▶ prepared statement         while parameter types, catalog
//!                                             version and settings are the same
//! ```
//!
//! The cache keeps a text when the session sees it for the second time, so that
//! statements with literal values, each with a text of its own, evict nothing.
//!
//! Invariant: a client cannot distinguish a cached statement from a new one. The cache
//! compares settings by identity: a changed setting makes new settings.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use super::prepared::Prepared;
use super::settings::Settings;
use crate::instance::SessionMemory;
use crate::statement::Statement;

/// Maximum number of texts in the cache.
const KEPT: usize = 32;

/// Number of recent texts of which the cache remembers that they were seen once.
const SEEN: usize = 64;

/// Maximum length of a cached text, in bytes.
const LONGEST: usize = 1024;

/// A session's statement cache.
#[derive(Debug)]
pub(super) struct StatementCache {
    kept: Vec<Kept>,
    /// Index in `kept` of the entry to evict next, once the cache is full.
    oldest: usize,
    /// Hashes of texts that were seen once.
    seen: [u64; SEEN],
    /// Index in `seen` of the hash to replace next.
    first: usize,
}

#[derive(Debug)]
struct Kept {
    hash: u64,
    text: Box<str>,
    statement: Statement,
    prepared: Option<Remembered>,
}

/// A prepared statement, and the conditions under which it is valid.
#[derive(Debug)]
struct Remembered {
    parameter_oids: Box<[u32]>,
    catalog_version: u64,
    settings: Arc<Settings>,
    prepared: Arc<Prepared>,
}

impl Default for StatementCache {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            oldest: 0,
            seen: [0; SEEN],
            first: 0,
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl StatementCache {
    /// The statement of this text, if it is cached.
    pub(super) fn statement(&self, text: &str) -> Option<Statement> {
        if text.len() > LONGEST || self.kept.is_empty() {
            return None;
        }
        let hash = hash(text);
        let mut kept = self.kept.iter();
        let found = kept.find(|kept| kept.hash == hash && *kept.text == *text);
        found.map(|kept| kept.statement.clone())
    }

    /// Records that a text was parsed and consists of this one statement.
    pub(super) fn note(&mut self, text: &str, statement: &Statement) {
        if text.len() > LONGEST {
            return;
        }
        let hash = hash(text);
        let Some(seen) = self.seen.iter_mut().find(|seen| **seen == hash) else {
            self.seen[self.first] = hash;
            self.first = (self.first + 1) % SEEN;
            return;
        };
        *seen = 0;
        let kept = Kept {
            hash,
            text: text.into(),
            statement: statement.clone(),
            prepared: None,
        };
        if self.kept.len() < KEPT {
            self.kept.push(kept);
        } else {
            self.kept[self.oldest] = kept;
            self.oldest = (self.oldest + 1) % KEPT;
        }
    }

    /// The result of preparing this statement, if it is cached and still valid.
    pub(super) fn prepared(
        &self,
        statement: &Statement,
        parameter_oids: &[u32],
        catalog_version: u64,
        settings: &Arc<Settings>,
    ) -> Option<Arc<Prepared>> {
        let mut kept = self.kept.iter();
        let kept = kept.find(|kept| kept.statement.is(statement))?;
        let remembered = kept.prepared.as_ref()?;
        let same = *remembered.parameter_oids == *parameter_oids
            && remembered.catalog_version == catalog_version
            && Arc::ptr_eq(&remembered.settings, settings);
        same.then(|| Arc::clone(&remembered.prepared))
    }

    /// Caches the result of preparing a statement, if the statement's text is cached and
    /// the session may keep it.
    pub(super) fn remember(
        &mut self,
        (statement, parameter_oids): (&Statement, &[u32]),
        catalog_version: u64,
        settings: &Arc<Settings>,
        prepared: &Arc<Prepared>,
        memory: &Arc<SessionMemory>,
    ) {
        let mut kept = self.kept.iter_mut();
        if let Some(kept) = kept.find(|kept| kept.statement.is(statement))
            && prepared
                .charge(|bytes| memory.charge(bytes, "A cached statement"))
                .is_ok()
        {
            kept.prepared = Some(Remembered {
                parameter_oids: parameter_oids.into(),
                catalog_version,
                settings: Arc::clone(settings),
                prepared: Arc::clone(prepared),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement;

    fn parsed(text: &str) -> Statement {
        statement::parse(text, &Default::default())
            .unwrap()
            .swap_remove(0)
    }

    #[test]
    fn a_text_is_kept_when_it_comes_again() {
        let mut statement_cache = StatementCache::default();
        let statement = parsed("select 1");
        statement_cache.note("select 1", &statement);
        assert!(statement_cache.statement("select 1").is_none());
        statement_cache.note("select 1", &statement);
        assert!(
            statement_cache
                .statement("select 1")
                .unwrap()
                .is(&statement)
        );
        assert!(statement_cache.statement("select 2").is_none());
    }

    #[test]
    fn texts_that_never_come_again_drive_nothing_out() {
        let mut statement_cache = StatementCache::default();
        let statement = parsed("select 1");
        statement_cache.note("select 1", &statement);
        statement_cache.note("select 1", &statement);
        for number in 0..10_000 {
            statement_cache.note(&format!("select {number} + 1"), &statement);
        }
        assert!(statement_cache.statement("select 1").is_some());
    }

    #[test]
    fn no_more_than_so_many_and_none_too_long() {
        let mut statement_cache = StatementCache::default();
        let statement = parsed("select 1");
        for number in 0..100 {
            let text = format!("select {number}");
            statement_cache.note(&text, &statement);
            statement_cache.note(&text, &statement);
            assert!(statement_cache.statement(&text).is_some());
        }
        assert_eq!(statement_cache.kept.len(), KEPT);
        let long = format!("select '{}'", "x".repeat(LONGEST));
        statement_cache.note(&long, &statement);
        statement_cache.note(&long, &statement);
        assert!(statement_cache.statement(&long).is_none());
    }
}
