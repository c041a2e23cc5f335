//! SQL functions that report whether the search path finds an object by its unqualified
//! name; null if the object does not exist.

use super::{BOOL, OID};
use crate::Value;
use crate::expression::Function;
use crate::system::object::procedure;
use crate::system::relation::relation_by_oid;
use crate::value::DataType;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("pg_table_is_visible", &[OID], BOOL, |a, context| {
        Ok(
            relation_by_oid(context.catalog, a.oid(0)).map_or(Value::Null, |relation| {
                Value::Bool(relation.is_visible(context))
            }),
        )
    })
    .stable(),
    // All types are in pg_catalog, which is always searched.
    Function::new("pg_type_is_visible", &[OID], BOOL, |a, _| {
        Ok(known(DataType::from_oid(a.oid(0)).is_some()))
    }),
    Function::new("pg_function_is_visible", &[OID], BOOL, |a, _| {
        Ok(known(procedure::name(a.oid(0)).is_some()))
    }),
    built_in("pg_opclass_is_visible"),
    built_in("pg_opfamily_is_visible"),
    built_in("pg_collation_is_visible"),
    // Objects of these kinds do not exist.
    absent("pg_operator_is_visible"),
    absent("pg_conversion_is_visible"),
    absent("pg_statistics_obj_is_visible"),
    absent("pg_ts_config_is_visible"),
    absent("pg_ts_dict_is_visible"),
    absent("pg_ts_parser_is_visible"),
    absent("pg_ts_template_is_visible"),
];

fn known(exists: bool) -> Value {
    if exists {
        Value::Bool(true)
    } else {
        Value::Null
    }
}

const fn built_in(name: &'static str) -> Function {
    Function::new(name, &[OID], BOOL, |_, _| Ok(Value::Bool(true)))
}

const fn absent(name: &'static str) -> Function {
    Function::new(name, &[OID], BOOL, |_, _| Ok(Value::Null))
}
