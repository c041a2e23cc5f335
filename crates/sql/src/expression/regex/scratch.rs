//! The buffers of a pattern's searches: states of its automata that have been built, threads
//! of the NFA simulation, and those of the library's engine.
//!
//! Searches of one statement share them; they are given back when the statement ends,
//! unless they are small. What they take is charged to the session after each search, so a
//! session exceeds its limit by one search at most, whose buffers are bounded.

use regex_automata::{hybrid, meta};

use super::threads::Buffers;
use crate::Result;
use crate::instance::{Charge, SessionMemory};

#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) engine_cache: Option<meta::Cache>,
    /// States of the forward and of the backward automaton.
    pub(super) states: [Option<hybrid::dfa::Cache>; 2],
    /// States of the automaton of the longest match.
    pub(super) longest: Option<hybrid::dfa::Cache>,
    pub(super) threads: Buffers,
    charge: Option<Charge>,
}

impl Scratch {
    /// Memory of the buffers, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let cache = self.engine_cache.as_ref();
        let cache = cache.map_or(0, meta::Cache::memory_usage);
        let states = self.states.iter().flatten().chain(&self.longest);
        let states: usize = states.map(hybrid::dfa::Cache::memory_usage).sum();
        cache + states + self.threads.bytes()
    }

    /// Charges the session for the buffers as they are; fails with SQLSTATE 53200 if it
    /// may not keep so much.
    pub(super) fn charge(&mut self, to: &std::sync::Arc<SessionMemory>) -> Result<()> {
        let bytes = self.bytes() as u64;
        match &mut self.charge {
            Some(charge) => charge.grow(bytes, WHAT)?,
            None => self.charge = Some(to.charge(bytes, WHAT)?),
        }
        Ok(())
    }
}

/// What a refusal names.
pub(super) const WHAT: &str = "A regular expression";
