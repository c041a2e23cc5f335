//! The binder for windows and window functions.
//!
//! A *window* partitions and orders the rows of a query, and gives each row a *frame*, a
//! run of rows around it. A *window function* computes a value for each row from its
//! partition or its frame. The windows of one query are collected while its clauses are
//! bound, those that are equal once.

use coeval_sql_syntax::tree::{
    self, Arguments, Exclude, Expr, FrameBound, FrameUnit, FunctionCall, Name, Over, SortItem,
};

use super::aggregate::{by_name, wrong_arguments};
use super::{Aggregates, Binder, fold_name, key_order, no_equality, no_order};
use crate::expression::coerce::{CastContext, castable, common_type};
use crate::expression::{AggregateCall, Bound, Expression, Scope, function};
use crate::select::is_set_function;
use crate::value::{ColumnType, DataType, KeyOrder, NumberType};
use crate::{Error, Result, SqlState};

/// How the binder treats a window function in the clause it is binding.
#[derive(Clone, Debug)]
pub(crate) enum Windows {
    /// The clause must not contain any; [`Aggregates`] names it.
    Forbidden,
    /// It is an argument of a window function.
    InCall,
    /// It is a part of a window's definition.
    InDefinition,
    /// The binder collects those of the clause here.
    Collected(WindowList),
}

/// Sort keys and their orders.
type Keys = Vec<(Expression, KeyOrder)>;

/// The windows and window functions of a query.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowList {
    /// Windows of the WINDOW clause: name, position in `definitions`, and whether it has a
    /// frame clause.
    named: Vec<(String, usize, bool)>,
    pub(crate) definitions: Vec<WindowDefinition>,
    /// Types of the order's keys, for each definition.
    ordered_by: Vec<Vec<DataType>>,
    pub(crate) calls: Vec<WindowCall>,
}

/// A bound window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowDefinition {
    /// Rows with equal values are one partition.
    pub(crate) partition: Vec<Expression>,
    /// Order of the rows in a partition.
    pub(crate) order: Vec<(Expression, KeyOrder)>,
    /// The frame of each row.
    pub(crate) frame: WindowFrame,
}

/// The frame of a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowFrame {
    pub(crate) unit: FrameUnit,
    pub(crate) start: FrameLimit,
    pub(crate) end: FrameLimit,
    pub(crate) exclude: Exclude,
}

impl WindowFrame {
    /// The frame of a window without a frame clause: up to the row's last peer.
    const DEFAULT: Self = Self {
        unit: FrameUnit::Range,
        start: FrameLimit::Unbounded,
        end: FrameLimit::CurrentRow,
        exclude: Exclude::Nothing,
    };
}

/// A limit of a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FrameLimit {
    /// The partition's first row as a start, its last one as an end.
    Unbounded,
    Preceding(Expression),
    CurrentRow,
    Following(Expression),
}

impl FrameLimit {
    /// The offset, if the limit has one.
    pub(crate) const fn offset(&self) -> Option<&Expression> {
        match self {
            Self::Preceding(offset) | Self::Following(offset) => Some(offset),
            Self::Unbounded | Self::CurrentRow => None,
        }
    }
}

/// A bound call of a window function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowCall {
    pub(crate) function: WindowFunction,
    /// Arguments, unless the function is an aggregate.
    pub(crate) arguments: Vec<Expression>,
    /// Number of the window among those of the query.
    pub(crate) definition: usize,
}

/// A function over a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumulativeDistribution,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    /// An aggregate over the frame.
    Aggregate(Box<AggregateCall>),
}

impl WindowFunction {
    /// The function's name.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::RowNumber => "row_number",
            Self::Rank => "rank",
            Self::DenseRank => "dense_rank",
            Self::PercentRank => "percent_rank",
            Self::CumulativeDistribution => "cume_dist",
            Self::Ntile => "ntile",
            Self::Lag => "lag",
            Self::Lead => "lead",
            Self::FirstValue => "first_value",
            Self::LastValue => "last_value",
            Self::NthValue => "nth_value",
            Self::Aggregate(call) => call.function.name(),
        }
    }
}

impl WindowCall {
    /// Calls `visit` for each expression of the call.
    pub(crate) fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        self.arguments.iter().for_each(&mut *visit);
        if let WindowFunction::Aggregate(call) = &self.function {
            call.over_rows(visit);
        }
    }

    /// Calls `visit` for each expression of the call.
    pub(crate) fn expressions_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut Expression)) {
        self.arguments.iter_mut().for_each(&mut *visit);
        if let WindowFunction::Aggregate(call) = &mut self.function {
            call.over_rows_mut(visit);
        }
    }
}

impl WindowList {
    /// Calls `visit` for each expression over the rows of the query.
    pub(crate) fn expressions_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut Expression)) {
        for definition in &mut self.definitions {
            definition.expressions_mut(visit);
        }
        for call in &mut self.calls {
            call.expressions_mut(visit);
        }
    }

    /// Whether `test` holds for an expression of a call or below it.
    pub(crate) fn has(&self, test: &dyn Fn(&Expression) -> bool) -> bool {
        let mut found = false;
        for call in &self.calls {
            call.expressions(&mut |each| found = found || each.any(test));
        }
        found
    }
}

impl WindowDefinition {
    /// Calls `visit` for each expression over the rows of the query.
    pub(crate) fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        self.partition.iter().for_each(&mut *visit);
        self.order.iter().for_each(|(key, _)| visit(key));
    }

    /// Calls `visit` for each expression over the rows of the query.
    pub(crate) fn expressions_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut Expression)) {
        self.partition.iter_mut().for_each(&mut *visit);
        self.order.iter_mut().for_each(|(key, _)| visit(key));
    }

    /// The keys by which the rows are sorted: those of the partition, then the order.
    pub(crate) fn sort_keys(&self) -> Vec<(&Expression, KeyOrder)> {
        let own_order = |key: &Expression| {
            let mut order = self.order.iter().filter(|(ordered, _)| ordered == key);
            order
                .next()
                .map_or(KeyOrder::ASCENDING, |(_, order)| *order)
        };
        let mut keys: Vec<(&Expression, KeyOrder)> = Vec::new();
        let partition = self.partition.iter().map(|key| (key, own_order(key)));
        let order = self.order.iter().map(|(key, order)| (key, *order));
        for (key, order) in partition.chain(order) {
            if !keys.iter().any(|(known, _)| *known == key) {
                keys.push((key, order));
            }
        }
        keys
    }
}

/// Whether the name is a window function's that is no aggregate.
pub(super) fn is_window_function(name: &str) -> bool {
    matches!(
        name,
        "row_number"
            | "rank"
            | "dense_rank"
            | "percent_rank"
            | "cume_dist"
            | "ntile"
            | "lag"
            | "lead"
            | "first_value"
            | "last_value"
            | "nth_value"
    )
}

fn windowing(message: impl Into<String>, position: Option<u32>) -> Error {
    Error::new(SqlState::WINDOWING_ERROR, message).at(position)
}

impl Binder<'_> {
    /// Binds the WINDOW clause.
    pub(crate) fn name_windows(
        &mut self,
        windows: &[(Name, tree::Window)],
        scope: &Scope<'_>,
    ) -> Result<()> {
        for (name, window) in windows {
            let position = self.position(name.at);
            let name = fold_name(name);
            let mut list = self.take_windows(position)?;
            let bound = if list.named.iter().any(|(known, ..)| *known == name) {
                Err(windowing(
                    format!("window \"{name}\" is already defined"),
                    position,
                ))
            } else {
                self.definition(&mut list, window, position, scope)
            };
            if let Ok(number) = bound {
                list.named.push((name, number, window.frame.is_some()));
            }
            self.windows = Windows::Collected(list);
            bound?;
        }
        Ok(())
    }

    /// Takes the list of windows; an error where none is permitted.
    fn take_windows(&mut self, position: Option<u32>) -> Result<WindowList> {
        match &self.windows {
            Windows::Collected(_) => {}
            Windows::InCall => {
                return Err(windowing(
                    "window function calls cannot be nested",
                    position,
                ));
            }
            Windows::InDefinition => {
                let message = "window functions are not allowed in window definitions";
                return Err(windowing(message, position));
            }
            Windows::Forbidden => {
                return Err(match &self.aggregates {
                    Aggregates::Forbidden("aggregate") => Error::new(
                        SqlState::GROUPING_ERROR,
                        "aggregate function calls cannot contain window function calls",
                    )
                    .at(position),
                    Aggregates::Forbidden(clause) => windowing(
                        format!("window functions are not allowed in {clause}"),
                        position,
                    ),
                    Aggregates::Collected(_) => {
                        windowing("window functions are not allowed in HAVING", position)
                    }
                });
            }
        }
        match std::mem::replace(&mut self.windows, Windows::Forbidden) {
            Windows::Collected(list) => Ok(list),
            _ => Err(Error::internal("windows are not collected here")),
        }
    }

    /// Binds a call with OVER.
    pub(super) fn window_call(
        &mut self,
        name: &str,
        call: &FunctionCall,
        over: &Over,
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let mut list = self.take_windows(position)?;
        let bound = self.window_call_here(&mut list, name, call, over, position, scope);
        let number = bound.map(|(call, result)| {
            let known = list.calls.iter().position(|known| *known == call);
            let number = known.unwrap_or_else(|| {
                list.calls.push(call);
                list.calls.len() - 1
            });
            (number, result)
        });
        self.windows = Windows::Collected(list);
        let (number, result) = number?;
        Ok(Bound::new(Expression::Window(number), result).at(position))
    }

    fn window_call_here(
        &mut self,
        list: &mut WindowList,
        name: &str,
        call: &FunctionCall,
        over: &Over,
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<(WindowCall, ColumnType)> {
        self.windows = Windows::InCall;
        let (function, arguments, result) = self.over_window(name, call, position, scope)?;
        let definition = match over {
            Over::Named(window) => {
                let at = self.position(window.at);
                named(list, &fold_name(window), at)?.0
            }
            Over::Window(window) => self.definition(list, window, position, scope)?,
        };
        let call = WindowCall {
            function,
            arguments,
            definition,
        };
        Ok((call, result))
    }

    /// Binds the function and its arguments.
    fn over_window(
        &mut self,
        name: &str,
        call: &FunctionCall,
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<(WindowFunction, Vec<Expression>, ColumnType)> {
        if !call.within_group.is_empty() {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("OVER is not supported for ordered-set aggregate {name}"),
            )
            .at(position));
        }
        let list = match &call.arguments {
            Arguments::List(list) => Some(list),
            Arguments::Star => None,
        };
        let aggregate = by_name(name);
        let refuse =
            |message: &str| Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position));
        if aggregate.is_some() || is_window_function(name) {
            if list.is_some_and(|list| list.distinct) {
                return refuse("DISTINCT is not implemented for window functions");
            }
            if list.is_some_and(|list| !list.order.is_empty()) {
                return refuse("aggregate ORDER BY is not implemented for window functions");
            }
        }
        if let Some(function) = aggregate {
            let call = self.aggregate_call(name, function, call, position, scope)?;
            let result = call.result;
            return Ok((
                WindowFunction::Aggregate(Box::new(call)),
                Vec::new(),
                result,
            ));
        }
        let arguments = match list {
            Some(list) => self.positional(&list.arguments, position, scope)?,
            None => Vec::new(),
        };
        if !is_window_function(name) || list.is_none() {
            if function::exists(name, self.session.system)
                || is_set_function(name, self.session.system)
            {
                return Err(Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!(
                        "OVER specified, but {name} is not a window function nor an aggregate function"
                    ),
                )
                .at(position));
            }
            let types: Vec<DataType> = arguments
                .iter()
                .map(|bound| bound.column_type.data_type)
                .collect();
            return Err(wrong_arguments(name, &types).at(position));
        }
        if call.filter.is_some() {
            return refuse("FILTER is not implemented for non-aggregate window functions");
        }
        self.window_arguments(name, arguments, position)
    }

    fn window_arguments(
        &mut self,
        name: &str,
        arguments: Vec<Bound>,
        position: Option<u32>,
    ) -> Result<(WindowFunction, Vec<Expression>, ColumnType)> {
        let types: Vec<DataType> = arguments
            .iter()
            .map(|bound| bound.column_type.data_type)
            .collect();
        let none_such = || wrong_arguments(name, &types).at(position);
        let to_int4 = |binder: &mut Self, bound: Bound| {
            let given = bound.column_type.data_type;
            match castable(given, DataType::Int4) {
                Some(CastContext::Implicit) => binder.implicit(bound, DataType::Int4),
                _ => Err(none_such()),
            }
        };
        let (function, counts) = match name {
            "row_number" => (WindowFunction::RowNumber, 0..=0),
            "rank" => (WindowFunction::Rank, 0..=0),
            "dense_rank" => (WindowFunction::DenseRank, 0..=0),
            "percent_rank" => (WindowFunction::PercentRank, 0..=0),
            "cume_dist" => (WindowFunction::CumulativeDistribution, 0..=0),
            "ntile" => (WindowFunction::Ntile, 1..=1),
            "lag" => (WindowFunction::Lag, 1..=3),
            "lead" => (WindowFunction::Lead, 1..=3),
            "first_value" => (WindowFunction::FirstValue, 1..=1),
            "last_value" => (WindowFunction::LastValue, 1..=1),
            "nth_value" => (WindowFunction::NthValue, 2..=2),
            _ => return Err(none_such()),
        };
        if !counts.contains(&arguments.len()) {
            Self::require_order(name, arguments.len(), position)?;
            return Err(none_such());
        }
        let mut arguments = arguments.into_iter();
        let mut bound = Vec::with_capacity(types.len());
        let result: ColumnType = match &function {
            WindowFunction::PercentRank | WindowFunction::CumulativeDistribution => {
                DataType::Float8.into()
            }
            WindowFunction::Ntile => {
                for argument in arguments {
                    bound.push(to_int4(self, argument)?.expression);
                }
                DataType::Int4.into()
            }
            WindowFunction::Lag | WindowFunction::Lead if types.len() == 3 => {
                let parts = (arguments.next(), arguments.next(), arguments.next());
                let (Some(value), Some(offset), Some(default)) = parts else {
                    return Err(none_such());
                };
                let common = common_type(&[types[0], types[2]]).ok_or_else(none_such)?;
                bound.push(self.implicit(value, common)?.expression);
                bound.push(to_int4(self, offset)?.expression);
                bound.push(self.implicit(default, common)?.expression);
                common.into()
            }
            WindowFunction::Lag
            | WindowFunction::Lead
            | WindowFunction::FirstValue
            | WindowFunction::LastValue
            | WindowFunction::NthValue => {
                let Some(value) = arguments.next() else {
                    return Err(none_such());
                };
                let value = self.settle(value)?;
                bound.push(value.expression);
                for number in arguments {
                    bound.push(to_int4(self, number)?.expression);
                }
                ColumnType::from(value.column_type.data_type)
            }
            _ => DataType::Int8.into(),
        };
        Ok((function, bound, result))
    }

    /// Binds a window, and adds it to the list unless it is there. Returns its number.
    fn definition(
        &mut self,
        list: &mut WindowList,
        window: &tree::Window,
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<usize> {
        self.windows = Windows::InDefinition;
        let base = match &window.base {
            Some(name) => {
                let at = self.position(name.at);
                let name = fold_name(name);
                let (number, has_frame) = named(list, &name, at)?;
                let base = list.definitions[number].clone();
                if !window.partition.is_empty() {
                    let message =
                        format!("cannot override PARTITION BY clause of window \"{name}\"");
                    return Err(windowing(message, at));
                }
                if !window.order.is_empty() && !base.order.is_empty() {
                    let message = format!("cannot override ORDER BY clause of window \"{name}\"");
                    return Err(windowing(message, at));
                }
                if has_frame {
                    let message =
                        format!("cannot copy window \"{name}\" because it has a frame clause");
                    let error = windowing(message, at);
                    let is_bare = window.order.is_empty() && window.frame.is_none();
                    return Err(match is_bare {
                        true => error.with_hint("Omit the parentheses in this OVER clause."),
                        false => error,
                    });
                }
                Some((base, list.ordered_by[number].clone()))
            }
            None => None,
        };
        let (mut order, mut types) = self.window_order(&window.order, scope)?;
        let mut partition = Vec::with_capacity(window.partition.len());
        for expr in &window.partition {
            let bound = self.bind(expr, scope)?;
            if let Some(error) = no_equality(bound.column_type.data_type) {
                return Err(error.at(bound.position));
            }
            let key = self.settle(bound)?.expression;
            if !partition.contains(&key) {
                partition.push(key);
            }
        }
        if let Some((base, inherited)) = base {
            partition = base.partition;
            if window.order.is_empty() {
                (order, types) = (base.order, inherited);
            }
        }
        let frame = match &window.frame {
            None => WindowFrame::DEFAULT,
            Some(frame) => self.frame(frame, &types, position, scope)?,
        };
        let definition = WindowDefinition {
            partition,
            order,
            frame,
        };
        let known = list
            .definitions
            .iter()
            .position(|known| *known == definition);
        Ok(known.unwrap_or_else(|| {
            list.definitions.push(definition);
            list.ordered_by.push(types);
            list.definitions.len() - 1
        }))
    }

    /// Binds the ORDER BY of a window: its keys and their types.
    fn window_order(
        &mut self,
        items: &[SortItem],
        scope: &Scope<'_>,
    ) -> Result<(Keys, Vec<DataType>)> {
        let mut order: Keys = Vec::with_capacity(items.len());
        let mut types = Vec::with_capacity(items.len());
        for item in items {
            let bound = self.bind(&item.expr, scope)?;
            let bound = self.settle(bound)?;
            if let Some(error) = no_order(bound.column_type.data_type) {
                return Err(error.at(bound.position));
            }
            // A repeated key changes nothing.
            if !order.iter().any(|(known, _)| *known == bound.expression) {
                let key_order = key_order(item).map_err(|error| error.at(bound.position))?;
                order.push((bound.expression, key_order));
                types.push(bound.column_type.data_type);
            }
        }
        Ok((order, types))
    }

    fn frame(
        &mut self,
        frame: &tree::Frame,
        ordered_by: &[DataType],
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<WindowFrame> {
        let has_offset = [Some(&frame.start), frame.end.as_ref()]
            .into_iter()
            .flatten()
            .any(|limit| matches!(limit, FrameBound::Preceding(_) | FrameBound::Following(_)));
        if frame.unit == FrameUnit::Range && has_offset && ordered_by.len() != 1 {
            let message =
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(windowing(message, position));
        }
        if frame.unit == FrameUnit::Groups && ordered_by.is_empty() {
            return Err(windowing(
                "GROUPS mode requires an ORDER BY clause",
                position,
            ));
        }
        let key = ordered_by.first().copied();
        let start = self.limit(&frame.start, frame.unit, key, scope)?;
        let end = match &frame.end {
            Some(end) => self.limit(end, frame.unit, key, scope)?,
            None => FrameLimit::CurrentRow,
        };
        Ok(WindowFrame {
            unit: frame.unit,
            start,
            end,
            exclude: frame.exclude,
        })
    }

    fn limit(
        &mut self,
        limit: &FrameBound,
        unit: FrameUnit,
        key: Option<DataType>,
        scope: &Scope<'_>,
    ) -> Result<FrameLimit> {
        Ok(match limit {
            FrameBound::UnboundedPreceding | FrameBound::UnboundedFollowing => {
                FrameLimit::Unbounded
            }
            FrameBound::CurrentRow => FrameLimit::CurrentRow,
            FrameBound::Preceding(offset) => {
                FrameLimit::Preceding(self.offset(offset, unit, key, scope)?)
            }
            FrameBound::Following(offset) => {
                FrameLimit::Following(self.offset(offset, unit, key, scope)?)
            }
        })
    }

    /// Binds the offset of a limit: a number of rows or groups, or what is added to the
    /// key that orders the rows.
    fn offset(
        &mut self,
        expr: &Expr,
        unit: FrameUnit,
        key: Option<DataType>,
        scope: &Scope<'_>,
    ) -> Result<Expression> {
        let bound = self.bind(expr, scope)?;
        let position = bound.position.or(self.position(expr.at));
        let given = bound.column_type.data_type;
        let word = match unit {
            FrameUnit::Range => "RANGE",
            FrameUnit::Rows => "ROWS",
            FrameUnit::Groups => "GROUPS",
        };
        if bound.expression.uses_row() {
            return Err(Error::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("argument of {word} must not contain variables"),
            )
            .at(position));
        }
        let wanted = match (unit, key) {
            (FrameUnit::Range, Some(key)) => offset_type(key, given).map_err(|e| e.at(position))?,
            _ => DataType::Int8,
        };
        if castable(given, wanted).is_none_or(|least| least > CastContext::Assignment) {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of {word} must be type {wanted}, not type {given}"),
            )
            .at(position));
        }
        let cast = self.cast(bound, wanted.into(), CastContext::Assignment)?;
        Ok(cast.expression)
    }
}

/// The type of a RANGE offset beside a key of that type.
fn offset_type(key: DataType, given: DataType) -> Result<DataType> {
    use NumberType as N;
    let unsupported = || {
        Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {key}"),
        )
    };
    let wanted = match key.number() {
        Some(N::Int2 | N::Int4 | N::Int8) => DataType::Int8,
        Some(N::Numeric) => DataType::Numeric,
        Some(N::Float4 | N::Float8) => DataType::Float8,
        None => match key {
            DataType::Date
            | DataType::Timestamp
            | DataType::TimestampTz
            | DataType::Time
            | DataType::TimeTz
            | DataType::Interval => DataType::Interval,
            _ => return Err(unsupported()),
        },
    };
    if castable(given, wanted) == Some(CastContext::Implicit) {
        return Ok(wanted);
    }
    Err(Error::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!(
            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {key} \
             and offset type {given}"
        ),
    )
    .with_hint("Cast the offset value to an appropriate type."))
}

/// A window of the WINDOW clause: its number, and whether it has a frame clause.
fn named(list: &WindowList, name: &str, position: Option<u32>) -> Result<(usize, bool)> {
    let found = list.named.iter().find(|(known, ..)| known == name);
    let (_, number, has_frame) = found.ok_or_else(|| {
        Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("window \"{name}\" does not exist"),
        )
        .at(position)
    })?;
    Ok((*number, *has_frame))
}
