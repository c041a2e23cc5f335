//! Operators that return the rows of system tables and of set-returning functions.

use super::{Pulled, Row, State, row_or_return, spend};
use crate::expression::EvaluationContext;
use crate::expression::suspension::{Suspension, resumable};
use crate::select::plan::{ProjectSet, SetFunction, SetKind};
use crate::system::SystemTable;
use crate::value::{DataType, Interval, Numeric, moments};
use crate::{Result, Value};

/// State of a scan over rows that are materialised at once, or generated as a series.
#[derive(Debug, Default)]
pub(in crate::select) struct RowsState {
    driving: Row,
    source: Source,
    /// Number of rows returned so far, for WITH ORDINALITY; `None` without it.
    ordinal: Option<i64>,
    /// Whether the arguments of the function have not been evaluated yet.
    unopened: bool,
    /// A wait of a function in the arguments.
    waits: Option<Box<Suspension>>,
}

#[derive(Debug, Default)]
enum Source {
    #[default]
    Empty,
    Rows(std::vec::IntoIter<Row>),
    /// An integer series: from `next` to `last`, by `step`.
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
    /// A series of timestamps, with a time zone or without.
    Moments {
        zoned: bool,
        next: i64,
        last: i64,
        step: Interval,
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
        let arguments = evaluate(function, context, driving)?;
        self.fill(function, arguments, context)
    }

    /// Opens a function whose arguments are evaluated when the first row is asked for: a
    /// function in them may have to wait.
    pub(super) fn open_later(&mut self, driving: &[Value]) {
        self.driving = driving.to_vec();
        self.source = Source::Empty;
        self.unopened = true;
        self.waits = None;
    }

    /// The next row of a function that was opened with [`RowsState::open_later`].
    pub(super) fn next_of(
        &mut self,
        function: &SetFunction,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        if self.unopened {
            let driving = &self.driving;
            let arguments = resumable(&mut self.waits, context, |context| {
                evaluate(function, context, driving)
            })?;
            let Some(arguments) = arguments else {
                return Ok(Pulled::Pending);
            };
            self.fill(function, arguments, context)?;
            self.unopened = false;
        }
        self.next(context, row)
    }

    /// Computes the function's rows, or how they are counted.
    fn fill(
        &mut self,
        function: &SetFunction,
        arguments: Row,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        self.ordinal = function.ordinality.then_some(0);
        let rows = |rows: Vec<Row>| Source::Rows(rows.into_iter());
        self.source = match function.kind {
            SetKind::Scalar => rows(vec![arguments]),
            SetKind::Table(table) => rows((table.body)(&arguments, context)?),
            SetKind::Packed(table) => {
                let own = (table.body)(&arguments, context)?;
                rows(
                    own.into_iter()
                        .map(|row| vec![Value::Array(row.into())])
                        .collect(),
                )
            }
            SetKind::Field(table, column) => {
                let own = (table.body)(&arguments, context)?;
                let field = |mut row: Row| vec![row.swap_remove(column)];
                rows(own.into_iter().map(field).collect())
            }
            SetKind::Changed(number) => rows(match context.changed.get(number) {
                Some(changed) => changed.to_vec(),
                None => return Err(crate::Error::internal("a change that was not made")),
            }),
            SetKind::Unnest => rows(side_by_side(&arguments, context)?),
            SetKind::Subscripts => match (&arguments[0], &arguments[1]) {
                (Value::Array(elements), Value::Int4(first)) => Source::Integers {
                    data_type: DataType::Int4,
                    next: Some(i64::from(*first)),
                    last: i64::from(*first) + elements.len() as i64 - 1,
                    step: 1,
                },
                _ => Source::Empty,
            },
            SetKind::Json(set) => rows(set.rows(&arguments, context)?),
            SetKind::Series(data_type) => series(data_type, &arguments)?,
        };
        Ok(())
    }

    pub(super) fn next(
        &mut self,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        if spend(context)? {
            return Ok(Pulled::Pause);
        }
        row.clear();
        row.extend_from_slice(&self.driving);
        match &mut self.source {
            Source::Empty => return Ok(Pulled::Done),
            Source::Rows(rows) => match rows.next() {
                Some(own) => row.extend(own),
                None => return Ok(Pulled::Done),
            },
            Source::Integers {
                data_type,
                next,
                last,
                step,
            } => {
                let Some(number) = *next else {
                    return Ok(Pulled::Done);
                };
                if (*step > 0 && number > *last) || (*step < 0 && number < *last) {
                    return Ok(Pulled::Done);
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
                    return Ok(Pulled::Done);
                }
                row.push(Value::Numeric(Box::new(next.clone())));
                *next = next.add(step)?;
            }
            Source::Moments {
                zoned,
                next,
                last,
                step,
            } => {
                let ascends = step.span() > 0;
                if ascends && *next > *last || !ascends && *next < *last {
                    return Ok(Pulled::Done);
                }
                if *zoned {
                    row.push(Value::TimestampTz(*next));
                    *next = moments::add_in_zone(*next, *step, &context.session.style)?;
                } else {
                    row.push(Value::Timestamp(*next));
                    *next = moments::add(*next, *step)?;
                }
            }
        }
        if let Some(ordinal) = &mut self.ordinal {
            *ordinal += 1;
            row.push(Value::Int8(*ordinal));
        }
        Ok(Pulled::Row)
    }
}

fn evaluate(
    function: &SetFunction,
    context: &mut EvaluationContext<'_>,
    driving: &[Value],
) -> Result<Row> {
    let mut arguments = Vec::with_capacity(function.arguments.len());
    for argument in &function.arguments {
        arguments.push(argument.evaluate(context, driving)?);
    }
    Ok(arguments)
}

/// The elements of arrays, a row for each place; shorter arrays are filled up with nulls.
fn side_by_side(arrays: &[Value], context: &EvaluationContext<'_>) -> Result<Vec<Row>> {
    let elements = |array: &Value| match array {
        Value::Array(elements) => elements.len(),
        _ => 0,
    };
    let longest = arrays.iter().map(elements).max().unwrap_or(0);
    let bytes = size_of::<Row>() + size_of_val(arrays);
    let budget = context.session.around.budget();
    budget.ask_for(
        longest.saturating_mul(bytes) as u64,
        "The elements of an array",
    )?;
    let value = |array: &Value, at: usize| match array {
        Value::Array(elements) => elements.get(at).cloned().unwrap_or_default(),
        _ => Value::Null,
    };
    let row = |at| arrays.iter().map(|array| value(array, at)).collect();
    Ok((0..longest).map(row).collect())
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
    if let [
        Value::Timestamp(next) | Value::TimestampTz(next),
        Value::Timestamp(last) | Value::TimestampTz(last),
        Value::Interval(step),
    ] = arguments
    {
        if step.span() == 0 {
            return Err(zero());
        }
        return Ok(Source::Moments {
            zoned: data_type == DataType::TimestampTz,
            next: *next,
            last: *last,
            step: *step,
        });
    }
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

/// State of set-returning functions in a select list: for each input row, it returns
/// the functions' rows side by side.
#[derive(Debug)]
pub(in crate::select) struct ProjectSetState {
    input: State,
    row: Row,
    /// States of the functions over `row`, and whether each has returned its last row;
    /// empty while the operator has no input row.
    functions: Vec<(RowsState, bool)>,
    /// Values of the functions for the next output row, as far as they are computed.
    values: Row,
}

impl ProjectSetState {
    pub(super) fn new(project: &ProjectSet) -> Self {
        Self {
            input: State::new(&project.input),
            row: Row::new(),
            functions: Vec::new(),
            values: Row::new(),
        }
    }

    pub(super) fn input(&self) -> &State {
        &self.input
    }

    pub(super) fn open(
        &mut self,
        project: &ProjectSet,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        self.functions.clear();
        self.values.clear();
        self.input.open(&project.input, context, driving)
    }

    pub(super) fn next(
        &mut self,
        project: &ProjectSet,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        let mut own = Row::new();
        loop {
            if self.functions.is_empty() {
                row_or_return!(self.input.next(&project.input, context, &mut self.row)?);
                for function in &project.functions {
                    let mut state = RowsState::default();
                    state.open_function(function, context, &self.row)?;
                    // Each function state returns only its own column, without the
                    // driving row.
                    state.driving.clear();
                    self.functions.push((state, false));
                }
            }
            while let Some((state, done)) = self.functions.get_mut(self.values.len()) {
                let step = if *done {
                    Pulled::Done
                } else {
                    state.next(context, &mut own)?
                };
                match step {
                    Pulled::Row => self.values.append(&mut own),
                    Pulled::Done => {
                        *done = true;
                        self.values.push(Value::Null);
                    }
                    other => return Ok(other),
                }
            }
            let over = self.functions.iter().all(|(_, done)| *done);
            if over {
                self.functions.clear();
                self.values.clear();
                continue;
            }
            row.clear();
            row.extend_from_slice(&self.row);
            row.append(&mut self.values);
            return Ok(Pulled::Row);
        }
    }
}
