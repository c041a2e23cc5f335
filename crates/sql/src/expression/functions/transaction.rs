//! SQL functions for transaction ids and outcomes: the session's own transaction id,
//! and whether another transaction committed. PostgreSQL's newer functions return type
//! xid8, which is a bigint here.

use super::kinds::{INT8, TEXT};
use crate::expression::EvaluationContext;
use crate::expression::function::{Arguments, Function, Place};
use crate::outcome::TransactionNumber;
use crate::{Error, Result, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("txid_current", &[], INT8, current).stable_on_leader(),
    Function::new("pg_current_xact_id", &[], INT8, current).stable_on_leader(),
    Function::new("txid_current_if_assigned", &[], INT8, if_assigned).stable_on_leader(),
    Function::new("pg_current_xact_id_if_assigned", &[], INT8, if_assigned).stable_on_leader(),
    Function::new("txid_status", &[INT8], TEXT, status).volatile(Place::Leader),
    Function::new("pg_xact_status", &[INT8], TEXT, status).volatile(Place::Leader),
];

fn current(_: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    context.session.numbered.number().map(shown)
}

fn if_assigned(_: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let number = context.session.numbered.number_if_assigned()?;
    Ok(number.map_or(Value::Null, shown))
}

fn shown(number: TransactionNumber) -> Value {
    Value::Int8(number.0 as i64)
}

fn status(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let Some(engine) = context.engine else {
        return Err(Error::unsupported("the status of a transaction here"));
    };
    let status = context.session.numbered.status(a.integer(0), engine)?;
    Ok(status.map_or(Value::Null, Value::text))
}
