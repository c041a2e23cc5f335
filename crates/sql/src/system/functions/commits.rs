//! SQL functions about commits: the newest one of the session, and a wait for one of another
//! session.

use coeval_types::Timestamp;

use super::{BOOL, TEXT};
use crate::error::{Error, Result, SqlState};
use crate::expression::{Arguments, EvaluationContext, Function, Place};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("coeval.last_commit", &[], TEXT, |_, context| {
        let session = context.settings;
        let commit = session.and_then(|session| session.last_commit());
        Ok(commit.map_or(Value::Null, |commit| Value::text(commit.to_string())))
    })
    .volatile(Place::Leader),
    Function::new("coeval.wait_for", &[TEXT], BOOL, wait_for).volatile(Place::Anywhere),
    Function::new("coeval.wait_for", &[TEXT, TEXT], BOOL, wait_for).volatile(Place::Anywhere),
];

fn wait_for(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let text = a.text(0);
    let commit = Timestamp::parse(text).ok_or_else(|| {
        let message = format!("\"{text}\" is no commit");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
            .with_hint("A commit is what coeval.last_commit() has returned, such as 3/81920.")
    })?;
    let limit = a.values.get(1).map(|_| a.text(1));
    match context.settings {
        Some(session) => session.wait_for_commit(commit, limit)?,
        None => return Err(Error::unsupported("a wait for a commit here")),
    }
    Ok(Value::Bool(true))
}
