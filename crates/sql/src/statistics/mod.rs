//! Statistics of tables: what the values of columns are like, for the planner's estimates.
//!
//! ANALYZE reads a table, keeps a sample of its rows ([`sample`]), and writes what the sample
//! says into a storage of its own ([`store`]), a row for each table. So statistics are
//! replicated, survive restarts and a change of leader as rows do, and a new one changes no
//! catalog version: plans stay valid. The number of rows is not among them for the planner,
//! which asks the engine for it. The leader analyzes tables by itself once they have grown or
//! shrunk enough.
//!
//! A row, as `record` encodes it:
//!
//! ```text
//! u8 format (1)   u64 rows
//! u16 n × column { u16 attribute, u32 type, u32 nulls, u64 distinct, u32 width,
//!                  u16 n × common value { u32 length, cell, u32 part },
//!                  u16 n × bound { u32 length, cell } }
//! ```
//!
//! Parts and distinct values are the bits of floating-point numbers.

mod collect;
mod sample;
mod store;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use coeval_txn::Engine;
use coeval_types::Timestamp;

pub(crate) use collect::{analyze, analyze_alone, are_outdated, forget_dropped};
use sample::Sample;
use store::shown_at;

use crate::error::Result;
use crate::record::{Reader, count, damaged};
use crate::value::{DataType, Value};

const FORMAT: u8 = 1;

/// Bytes of a row after which the values of further columns are left out: a row has limits.
const LONGEST: usize = 256 << 10;

/// Statistics of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TableStatistics {
    /// Number of rows when the statistics were taken.
    pub(crate) rows: u64,
    pub(crate) columns: Vec<ColumnStatistics>,
}

/// Statistics of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnStatistics {
    pub(crate) attribute: i16,
    pub(crate) data_type: DataType,
    /// Part of the rows in which the column is null.
    pub(crate) nulls: f32,
    /// Number of distinct values; if negative, as a part of the number of rows, with which
    /// it grows.
    pub(crate) distinct: f64,
    /// Bytes of a value, on average.
    pub(crate) width: u32,
    /// The most common values, and the part of the rows that each has, in descending order.
    pub(crate) common: Vec<(Value, f32)>,
    /// Bounds of a histogram of the other values: as many of these are between two of them
    /// as between any other two.
    pub(crate) bounds: Vec<Value>,
}

impl TableStatistics {
    /// The statistics of a column of this type.
    pub(crate) fn column(&self, attribute: i16, data_type: DataType) -> Option<&ColumnStatistics> {
        self.columns
            .iter()
            .find(|column| column.attribute == attribute && column.data_type == data_type)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.rows.to_le_bytes());
        count(&mut out, self.columns.len());
        for column in &self.columns {
            out.extend_from_slice(&(column.attribute as u16).to_le_bytes());
            out.extend_from_slice(&column.data_type.oid().to_le_bytes());
            out.extend_from_slice(&column.nulls.to_bits().to_le_bytes());
            out.extend_from_slice(&column.distinct.to_bits().to_le_bytes());
            out.extend_from_slice(&column.width.to_le_bytes());
            let fits = out.len() < LONGEST;
            let common: &[(Value, f32)] = if fits { &column.common } else { &[] };
            count(&mut out, common.len());
            for (value, part) in common {
                cell(&mut out, value);
                out.extend_from_slice(&part.to_bits().to_le_bytes());
            }
            let bounds: &[Value] = if fits { &column.bounds } else { &[] };
            count(&mut out, bounds.len());
            bounds.iter().for_each(|bound| cell(&mut out, bound));
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        if reader.u8()? != FORMAT {
            return Err(damaged("statistics are of a newer version of this program"));
        }
        let rows = reader.u64()?;
        let columns = reader.list(|reader| {
            let attribute = reader.u16()? as i16;
            let number = reader.u32()?;
            let data_type = DataType::from_oid(number)
                .ok_or_else(|| damaged(&format!("no column is of type {number}")))?;
            let nulls = f32::from_bits(reader.u32()?);
            let distinct = f64::from_bits(reader.u64()?);
            let width = reader.u32()?;
            let common = reader.list(|reader| {
                let value = read_cell(reader, data_type)?;
                Ok((value, f32::from_bits(reader.u32()?)))
            })?;
            let bounds = reader.list(|reader| read_cell(reader, data_type))?;
            Ok(ColumnStatistics {
                attribute,
                data_type,
                nulls,
                distinct,
                width,
                common,
                bounds,
            })
        })?;
        reader.end()?;
        Ok(Self { rows, columns })
    }
}

fn cell(out: &mut Vec<u8>, value: &Value) {
    let mut cell = Vec::new();
    value.write_cell(&mut cell);
    out.extend_from_slice(&(cell.len() as u32).to_le_bytes());
    out.append(&mut cell);
}

fn read_cell(reader: &mut Reader<'_>, data_type: DataType) -> Result<Value> {
    let length = reader.u32()? as usize;
    Value::from_cell(Some(reader.part(length)?.0), data_type)
}

impl ColumnStatistics {
    /// Number of distinct values in a table of so many rows.
    pub(crate) fn distinct_in(&self, rows: f64) -> f64 {
        let distinct = match self.distinct < 0.0 {
            true => -self.distinct * rows,
            false => self.distinct,
        };
        distinct.clamp(1.0, rows.max(1.0))
    }

    /// Part of the rows whose value equals this one.
    pub(crate) fn part_equal(&self, value: &Value, rows: f64) -> f64 {
        if let Some((_, part)) = self.common.iter().find(|(known, _)| known == value) {
            return f64::from(*part);
        }
        let common: f64 = self.common.iter().map(|(_, part)| f64::from(*part)).sum();
        let others = (self.distinct_in(rows) - self.common.len() as f64).max(1.0);
        ((1.0 - common - f64::from(self.nulls)) / others).max(0.0)
    }

    /// Part of the rows whose value is less than this one.
    pub(crate) fn part_below(&self, value: &Value) -> f64 {
        let common: f64 = self.common.iter().map(|(_, part)| f64::from(*part)).sum();
        let below: f64 = self
            .common
            .iter()
            .filter(|(known, _)| known.order(value).is_lt())
            .map(|(_, part)| f64::from(*part))
            .sum();
        let rest = (1.0 - common - f64::from(self.nulls)).max(0.0);
        let place = self
            .bounds
            .partition_point(|bound| bound.order(value).is_lt());
        let part = match self.bounds.len() {
            0 | 1 => 0.5,
            length => (place as f64 - 0.5).max(0.0) / (length - 1) as f64,
        };
        (below + rest * part.min(1.0)).clamp(0.0, 1.0)
    }
}

/// The statistics that a node has read.
#[derive(Debug, Default)]
pub(crate) struct StatisticsCache {
    /// By the table's OID, with the timestamp of the row.
    tables: Mutex<BTreeMap<u32, (Timestamp, Arc<TableStatistics>)>>,
    /// Number of ANALYZE statements, after which plans are made anew.
    analyzed: AtomicU64,
}

impl StatisticsCache {
    /// The newest statistics of a table, if there are any.
    pub(crate) fn of(&self, engine: &dyn Engine, table: u32) -> Option<Arc<TableStatistics>> {
        let newest = shown_at(engine, table)?;
        let mut tables = self.tables.lock().expect("no panic while it was held");
        if let Some((known, statistics)) = tables.get(&table)
            && *known == newest
        {
            return Some(Arc::clone(statistics));
        }
        let (shown, bytes) = store::read(engine, table)?;
        // Estimates do without what cannot be read.
        let statistics = Arc::new(TableStatistics::decode(&bytes).ok()?);
        tables.insert(table, (shown, Arc::clone(&statistics)));
        Some(statistics)
    }

    /// Number of ANALYZE statements that this node has executed.
    pub(crate) fn analyzed(&self) -> u64 {
        self.analyzed.load(Ordering::Relaxed)
    }

    /// Called after an ANALYZE statement.
    pub(crate) fn note_analyzed(&self) {
        self.analyzed.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics() -> TableStatistics {
        TableStatistics {
            rows: 1000,
            columns: vec![ColumnStatistics {
                attribute: 2,
                data_type: DataType::Int4,
                nulls: 0.1,
                distinct: 50.0,
                width: 4,
                common: vec![(Value::Int4(7), 0.5)],
                bounds: [0, 10, 20, 30, 40].map(Value::Int4).to_vec(),
            }],
        }
    }

    #[test]
    fn statistics_come_back() {
        let bytes = statistics().encode();
        assert_eq!(TableStatistics::decode(&bytes).unwrap(), statistics());
        for length in 0..bytes.len() {
            TableStatistics::decode(&bytes[..length]).unwrap_err();
        }
    }

    #[test]
    fn parts_are_those_of_common_values_and_of_the_histogram() {
        let statistics = statistics();
        let column = statistics.column(2, DataType::Int4).unwrap();
        let near = |part: f64, wanted: f64| assert!((part - wanted).abs() < 0.01, "{part}");
        near(column.part_equal(&Value::Int4(7), 1000.0), 0.5);
        near(column.part_equal(&Value::Int4(8), 1000.0), 0.4 / 49.0);
        near(column.part_below(&Value::Int4(0)), 0.0);
        near(column.part_below(&Value::Int4(25)), 0.5 + 0.4 * 2.5 / 4.0);
        near(column.part_below(&Value::Int4(99)), 0.9);
        assert!(statistics.column(2, DataType::Int8).is_none());
    }
}
