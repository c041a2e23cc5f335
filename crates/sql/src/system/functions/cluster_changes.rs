//! SQL functions that change the cluster's membership. They are for superusers, and
//! record a request that the session carries out; see `crate::session`.

use coeval_env::Location;

use super::{INT8, TEXT, VOID};
use crate::error::{Error, Result, SqlState};
use crate::expression::{Arguments, EvaluationContext, Function, Place};
use crate::instance::{ClusterChange, alone};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("coeval.cluster_add", &[INT8, TEXT], VOID, |a, context| {
        let node = node(a)?;
        let text = a.text(1);
        let address: Location = text.parse().map_err(|_| {
            invalid(format!("\"{text}\" is not a host and a port")).with_hint(
                "Write it as db4.example.com:7001, 192.0.2.7:7001 or [2001:db8::7]:7001.",
            )
        })?;
        ask(ClusterChange::Add { node, address }, context)
    })
    .volatile(Place::Leader),
    Function::new("coeval.cluster_remove", &[INT8], VOID, |a, context| {
        let node = node(a)?;
        ask(ClusterChange::Remove { node }, context)
    })
    .volatile(Place::Leader),
    Function::new("coeval.cluster_transfer", &[INT8], VOID, |a, context| {
        let node = node(a)?;
        ask(ClusterChange::Transfer { node }, context)
    })
    .volatile(Place::Leader),
];

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn node(a: Arguments<'_>) -> Result<u64> {
    let node = u64::try_from(a.integer(0)).ok().filter(|node| *node > 0);
    node.ok_or_else(|| invalid(format!("{} is no number of a node", a.integer(0))))
}

/// Fails unless the session's role is a superuser and the server is part of a cluster.
fn check(context: &EvaluationContext<'_>) -> Result<()> {
    let access = context.catalog.access();
    if !access.is_superuser(context.session.role) {
        return Err(Error::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            "must be superuser to change the cluster",
        ));
    }
    let host = context.session.around.host();
    let cluster = host.and_then(|host| host.cluster());
    cluster.map(|_| ()).ok_or_else(alone)
}

fn ask(change: ClusterChange, context: &EvaluationContext<'_>) -> Result<Value> {
    check(context)?;
    match context.settings {
        Some(session) => session.change_cluster(change)?,
        None => return Err(Error::unsupported("a change of the cluster here")),
    }
    Ok(Value::Text("".into()))
}
