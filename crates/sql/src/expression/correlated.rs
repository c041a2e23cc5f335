//! Execution of correlated subqueries: memoization, and lookups in the hashed form.
//!
//! The result of a correlated subquery depends on the values that it takes from the
//! enclosing row, and in one statement on nothing else. So results are kept by these
//! values, as long as rows repeat them, within a quarter of the statement's memory. A
//! subquery that has a hashed form runs that once it has been run as often as costs the
//! same, and looks every further row up by hash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ops::ControlFlow;

use super::context::BUDGET;
use super::subquery::{Remembered, Set, Subquery, SubqueryKind, too_many_rows};
use super::{EvaluationContext, Expression, HashedSubquery, ROW, heap_bytes};
use crate::select::Cursor;
use crate::value::KeyOrder;
use crate::{Error, Result, SqlState, Value};

/// A hash map with the same iteration order in every run, for deterministic simulation.
type FixedMap<V> = HashMap<Vec<u8>, V, BuildHasherDefault<DefaultHasher>>;

/// Memory of a kept result in bytes, besides its key and its heap.
const ENTRY_BYTES: usize = 96;

/// Number of results after which they are dropped if few rows have found theirs.
const KEPT_ON_TRIAL: usize = 1024;

/// Part of the statement's memory that kept results may take.
const PART_OF_MEMORY: usize = 4;

/// What is known of a correlated subquery.
#[derive(Debug, Default)]
pub(super) struct Correlated {
    /// Number of runs so far.
    runs: u64,
    /// Results by the values that they depend on.
    kept: FixedMap<Value>,
    bytes: usize,
    /// Number of rows that have found a kept result.
    found: usize,
    /// Whether keeping results has turned out to be useless.
    forgets: bool,
    hash: Hash,
    /// Result of an aggregate over no rows, once it is known.
    of_nothing: Option<Value>,
}

/// The rows of the hashed form.
#[derive(Debug, Default)]
enum Hash {
    /// The hashed form has not been run.
    #[default]
    Unread,
    /// The results by key.
    Read(FixedMap<Group>),
    /// The rows exceed the statement's memory, or one that no enclosing row may ask for has no
    /// result, as where it divides by zero.
    Unusable,
}

/// The result for a key.
#[derive(Debug)]
enum Group {
    /// There is a row.
    Present,
    /// The value of the only row; `None` if there are several.
    Value(Option<Value>),
    /// The values of IN.
    Set(Set),
}

impl Subquery {
    /// Evaluates a correlated subquery that is not volatile.
    pub(super) fn evaluate_correlated(
        &self,
        context: &mut EvaluationContext<'_>,
        operand: &Value,
        row: &[Value],
    ) -> Result<Value> {
        // The subquery itself does not occur below it, so its entry is not missed.
        let mut known = match context.remembered.remove(&self.number) {
            Some(Remembered::Correlated(known)) => known,
            _ => Box::default(),
        };
        let result = self.result(&mut known, context, operand, row);
        context
            .remembered
            .insert(self.number, Remembered::Correlated(known));
        result
    }

    fn result(
        &self,
        known: &mut Correlated,
        context: &mut EvaluationContext<'_>,
        operand: &Value,
        row: &[Value],
    ) -> Result<Value> {
        let mut of_nothing = false;
        if let Some(hashed) = &self.hashed {
            if matches!(known.hash, Hash::Unread) && known.runs >= hashed.after {
                known.hash = self.read(hashed, context)?;
            }
            if let Hash::Read(groups) = &known.hash {
                let key = hash_key(&hashed.keys, context, row)?;
                match key.and_then(|key| groups.get(&key)) {
                    Some(Group::Present) => return Ok(Value::Bool(true)),
                    Some(Group::Value(Some(value))) => return Ok(value.clone()),
                    Some(Group::Value(None)) => return Err(too_many_rows()),
                    Some(Group::Set(set)) => return Ok(set.contains(operand)),
                    None => {}
                }
                match self.kind {
                    SubqueryKind::Exists | SubqueryKind::Any(_) => return Ok(Value::Bool(false)),
                    _ if !hashed.grouped => return Ok(Value::Null),
                    _ => {}
                }
                if let Some(value) = &known.of_nothing {
                    return Ok(value.clone());
                }
                of_nothing = true;
            }
        }
        let mut key = Vec::new();
        if !known.forgets {
            for correlation in &self.correlations {
                let value = correlation.evaluate(context, row)?;
                write_exactly(&value, &mut key);
            }
            write_exactly(operand, &mut key);
            if let Some(value) = known.kept.get(&key) {
                known.found += 1;
                context.work(ROW)?;
                return Ok(value.clone());
            }
        }
        known.runs += 1;
        let value = self.run_over(context, operand, row, false)?;
        if of_nothing {
            known.of_nothing = Some(value.clone());
        } else if !known.forgets {
            known.keep(key, value.clone(), context);
        }
        Ok(value)
    }

    /// Runs the hashed form.
    fn read(&self, hashed: &HashedSubquery, context: &mut EvaluationContext<'_>) -> Result<Hash> {
        let mut groups = FixedMap::<Group>::default();
        let mut bytes = 0;
        let mut cursor = Cursor::new(&hashed.plan);
        let budget = std::mem::replace(&mut context.budget, BUDGET);
        let count = hashed.keys.len();
        let read = cursor.visit_now(context, &mut |context, row| {
            context.work(ROW)?;
            let (keys, values) = row.split_at(count.min(row.len()));
            if keys.iter().any(Value::is_null) {
                return Ok(ControlFlow::Continue(()));
            }
            let mut key = Vec::new();
            for value in keys {
                value.write_key(KeyOrder::ASCENDING, &mut key);
            }
            let mut more = 0;
            let length = key.len();
            let group = groups.entry(key).or_insert_with(|| {
                more += ENTRY_BYTES + length;
                match self.kind {
                    SubqueryKind::Exists => Group::Present,
                    SubqueryKind::Any(_) => Group::Set(Set::default()),
                    _ => Group::Value(None),
                }
            });
            match group {
                Group::Present => {}
                Group::Set(set) => more += values.first().map_or(0, |value| set.add(value)),
                Group::Value(value) if more > 0 => {
                    more += heap_bytes(values);
                    *value = values.first().cloned();
                }
                Group::Value(value) => *value = None,
            }
            if more > 0 {
                bytes += more;
                context.memory.take(more)?;
            }
            Ok(ControlFlow::Continue(()))
        });
        cursor.give_back(context);
        context.budget = budget;
        match read {
            Ok(()) => Ok(Hash::Read(groups)),
            Err(error) if is_of_rows(&error) => {
                context.memory.give_back(bytes);
                Ok(Hash::Unusable)
            }
            Err(error) => Err(error),
        }
    }
}

impl Correlated {
    /// Keeps a result, unless there is no room for it or rows do not repeat.
    fn keep(&mut self, key: Vec<u8>, value: Value, context: &mut EvaluationContext<'_>) {
        if self.kept.len() >= KEPT_ON_TRIAL && self.found < self.kept.len() / 8 {
            self.forgets = true;
            self.kept = FixedMap::default();
            context.memory.give_back(std::mem::take(&mut self.bytes));
            return;
        }
        let bytes = ENTRY_BYTES + key.len() + heap_bytes(std::slice::from_ref(&value));
        let most = context.session.work_memory / PART_OF_MEMORY;
        if self.bytes + bytes > most {
            return;
        }
        match context.memory.take(bytes) {
            Ok(()) => {
                self.bytes += bytes;
                self.kept.insert(key, value);
            }
            Err(_) => context.memory.give_back(bytes),
        }
    }
}

/// Whether an error is due to the rows that were read or to their number: a data exception, a
/// cardinality violation, or that they exceed the memory.
fn is_of_rows(error: &Error) -> bool {
    let state = error.state();
    state == SqlState::OUT_OF_MEMORY || state.0.starts_with("22") || state.0.starts_with("21")
}

/// Encodes a value such that only the same one has these bytes: equal ones that are printed
/// differently, such as 1.0 and 1.00, may have different results.
fn write_exactly(value: &Value, key: &mut Vec<u8>) {
    match value {
        Value::Null => key.push(0),
        Value::Array(elements) => {
            key.push(1);
            key.extend_from_slice(&(elements.len() as u64).to_le_bytes());
            for element in elements.iter() {
                write_exactly(element, key);
            }
        }
        value => {
            key.push(2);
            let at = key.len();
            key.extend_from_slice(&[0; 8]);
            value.write_cell(key);
            let length = (key.len() - at - 8) as u64;
            key[at..at + 8].copy_from_slice(&length.to_le_bytes());
        }
    }
}

/// Encodes the values of the keys; `None` if one is null, which equals nothing.
fn hash_key(
    keys: &[Expression],
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<Option<Vec<u8>>> {
    let mut encoded = Vec::new();
    for key in keys {
        let value = key.evaluate(context, row)?;
        if value.is_null() {
            return Ok(None);
        }
        value.write_key(KeyOrder::ASCENDING, &mut encoded);
    }
    Ok(Some(encoded))
}
