//! Function definitions and overload resolution: name, parameter types and result type
//! of each function, and the choice among overloads.

use super::coerce::{CastContext, castable};
use super::{EvaluationContext, SystemObjects, functions};
use crate::value::{ColumnType, DataType};
use crate::{Error, Result, SqlState, Value};

/// The type of a parameter or of a result in a function's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// Exactly this type.
    Is(DataType),
    /// A value of any type.
    Any,
    /// An array with any element type.
    AnyArray,
    /// The element type of the `AnyArray` argument.
    AnyElement,
}

/// Arguments of a function call.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// Values of the arguments.
    pub values: &'a [Value],
    /// Types of the arguments.
    pub types: &'a [ColumnType],
}

impl<'a> Arguments<'a> {
    /// A string argument; empty if the value is not a string.
    #[must_use]
    pub fn text(&self, position: usize) -> &'a str {
        match self.values.get(position) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// The bytes of a `bytea` or a string argument; none if the value is neither.
    #[must_use]
    pub fn bytes(&self, position: usize) -> &'a [u8] {
        match self.values.get(position) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => self.text(position).as_bytes(),
        }
    }

    /// An integer argument; 0 if the value is not an integer.
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

    /// An OID argument; 0 if the value is not an OID.
    #[must_use]
    pub fn oid(&self, position: usize) -> u32 {
        match self.values.get(position) {
            Some(Value::Oid(number) | Value::Object(number, _)) => *number,
            _ => 0,
        }
    }

    /// A double argument; 0 if the value is not a double.
    #[must_use]
    pub fn double(&self, position: usize) -> f64 {
        match self.values.get(position) {
            Some(Value::Float8(number)) => *number,
            _ => 0.0,
        }
    }

    /// A boolean argument; false if the value is not a boolean.
    #[must_use]
    pub fn truth(&self, position: usize) -> bool {
        matches!(self.values.get(position), Some(Value::Bool(true)))
    }
}

/// Implementation of a function.
pub type Body = fn(Arguments<'_>, &mut EvaluationContext<'_>) -> Result<Value>;

/// The nodes of a cluster that can execute a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Every node with a snapshot: the result follows from the arguments, the snapshot, the
    /// session's state and the node's clock.
    Anywhere,
    /// The leader only: the result depends on what its process alone knows, or the call has
    /// an effect there.
    Leader,
    /// The leader only, after it has asked the other nodes for the sessions that it does not
    /// know: the call interrupts one.
    Interrupts,
    /// The leader, and in a READ ONLY block the node where that is: the function reads or
    /// changes the session's settings.
    Session,
}

/// A built-in SQL function.
#[derive(Debug)]
pub struct Function {
    /// Name by which SQL calls the function.
    pub name: &'static str,
    /// Parameter types; a call may repeat the last one if `variadic`.
    pub arguments: &'static [ArgumentKind],
    /// Result type.
    pub result: ArgumentKind,
    /// Whether a call may repeat the last argument.
    pub variadic: bool,
    /// Whether a null argument makes the result null without a call.
    pub strict: bool,
    /// Whether equal arguments always give equal results.
    pub immutable: bool,
    /// Whether calls in one statement may give different results.
    pub volatile: bool,
    /// The nodes of a cluster that can execute it.
    pub place: Place,
    /// Implementation that the evaluator calls.
    pub body: Body,
}

impl Function {
    /// A function that depends on its arguments alone and is null if one of them is.
    #[must_use]
    pub const fn new(
        name: &'static str,
        arguments: &'static [ArgumentKind],
        result: ArgumentKind,
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
            place: Place::Anywhere,
            body,
        }
    }

    /// Whether the result may be longer than the arguments, so that the function claims
    /// memory itself.
    pub(super) const fn makes_long_values(&self) -> bool {
        matches!(
            self.result,
            ArgumentKind::Any
                | ArgumentKind::AnyArray
                | ArgumentKind::AnyElement
                | ArgumentKind::Is(
                    DataType::Text
                        | DataType::TextArray
                        | DataType::Bytea
                        | DataType::Json
                        | DataType::Jsonb
                )
        )
    }

    /// Declares that the function handles null arguments itself.
    #[must_use]
    pub const fn null_aware(mut self) -> Self {
        self.strict = false;
        self
    }

    /// Declares that a call may repeat the last argument.
    #[must_use]
    pub const fn variadic(mut self) -> Self {
        self.variadic = true;
        self
    }

    /// Declares that the result also depends on the session or the catalog, but is
    /// constant within a statement.
    #[must_use]
    pub const fn stable(mut self) -> Self {
        self.immutable = false;
        self
    }

    /// Declares that each call may give another result, and where it can be called: what
    /// is volatile may have an effect, or read the state of a process.
    #[must_use]
    pub const fn volatile(mut self, place: Place) -> Self {
        self.immutable = false;
        self.volatile = true;
        self.place = place;
        self
    }

    /// Declares that the result is constant within a statement, and depends on what the
    /// leader's process knows.
    #[must_use]
    pub const fn stable_on_leader(mut self) -> Self {
        self.immutable = false;
        self.place = Place::Leader;
        self
    }

    /// Declares that the result is constant within a statement, and depends on the settings
    /// of the session and its node.
    #[must_use]
    pub const fn stable_of_settings(mut self) -> Self {
        self.immutable = false;
        self.place = Place::Session;
        self
    }

    /// Calls the function.
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

    fn kind(&self, position: usize) -> Option<ArgumentKind> {
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

    /// For arguments of `types`: the types to which the binder casts them, and the
    /// result type.
    #[must_use]
    pub fn signature(&self, types: &[DataType]) -> (Vec<DataType>, DataType) {
        // A literal takes its type from the other argument.
        let known = |kind: ArgumentKind| {
            types.iter().enumerate().find_map(|(position, data_type)| {
                (self.kind(position) == Some(kind) && *data_type != DataType::Unknown)
                    .then_some(*data_type)
            })
        };
        let element = known(ArgumentKind::AnyElement);
        let array = known(ArgumentKind::AnyArray).or_else(|| element.and_then(DataType::array));
        let element = array.and_then(DataType::element).or(element);
        let actual = |kind: ArgumentKind, given: DataType| match kind {
            ArgumentKind::Is(data_type) => data_type,
            ArgumentKind::AnyArray => array.unwrap_or(DataType::TextArray),
            ArgumentKind::AnyElement => element.unwrap_or(DataType::Text),
            ArgumentKind::Any if given == DataType::Unknown => DataType::Text,
            ArgumentKind::Any => given,
        };
        let arguments = types
            .iter()
            .enumerate()
            .map(|(position, given)| {
                actual(self.kind(position).unwrap_or(ArgumentKind::Any), *given)
            })
            .collect();
        (arguments, actual(self.result, DataType::Text))
    }
}

/// Whether the type is the preferred type of its category in overload resolution.
fn is_preferred(data_type: DataType) -> bool {
    matches!(
        data_type,
        DataType::Text
            | DataType::Float8
            | DataType::Bool
            | DataType::TimestampTz
            | DataType::Interval
            | DataType::Oid
    )
}

/// Whether a function of this name exists.
pub(super) fn exists(name: &str, system: &SystemObjects) -> bool {
    functions::all(system).any(|function| function.name == name)
}

/// Overload resolution for a call with arguments of these types; errors 42883, 42725.
pub(super) fn resolve(
    name: &str,
    types: &[DataType],
    system: &SystemObjects,
) -> Result<&'static Function> {
    let accepts = |kind: ArgumentKind, given: DataType| match kind {
        ArgumentKind::Any | ArgumentKind::AnyElement => true,
        ArgumentKind::AnyArray => given.element().is_some() || given == DataType::Unknown,
        ArgumentKind::Is(wanted) => castable(given, wanted) == Some(CastContext::Implicit),
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
    // Prefers the most exact matches, then the most preferred types; for literals,
    // string parameters.
    let score = |function: &Function| {
        let mut exact = 0;
        let mut preferred = 0;
        let mut strings = 0;
        for (position, given) in types.iter().enumerate() {
            match function.kind(position) {
                Some(ArgumentKind::Is(wanted)) => {
                    exact += usize::from(wanted == *given);
                    preferred += usize::from(is_preferred(wanted));
                    strings += usize::from(*given == DataType::Unknown && wanted == DataType::Text);
                }
                Some(ArgumentKind::AnyArray) => exact += usize::from(given.element().is_some()),
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
