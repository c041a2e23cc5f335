//! Privileges: whoever is connected may do everything.

use super::{ANY, BOOL};
use crate::Value;
use crate::expression::{Function, Kind};

pub(super) const FUNCTIONS: &[Function] = &[
    granted("has_table_privilege", &[ANY, ANY]),
    granted("has_table_privilege", &[ANY, ANY, ANY]),
    granted("has_any_column_privilege", &[ANY, ANY]),
    granted("has_any_column_privilege", &[ANY, ANY, ANY]),
    granted("has_column_privilege", &[ANY, ANY, ANY]),
    granted("has_column_privilege", &[ANY, ANY, ANY, ANY]),
    granted("has_sequence_privilege", &[ANY, ANY]),
    granted("has_sequence_privilege", &[ANY, ANY, ANY]),
    granted("has_schema_privilege", &[ANY, ANY]),
    granted("has_schema_privilege", &[ANY, ANY, ANY]),
    granted("has_database_privilege", &[ANY, ANY]),
    granted("has_database_privilege", &[ANY, ANY, ANY]),
    granted("has_function_privilege", &[ANY, ANY]),
    granted("has_function_privilege", &[ANY, ANY, ANY]),
    granted("has_type_privilege", &[ANY, ANY]),
    granted("has_type_privilege", &[ANY, ANY, ANY]),
    granted("has_language_privilege", &[ANY, ANY]),
    granted("has_language_privilege", &[ANY, ANY, ANY]),
    granted("has_tablespace_privilege", &[ANY, ANY]),
    granted("has_tablespace_privilege", &[ANY, ANY, ANY]),
    granted("has_foreign_data_wrapper_privilege", &[ANY, ANY]),
    granted("has_foreign_data_wrapper_privilege", &[ANY, ANY, ANY]),
    granted("has_server_privilege", &[ANY, ANY]),
    granted("has_server_privilege", &[ANY, ANY, ANY]),
    granted("has_parameter_privilege", &[ANY, ANY]),
    granted("has_parameter_privilege", &[ANY, ANY, ANY]),
    granted("pg_has_role", &[ANY, ANY]),
    granted("pg_has_role", &[ANY, ANY, ANY]),
    Function::new("row_security_active", &[ANY], BOOL, |_, _| {
        Ok(Value::Bool(false))
    })
    .stable(),
];

const fn granted(name: &'static str, arguments: &'static [Kind]) -> Function {
    Function::new(name, arguments, BOOL, |_, _| Ok(Value::Bool(true))).stable()
}
