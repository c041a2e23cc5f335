//! The part that EDN and JSON have in common: what an event is made of.

/// One datum.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// `nil`, `null`.
    Nil,
    /// `true` and `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A keyword without its colon, a symbol, or a string.
    Text(String),
    /// A vector, a list or a set.
    Sequence(Vec<Value>),
    /// A map.
    Map(Vec<(Value, Value)>),
    /// What no event needs: fractions, characters.
    Other,
}

impl Value {
    /// The value under a name in a map.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let Self::Map(entries) = self else {
            return None;
        };
        entries
            .iter()
            .find(|(key, _)| matches!(key, Self::Text(text) if text == name))
            .map(|(_, value)| value)
    }

    /// What to call it in a complaint.
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
