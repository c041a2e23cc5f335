//! Sampling: a uniform sample of a table's rows, and what it says of the columns.
//!
//! The sample is kept while all rows go by (Vitter's algorithm R), with numbers that depend
//! on the table alone, so that simulations repeat themselves. The number of distinct values
//! is estimated from those that the sample has once (Haas and Stokes' Duj1).

use super::{ColumnStatistics, TableStatistics};
use crate::catalog::Table;
use crate::value::{DataType, Value};

/// Values in a sample; of a table of many columns fewer rows are kept.
const VALUES: usize = 400_000;
/// Least and most rows of a sample.
const ROWS: std::ops::RangeInclusive<usize> = 1_000..=10_000;
/// Most common values that are kept of a column, and buckets of its histogram.
const TARGET: usize = 100;
/// Bytes of a text above which it is only counted.
const WIDEST: usize = 256;
/// Part of the rows above which the number of distinct values is taken to grow with them.
const GROWS_FROM: f64 = 0.1;

/// A value in a sample.
#[derive(Debug)]
enum Sampled {
    /// The value, of these bytes.
    Value(Value, usize),
    /// That there was one of so many bytes, which is too long to be kept.
    Wide(usize),
}

impl Sampled {
    fn of(value: Value) -> Self {
        match width_of(&value) {
            width if width > WIDEST => Self::Wide(width),
            width => Self::Value(value, width),
        }
    }
}

/// A sample of the rows of a table.
#[derive(Debug)]
pub(crate) struct Sample {
    columns: Vec<(i16, DataType)>,
    rows: Vec<Vec<Sampled>>,
    most: usize,
    /// Number of rows that have gone by.
    seen: u64,
    random: u64,
}

impl Sample {
    pub(crate) fn new(table: &Table) -> Self {
        let columns: Vec<(i16, DataType)> = table
            .columns
            .iter()
            .map(|column| (column.attribute, column.column_type.data_type))
            .collect();
        let most = (VALUES / columns.len().max(1)).clamp(*ROWS.start(), *ROWS.end());
        Self {
            columns,
            rows: Vec::new(),
            most,
            seen: 0,
            random: u64::from(table.oid) | 1 << 63,
        }
    }

    /// Place in the sample of the row that goes by; `None` if it is not taken.
    pub(crate) fn place(&mut self) -> Option<usize> {
        self.seen += 1;
        if self.rows.len() < self.most {
            return Some(self.rows.len());
        }
        // Xorshift, by Marsaglia.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let place = (self.random % self.seen) as usize;
        (place < self.most).then_some(place)
    }

    /// Puts a row in its place.
    pub(crate) fn put(&mut self, place: usize, row: Vec<Value>) {
        let row = row.into_iter().map(Sampled::of).collect();
        if place < self.rows.len() {
            self.rows[place] = row;
        } else {
            self.rows.push(row);
        }
    }

    /// Number of columns.
    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }

    /// Statistics without those of columns.
    pub(crate) fn statistics(&self) -> TableStatistics {
        TableStatistics {
            rows: self.seen,
            columns: Vec::new(),
        }
    }

    /// What the sample says of a column.
    pub(crate) fn column(&mut self, position: usize) -> Option<ColumnStatistics> {
        let (attribute, data_type) = *self.columns.get(position)?;
        let taken = self.rows.len();
        let mut values = Vec::with_capacity(taken);
        let (mut bytes, mut wide) = (0, 0_usize);
        for row in &mut self.rows {
            let Some(sampled) = row.get_mut(position) else {
                continue;
            };
            match std::mem::replace(sampled, Sampled::Wide(0)) {
                Sampled::Value(Value::Null, _) => {}
                Sampled::Value(value, width) if data_type.is_comparable() => {
                    bytes += width;
                    values.push(value);
                }
                Sampled::Value(_, width) | Sampled::Wide(width) => {
                    bytes += width;
                    wide += 1;
                }
            }
        }
        let present = values.len() + wide;
        if taken == 0 {
            return None;
        }
        let nulls = 1.0 - present as f64 / taken as f64;
        values.sort_by(Value::order);
        let mut runs: Vec<(Value, usize)> = Vec::new();
        for value in values {
            match runs.last_mut() {
                Some((known, count)) if *known == value => *count += 1,
                _ => runs.push((value, 1)),
            }
        }
        // Of what has no equality nothing is known, as in PostgreSQL.
        let distinct = match data_type.is_comparable() {
            true => self.distinct(&runs, wide, present),
            false => 0.0,
        };
        let common = common(&runs, taken, distinct.is_sign_negative());
        let bounds = bounds(runs, &common);
        Some(ColumnStatistics {
            attribute,
            data_type,
            nulls: nulls as f32,
            distinct,
            width: (bytes / present.max(1)) as u32,
            common,
            bounds,
        })
    }

    /// Estimate of the distinct values of the whole table, as [`ColumnStatistics`] keeps it.
    fn distinct(&self, runs: &[(Value, usize)], wide: usize, present: usize) -> f64 {
        if present == 0 {
            return 0.0;
        }
        // Long texts are taken to be different.
        let found = (runs.len() + wide) as f64;
        let once = runs.iter().filter(|(_, count)| *count == 1).count() + wide;
        let part_present = present as f64 / self.rows.len() as f64;
        if once == present {
            return -part_present;
        }
        if once == 0 {
            return found;
        }
        let (sampled, once) = (present as f64, once as f64);
        let total = (self.seen as f64 * part_present).max(sampled);
        let estimate = sampled * found / (sampled - once + once * sampled / total);
        let estimate = estimate.clamp(found, total);
        match estimate > GROWS_FROM * self.seen as f64 {
            true => -estimate / self.seen as f64,
            false => estimate.round(),
        }
    }
}

fn width_of(value: &Value) -> usize {
    if value.is_null() {
        return 0;
    }
    let mut cell = Vec::new();
    value.write_cell(&mut cell);
    cell.len()
}

/// The most common values: all if the sample has each several times and they are few,
/// otherwise those that are clearly more common than the average one.
fn common(runs: &[(Value, usize)], taken: usize, grows: bool) -> Vec<(Value, f32)> {
    let all = !grows && runs.len() <= TARGET && runs.iter().all(|(_, count)| *count > 1);
    let total: usize = runs.iter().map(|(_, count)| count).sum();
    let average = total as f64 / runs.len().max(1) as f64;
    let mut chosen: Vec<&(Value, usize)> = runs
        .iter()
        .filter(|(_, count)| all || *count > 1 && *count as f64 > average * 1.25)
        .collect();
    chosen.sort_by_key(|each| std::cmp::Reverse(each.1));
    chosen.truncate(TARGET);
    chosen
        .into_iter()
        .map(|(value, count)| (value.clone(), (*count as f64 / taken as f64) as f32))
        .collect()
}

/// Bounds of a histogram of the values that are not common.
fn bounds(runs: Vec<(Value, usize)>, common: &[(Value, f32)]) -> Vec<Value> {
    let rest: Vec<Value> = runs
        .into_iter()
        .filter(|(value, _)| !common.iter().any(|(known, _)| known == value))
        .flat_map(|(value, count)| std::iter::repeat_n(value, count))
        .collect();
    if rest.len() < 2 {
        return Vec::new();
    }
    let buckets = TARGET.min(rest.len() - 1);
    (0..=buckets)
        .map(|bucket| rest[bucket * (rest.len() - 1) / buckets].clone())
        .collect()
}
