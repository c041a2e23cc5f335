//! The table scan operator: reads rows by primary key, by an index, or in full.

use std::ops::{Bound, ControlFlow};

use coeval_txn::{Bounds, Direction, ScanProgress, ScanRequest, ScanSource};
use coeval_types::{Rid, RowRef};

use super::{Pulled, Row, spend};
use crate::expression::{EvaluationContext, is_true};
use crate::plan::{Keys, Path, RowReader};
use crate::select::plan::Scan;
use crate::{Result, Value};

/// Rows in the first chunk of a scan. Later chunks grow, because many queries read only
/// a few rows.
const FIRST_CHUNK: usize = 16;
/// Maximum number of rows in a chunk.
const MAX_CHUNK: usize = 256;

/// State of a table scan.
#[derive(Debug)]
pub(in crate::select) struct ScanState {
    driving: Row,
    keys: Keys,
    /// Position of the next key in a list of keys.
    next_key: usize,
    /// Key at which the next chunk begins; `None` before the first chunk.
    position: Option<Vec<u8>>,
    complete: bool,
    chunk: usize,
    /// Values of the current chunk's rows, row after row, and the number of rows left.
    values: Vec<Value>,
    next: usize,
    rows_left: usize,
}

impl Default for ScanState {
    fn default() -> Self {
        Self {
            driving: Row::new(),
            keys: Keys::None,
            next_key: 0,
            position: None,
            complete: true,
            chunk: FIRST_CHUNK,
            values: Vec::new(),
            next: 0,
            rows_left: 0,
        }
    }
}

/// Appends a row's values, and its record id if the plan needs it.
fn read(
    reader: &RowReader,
    with_record: bool,
    rid: Rid,
    row: RowRef<'_>,
    values: &mut Vec<Value>,
) -> Result<()> {
    reader.read(row, values)?;
    if with_record {
        values.push(Value::Int8(rid.0 as i64));
    }
    Ok(())
}

impl ScanState {
    pub(super) fn open(
        &mut self,
        scan: &Scan,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        self.driving.clear();
        self.driving.extend_from_slice(driving);
        self.keys = scan.path.keys(context, driving)?;
        self.next_key = 0;
        self.position = None;
        self.complete = self.keys == Keys::None;
        self.chunk = FIRST_CHUNK;
        self.values.clear();
        self.next = 0;
        self.rows_left = 0;
        Ok(())
    }

    pub(super) fn next(
        &mut self,
        scan: &Scan,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        let width = scan.reader.width() + usize::from(scan.with_record);
        loop {
            while self.rows_left > 0 {
                if spend(context)? {
                    return Ok(Pulled::Pause);
                }
                row.clear();
                row.extend_from_slice(&self.driving);
                let end = self.next + width;
                row.extend(self.values[self.next..end].iter_mut().map(std::mem::take));
                self.next = end;
                self.rows_left -= 1;
                if let Some(filter) = &scan.filter
                    && !is_true(&filter.evaluate(context, row)?)
                {
                    continue;
                }
                return Ok(Pulled::Row);
            }
            if self.complete {
                return Ok(Pulled::Done);
            }
            if let (Keys::One(key), Path::Key { index, .. }) = (&self.keys, &scan.path) {
                // A lookup of one key reads the row directly into the caller's buffer.
                if spend(context)? {
                    return Ok(Pulled::Pause);
                }
                self.complete = true;
                row.clear();
                row.extend_from_slice(&self.driving);
                let mut result = Ok(());
                let found = context.reads()?.get(
                    scan.table.storage,
                    index.id,
                    key,
                    &mut |rid, version| {
                        result = read(&scan.reader, scan.with_record, rid, version, row);
                    },
                )?;
                result?;
                if !found {
                    return Ok(Pulled::Done);
                }
                if let Some(filter) = &scan.filter
                    && !is_true(&filter.evaluate(context, row)?)
                {
                    return Ok(Pulled::Done);
                }
                return Ok(Pulled::Row);
            }
            self.values.clear();
            self.next = 0;
            self.fill(scan, context)?;
        }
    }

    /// Reads the next chunk.
    fn fill(&mut self, scan: &Scan, context: &mut EvaluationContext<'_>) -> Result<()> {
        context.check_canceled()?;
        let storage = scan.table.storage;
        let mut failure = None;
        let (values, rows_left) = (&mut self.values, &mut self.rows_left);
        if let (Keys::Some(keys), Some(index)) = (&self.keys, scan.path.index()) {
            let end = keys.len().min(self.next_key + MAX_CHUNK);
            let chunk: Vec<&[u8]> = keys[self.next_key..end].iter().map(Vec::as_slice).collect();
            self.next_key = end;
            self.complete = end == keys.len();
            context
                .reads()?
                .get_many(storage, index.id, &chunk, &mut |_, rid, row| {
                    if failure.is_none() {
                        failure = read(&scan.reader, scan.with_record, rid, row, values).err();
                        *rows_left += 1;
                    }
                })?;
            return failure.map_or(Ok(()), Err);
        }
        let source = match scan.path.index() {
            None => ScanSource::Table,
            Some(index) => ScanSource::Index(index.id),
        };
        let mut bounds = match &self.keys {
            Keys::Range(range) => range.bounds(),
            Keys::Prefixes(prefixes) => {
                let prefix = &prefixes[self.next_key];
                Bounds {
                    lower: Bound::Included(prefix),
                    upper: Bound::Included(prefix),
                }
            }
            _ => Bounds::ALL,
        };
        if let Some(position) = &self.position {
            match scan.direction {
                Direction::Forward => bounds.lower = Bound::Excluded(position),
                Direction::Backward => bounds.upper = Bound::Excluded(position),
            }
        }
        let request = ScanRequest {
            storage,
            source,
            bounds,
            direction: scan.direction,
            limit: self.chunk,
        };
        let progress = context.reads()?.scan(&request, &mut |rid, row| match read(
            &scan.reader,
            scan.with_record,
            rid,
            row,
            values,
        ) {
            Ok(()) => {
                *rows_left += 1;
                ControlFlow::Continue(())
            }
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        match progress {
            ScanProgress::Complete => {
                self.position = None;
                self.next_key += 1;
                self.complete = match &self.keys {
                    Keys::Prefixes(prefixes) => self.next_key == prefixes.len(),
                    _ => true,
                };
            }
            ScanProgress::More(position) => self.position = Some(position),
        }
        self.chunk = (self.chunk * 4).min(MAX_CHUNK);
        Ok(())
    }
}
