//! The data model that EDN and JSON have in common: the values of which events are made.

/// One datum of an event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// `nil` in EDN, `null` in JSON.
    Nil,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer of 64 bits.
    Integer(i64),
    /// A keyword without its colon, a symbol, or a string.
    Text(String),
    /// A vector, a list or a set.
    Sequence(Vec<Value>),
    /// A map.
    Map(Vec<(Value, Value)>),
    /// Any datum that events do not use: fractions, characters.
    Other,
}

impl Value {
    /// The value of a map under this name.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let Self::Map(entries) = self else {
            return None;
        };
        entries
            .iter()
            .find(|(key, _)| matches!(key, Self::Text(text) if text == name))
            .map(|(_, value)| value)
    }

    /// The kind of the datum, for error messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Boolean(_) => "a boolean",
            Self::Integer(_) => "a number",
            Self::Text(_) => "a word",
            Self::Sequence(_) => "a sequence",
            Self::Map(_) => "a map",
            Self::Other => "something else",
        }
    }
}
