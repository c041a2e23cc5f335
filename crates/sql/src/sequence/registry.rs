//! The sequences' states that the leader has in memory: it hands out what is reserved, and
//! reserves more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use coeval_txn::Engine;
use coeval_types::Timestamp;

use super::number::{Counting, Progress, Step};
use super::store::{self, Kept};
use crate::error::Result;

/// The states of a database's sequences, by their numbers. A state is here once it was asked
/// for.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    states: Mutex<BTreeMap<u64, Arc<Mutex<Known>>>>,
}

/// What is known of a state.
#[derive(Debug)]
struct Known {
    progress: Option<Progress>,
    /// The commit of its row: an answer with one of its numbers depends on it.
    committed: Timestamp,
}

/// A state of a sequence, as the catalog names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State<'name> {
    /// Number of the state.
    pub(crate) number: u64,
    /// What it begins with, if it has no row yet.
    pub(crate) origin: Progress,
    pub(crate) counting: Counting,
    /// Name of the sequence, for errors.
    pub(crate) name: &'name str,
}

impl Sequences {
    fn known(&self, state: u64) -> Arc<Mutex<Known>> {
        let mut states = self.states.lock().expect("no panic while it was held");
        Arc::clone(states.entry(state).or_default())
    }

    /// Takes the next numbers, and the commit on which an answer with them depends.
    pub(crate) fn next(&self, state: &State<'_>, engine: &dyn Engine) -> Result<(Step, Timestamp)> {
        let known = self.known(state.number);
        let mut known = known.lock().expect("no panic while it was held");
        let progress = known.progress(state, engine)?;
        let step = state.counting.next(progress, state.name)?;
        if let Some(number) = step.reserve {
            let kept = Kept {
                number,
                is_called: true,
            };
            known.committed = store::write(engine, state.number, kept)?;
        }
        known.progress = Some(step.progress);
        Ok((step, known.committed))
    }

    /// Sets how far the sequence is. Returns the commit on which an answer that says so
    /// depends.
    pub(crate) fn set(
        &self,
        state: &State<'_>,
        (number, is_called): (i64, bool),
        engine: &dyn Engine,
    ) -> Result<Timestamp> {
        let known = self.known(state.number);
        let mut known = known.lock().expect("no panic while it was held");
        known.committed = store::write(engine, state.number, Kept { number, is_called })?;
        known.progress = Some(Progress {
            last: number,
            is_called,
            reserved: 0,
        });
        Ok(known.committed)
    }

    /// How far the sequence is, and the commit on which an answer that says so depends.
    pub(crate) fn look(
        &self,
        state: &State<'_>,
        engine: &dyn Engine,
    ) -> Result<(Progress, Timestamp)> {
        let known = self.known(state.number);
        let mut known = known.lock().expect("no panic while it was held");
        let progress = known.progress(state, engine)?;
        Ok((progress, known.committed))
    }

    /// Forgets a state that its sequence has given up.
    pub(crate) fn forget(&self, state: u64) {
        let mut states = self.states.lock().expect("no panic while it was held");
        states.remove(&state);
    }
}

impl Default for Known {
    fn default() -> Self {
        Self {
            progress: None,
            committed: Timestamp::ZERO,
        }
    }
}

impl Known {
    fn progress(&mut self, state: &State<'_>, engine: &dyn Engine) -> Result<Progress> {
        if let Some(progress) = self.progress {
            return Ok(progress);
        }
        let progress = match store::read(engine, state.number)? {
            None => state.origin,
            Some((kept, committed)) => {
                self.committed = committed;
                Progress {
                    last: kept.number,
                    is_called: kept.is_called,
                    reserved: 0,
                }
            }
        };
        self.progress = Some(progress);
        Ok(progress)
    }
}
