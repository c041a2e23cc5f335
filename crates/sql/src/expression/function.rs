//! Functions: what they are called, what they take, and which of several is meant.

use super::coerce::{CastContext, castable};
use super::{EvaluationContext, SystemObjects, functions};
use crate::value::{ColumnType, DataType};
use crate::{Error, Result, SqlState, Value};

/// What a function takes or returns at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This type.
    Is(DataType),
    /// Any type.
    Any,
    /// Any array.
    AnyArray,
    /// An element of that array.
    AnyElement,
}

/// What a call computes with.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The values.
    pub values: &'a [Value],
    /// Their types.
    pub types: &'a [ColumnType],
}

impl Arguments<'_> {
    /// A string argument; empty for anything else.
    #[must_use]
    pub fn text(&self, position: usize) -> &str {
        match self.values.get(position) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// An integer argument; 0 for anything else.
    #[must_use]
    pub fn integer(&self, position: usize) -> i64 {
        match self.values.get(position) {
            Some(Value::Int2(number)) => i64::from(*number),
            Some(Value::Int4(number)) => i64::from(*number),
            Some(Value::Int8(number)) => *number,
            Some(Value::Oid(number) | Value::Object(number, _)) => i64::from(*number),
            _ => 0,
        }
    }

    /// An object number argument; 0 for anything else.
    #[must_use]
    pub fn oid(&self, position: usize) -> u32 {
        match self.values.get(position) {
            Some(Value::Oid(number) | Value::Object(number, _)) => *number,
            _ => 0,
        }
    }

    /// A double argument; 0 for anything else.
    #[must_use]
    pub fn double(&self, position: usize) -> f64 {
        match self.values.get(position) {
            Some(Value::Float8(number)) => *number,
            _ => 0.0,
        }
    }

    /// A truth argument; false for anything else.
    #[must_use]
    pub fn truth(&self, position: usize) -> bool {
        matches!(self.values.get(position), Some(Value::Bool(true)))
    }
}

/// How a function computes.
pub type Body = fn(Arguments<'_>, &mut EvaluationContext<'_>) -> Result<Value>;

/// A function.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// What it takes; the last is repeated when `variadic`.
    pub arguments: &'static [Kind],
    /// What it returns.
    pub result: Kind,
    /// Whether the last argument may be repeated.
    pub variadic: bool,
    /// Whether a null argument makes a null without calling it.
    pub strict: bool,
    /// Whether the same arguments always give the same result.
    pub immutable: bool,
    /// Whether calls in one statement may differ.
    pub volatile: bool,
    /// How it computes.
    pub body: Body,
}

impl Function {
    /// A function of its arguments alone; null when one of them is.
    #[must_use]
    pub const fn new(
        name: &'static str,
        arguments: &'static [Kind],
        result: Kind,
        body: Body,
    ) -> Self {
        Self {
            name,
            arguments,
            result,
            variadic: false,
            strict: true,
            immutable: true,
            volatile: false,
            body,
        }
    }

    /// Whether its results may be as long as its arguments.
    pub(super) const fn makes_long_values(&self) -> bool {
        matches!(
            self.result,
            Kind::Any
                | Kind::AnyArray
                | Kind::AnyElement
                | Kind::Is(DataType::Text | DataType::TextArray)
        )
    }

    /// It sees nulls.
    #[must_use]
    pub const fn null_aware(mut self) -> Self {
        self.strict = false;
        self
    }

    /// Its last argument may be repeated.
    #[must_use]
    pub const fn variadic(mut self) -> Self {
        self.variadic = true;
        self
    }

    /// It depends on the session or the catalog, too, but not within a statement.
    #[must_use]
    pub const fn stable(mut self) -> Self {
        self.immutable = false;
        self
    }

    /// Each call is its own.
    #[must_use]
    pub const fn volatile(mut self) -> Self {
        self.immutable = false;
        self.volatile = true;
        self
    }

    /// Its result.
    pub fn call(
        &self,
        values: &[Value],
        types: &[ColumnType],
        context: &mut EvaluationContext<'_>,
    ) -> Result<Value> {
        if self.strict && values.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        (self.body)(Arguments { values, types }, context)
    }

    fn kind(&self, position: usize) -> Option<Kind> {
        self.arguments
            .get(position)
            .or(if self.variadic {
                self.arguments.last()
            } else {
                None
            })
            .copied()
    }

    fn takes(&self, count: usize) -> bool {
        if self.variadic {
            count >= self.arguments.len()
        } else {
            count == self.arguments.len()
        }
    }

    /// The types its arguments are cast to, and the type it returns, for
    /// arguments of these types.
    #[must_use]
    pub fn signature(&self, types: &[DataType]) -> (Vec<DataType>, DataType) {
        let array = types.iter().enumerate().find_map(|(position, data_type)| {
            (self.kind(position) == Some(Kind::AnyArray)).then_some(*data_type)
        });
        let element = array.and_then(DataType::element).or_else(|| {
            types.iter().enumerate().find_map(|(position, data_type)| {
                (self.kind(position) == Some(Kind::AnyElement)).then_some(*data_type)
            })
        });
        let actual = |kind: Kind, given: DataType| match kind {
            Kind::Is(data_type) => data_type,
            Kind::AnyArray => array.unwrap_or(DataType::TextArray),
            Kind::AnyElement => element.unwrap_or(DataType::Text),
            Kind::Any if given == DataType::Unknown => DataType::Text,
            Kind::Any => given,
        };
        let arguments = types
            .iter()
            .enumerate()
            .map(|(position, given)| actual(self.kind(position).unwrap_or(Kind::Any), *given))
            .collect();
        (arguments, actual(self.result, DataType::Text))
    }
}

/// The type that its like prefer to become.
fn is_preferred(data_type: DataType) -> bool {
    matches!(
        data_type,
        DataType::Text | DataType::Float8 | DataType::Bool | DataType::TimestampTz | DataType::Oid
    )
}

/// Whether there is a function of this name.
pub(super) fn exists(name: &str, system: &SystemObjects) -> bool {
    functions::all(system).any(|function| function.name == name)
}

/// The function that a call with arguments of these types means; errors 42883,
/// 42725.
pub(super) fn resolve(
    name: &str,
    types: &[DataType],
    system: &SystemObjects,
) -> Result<&'static Function> {
    let accepts = |kind: Kind, given: DataType| match kind {
        Kind::Any | Kind::AnyElement => true,
        Kind::AnyArray => given.element().is_some() || given == DataType::Unknown,
        Kind::Is(wanted) => castable(given, wanted) == Some(CastContext::Implicit),
    };
    let candidates: Vec<&'static Function> = functions::all(system)
        .filter(|function| function.name == name && function.takes(types.len()))
        .filter(|function| {
            types.iter().enumerate().all(|(position, given)| {
                function
                    .kind(position)
                    .is_some_and(|kind| accepts(kind, *given))
            })
        })
        .collect();
    // Most exact matches first, then most preferred types; for literals strings.
    let score = |function: &Function| {
        let mut exact = 0;
        let mut preferred = 0;
        let mut strings = 0;
        for (position, given) in types.iter().enumerate() {
            match function.kind(position) {
                Some(Kind::Is(wanted)) => {
                    exact += usize::from(wanted == *given);
                    preferred += usize::from(is_preferred(wanted));
                    strings += usize::from(*given == DataType::Unknown && wanted == DataType::Text);
                }
                Some(Kind::AnyArray) => exact += usize::from(given.element().is_some()),
                _ => {}
            }
        }
        (exact, strings, preferred)
    };
    let Some(best) = candidates.iter().map(|function| score(function)).max() else {
        return Err(no_such_function(name, types));
    };
    let mut winners = candidates.iter().filter(|function| score(function) == best);
    match (winners.next(), winners.next()) {
        (Some(winner), None) => Ok(winner),
        _ => Err(Error::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("function {}({}) is not unique", name, list(types)),
        )
        .with_hint(
            "Could not choose a best candidate function. You might need to add explicit type casts.",
        )),
    }
}

fn list(types: &[DataType]) -> String {
    let names: Vec<&str> = types.iter().map(|each| each.sql_name()).collect();
    names.join(", ")
}

fn no_such_function(name: &str, types: &[DataType]) -> Error {
    Error::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {}({}) does not exist", name, list(types)),
    )
    .with_hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}
