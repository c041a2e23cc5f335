//! Built-in SQL functions that fit no other group, such as `num_nulls`.

use super::kinds::{ANY, INT4, TEXT};
use crate::expression::function::Function;
use crate::value::{ColumnType, DataType, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("num_nulls", &[ANY], INT4, |a, _| {
        let nulls = a.values.iter().filter(|value| value.is_null()).count();
        Ok(Value::Int4(nulls as i32))
    })
    .null_aware()
    .variadic(),
    Function::new("num_nonnulls", &[ANY], INT4, |a, _| {
        let present = a.values.iter().filter(|value| !value.is_null()).count();
        Ok(Value::Int4(present as i32))
    })
    .null_aware()
    .variadic(),
    Function::new("text", &[ANY], TEXT, |a, context| {
        let given = a
            .types
            .first()
            .copied()
            .unwrap_or(ColumnType::from(DataType::Text));
        Ok(a.values
            .first()
            .and_then(|value| value.to_text(given, &context.session.style))
            .map_or(Value::Null, Value::Text))
    })
    .stable(),
];
