//! Rows of tables, of system tables and of functions.

use std::ops::{Bound, ControlFlow};

use coeval_txn::{Bounds, Direction, ScanProgress, ScanRequest, ScanSource};
use coeval_types::{Rid, RowRef};

use super::{Row, Step, spend};
use crate::expression::{EvaluationContext, is_true};
use crate::plan::{Keys, Path, RowReader};
use crate::select::plan::{Scan, SetFunction, SetKind};
use crate::system::SystemTable;
use crate::value::{DataType, Numeric};
use crate::{Result, Value};

/// Rows of the first chunk of a scan. Later ones grow: few rows are often all
/// that is wanted.
const FIRST_CHUNK: usize = 16;
/// Most rows of a chunk.
const MOST_CHUNK: usize = 256;

/// A scan of a table.
#[derive(Debug)]
pub(in crate::select) struct ScanState {
    driving: Row,
    keys: Keys,
    /// Which key of a list comes next.
    next_key: usize,
    /// Where the next chunk begins, once there was one.
    position: Option<Vec<u8>>,
    complete: bool,
    chunk: usize,
    /// Rows of the chunk at hand, one after the other, and how many are left.
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

/// Appends a row's values, and its record if that is wanted.
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
    ) -> Result<Step> {
        let width = scan.reader.width() + usize::from(scan.with_record);
        loop {
            while self.rows_left > 0 {
                if spend(context)? {
                    return Ok(Step::Pause);
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
                return Ok(Step::Row);
            }
            if self.complete {
                return Ok(Step::Done);
            }
            if let (Keys::One(key), Path::Key { index, .. }) = (&self.keys, &scan.path) {
                // The one row goes straight to where it is wanted.
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
                    return Ok(Step::Done);
                }
                if let Some(filter) = &scan.filter
                    && !is_true(&filter.evaluate(context, row)?)
                {
                    return Ok(Step::Done);
                }
                return Ok(Step::Row);
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
            let end = keys.len().min(self.next_key + MOST_CHUNK);
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
        self.chunk = (self.chunk * 4).min(MOST_CHUNK);
        Ok(())
    }
}

/// Rows that were made all at once, or are counted up.
#[derive(Debug, Default)]
pub(in crate::select) struct RowsState {
    driving: Row,
    source: Source,
    /// Rows given so far, for WITH ORDINALITY; `None` without it.
    ordinal: Option<i64>,
}

#[derive(Debug, Default)]
enum Source {
    #[default]
    Empty,
    Rows(std::vec::IntoIter<Row>),
    /// From here, by steps, up to a last one.
    Integers {
        data_type: DataType,
        next: Option<i64>,
        last: i64,
        step: i64,
    },
    Numbers {
        next: Numeric,
        last: Numeric,
        step: Numeric,
    },
}

impl RowsState {
    pub(super) fn open_system(
        &mut self,
        table: &'static SystemTable,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        self.driving = driving.to_vec();
        self.ordinal = None;
        self.source = Source::Rows(table.rows(context).into_iter());
        Ok(())
    }

    pub(super) fn open_function(
        &mut self,
        function: &SetFunction,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        self.driving = driving.to_vec();
        self.ordinal = function.ordinality.then_some(0);
        let mut arguments = Vec::with_capacity(function.arguments.len());
        for argument in &function.arguments {
            arguments.push(argument.evaluate(context, driving)?);
        }
        let rows = |rows: Vec<Row>| Source::Rows(rows.into_iter());
        self.source = match function.kind {
            SetKind::Scalar => rows(vec![arguments]),
            SetKind::Unnest => match arguments.first() {
                Some(Value::Array(elements)) => {
                    rows(elements.iter().map(|each| vec![each.clone()]).collect())
                }
                _ => Source::Empty,
            },
            SetKind::Subscripts => match (&arguments[0], &arguments[1]) {
                (Value::Array(elements), Value::Int4(first)) => Source::Integers {
                    data_type: DataType::Int4,
                    next: Some(i64::from(*first)),
                    last: i64::from(*first) + elements.len() as i64 - 1,
                    step: 1,
                },
                _ => Source::Empty,
            },
            SetKind::Series(data_type) => series(data_type, &arguments)?,
        };
        Ok(())
    }

    pub(super) fn next(
        &mut self,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Step> {
        if spend(context)? {
            return Ok(Step::Pause);
        }
        row.clear();
        row.extend_from_slice(&self.driving);
        match &mut self.source {
            Source::Empty => return Ok(Step::Done),
            Source::Rows(rows) => match rows.next() {
                Some(own) => row.extend(own),
                None => return Ok(Step::Done),
            },
            Source::Integers {
                data_type,
                next,
                last,
                step,
            } => {
                let Some(number) = *next else {
                    return Ok(Step::Done);
                };
                if (*step > 0 && number > *last) || (*step < 0 && number < *last) {
                    return Ok(Step::Done);
                }
                *next = number.checked_add(*step);
                row.push(match data_type {
                    DataType::Int4 => Value::Int4(number as i32),
                    _ => Value::Int8(number),
                });
            }
            Source::Numbers { next, last, step } => {
                let beyond = if step.signum() > 0 {
                    *next > *last
                } else {
                    *next < *last
                };
                if beyond {
                    return Ok(Step::Done);
                }
                row.push(Value::Numeric(Box::new(next.clone())));
                *next = next.add(step)?;
            }
        }
        if let Some(ordinal) = &mut self.ordinal {
            *ordinal += 1;
            row.push(Value::Int8(*ordinal));
        }
        Ok(Step::Row)
    }
}

fn series(data_type: DataType, arguments: &[Value]) -> Result<Source> {
    if arguments.iter().any(Value::is_null) {
        return Ok(Source::Empty);
    }
    let zero = || {
        crate::Error::new(
            crate::SqlState::INVALID_PARAMETER_VALUE,
            "step size cannot equal zero",
        )
    };
    if data_type == DataType::Numeric {
        let number = |position: usize, otherwise: i32| match arguments.get(position) {
            Some(Value::Numeric(number)) => (**number).clone(),
            _ => Numeric::from(otherwise),
        };
        let step = number(2, 1);
        if step.is_zero() {
            return Err(zero());
        }
        if [number(0, 0), number(1, 0), step.clone()]
            .iter()
            .any(|each| each.parts().is_none())
        {
            return Err(crate::Error::new(
                crate::SqlState::INVALID_PARAMETER_VALUE,
                "start, stop and step values must be finite numbers",
            ));
        }
        return Ok(Source::Numbers {
            next: number(0, 0),
            last: number(1, 0),
            step,
        });
    }
    let integer = |position: usize, otherwise: i64| match arguments.get(position) {
        Some(Value::Int4(number)) => i64::from(*number),
        Some(Value::Int8(number)) => *number,
        _ => otherwise,
    };
    let step = integer(2, 1);
    if step == 0 {
        return Err(zero());
    }
    Ok(Source::Integers {
        data_type,
        next: Some(integer(0, 0)),
        last: integer(1, 0),
        step,
    })
}
