//! SQL functions of sequences: `nextval` and its like. Numbers are handed out outside of
//! transactions; see [`crate::sequence`].

use std::sync::Arc;

use coeval_txn::{Engine, Error as TxnError, LockWait, TableLock};

use super::{BOOL, INT8, OID, REGCLASS, TEXT};
use crate::access::{ObjectKind, Privileges, denied};
use crate::catalog::{Object, Sequence, quote_identifier};
use crate::error::{Error, Result, SqlState};
use crate::expression::{ArgumentKind, Arguments, Body, EvaluationContext, Function, Place};
use crate::sequence::State;
use crate::system::object::find;
use crate::system::relation::{Relation, relation_by_oid};
use crate::value::{DataType, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("nextval", &[REGCLASS], INT8, |a, context| {
        let may = Privileges::USAGE.with(Privileges::UPDATE);
        let (object, sequence) = sequence(a.oid(0), may, context)?;
        next(&object, &sequence, context)
    })
    .volatile(Place::Leader),
    Function::new("currval", &[REGCLASS], INT8, |a, context| {
        let may = Privileges::USAGE.with(Privileges::SELECT);
        let (object, _) = sequence(a.oid(0), may, context)?;
        let given = context.session.sequences.current(object.oid);
        given.map(Value::Int8).ok_or_else(|| {
            undefined(format!(
                "currval of sequence \"{}\" is not yet defined in this session",
                object.name
            ))
        })
    })
    .volatile(Place::Leader),
    Function::new("lastval", &[], INT8, |_, context| {
        let last = context.session.sequences.last();
        let last = last.filter(|(oid, _)| context.catalog.sequence(*oid).is_some());
        let Some((oid, number)) = last else {
            let message = "lastval is not yet defined in this session";
            return Err(undefined(message.to_owned()));
        };
        let may = Privileges::USAGE.with(Privileges::SELECT);
        sequence(oid, may, context)?;
        Ok(Value::Int8(number))
    })
    .volatile(Place::Leader),
    Function::new("setval", &[REGCLASS, INT8], INT8, |a, context| {
        set(a, true, context)
    })
    .volatile(Place::Leader),
    Function::new("setval", &[REGCLASS, INT8, BOOL], INT8, |a, context| {
        set(a, a.truth(2), context)
    })
    .volatile(Place::Leader),
    Function::new("pg_sequence_last_value", &[REGCLASS], INT8, |a, context| {
        let may = Privileges::USAGE.with(Privileges::SELECT);
        let (object, sequence) = sequence(a.oid(0), may, context)?;
        Ok(last_value(&object, &sequence, context).map_or(Value::Null, Value::Int8))
    })
    .volatile(Place::Leader),
    Function::new("pg_get_serial_sequence", &[TEXT, TEXT], TEXT, of_column).stable(),
];

/// The default of an identity column: the next number of the sequence with this OID, for any
/// role that may write the table.
pub(crate) static NEXT_OF_IDENTITY: Function =
    Function::new("nextval", &[OID], INT8, |a, context| {
        let found = context.catalog.sequence(a.oid(0));
        let (object, sequence) = found
            .map(|(object, sequence)| (Arc::clone(object), *sequence))
            .ok_or_else(|| Error::internal("an identity column without its sequence"))?;
        next(&object, &sequence, context)
    })
    .volatile(Place::Leader);

/// The columns of a sequence that is read like a table: name, type, and the function of the
/// sequence's OID that computes it.
pub(crate) static SEQUENCE_COLUMNS: [(&str, DataType, Function); 3] = [
    (
        "last_value",
        DataType::Int8,
        column(INT8, |a, context| {
            Ok(read(a, context)?.map_or(Value::Null, |[last, ..]| Value::Int8(last)))
        }),
    ),
    (
        "log_cnt",
        DataType::Int8,
        column(INT8, |a, context| {
            Ok(read(a, context)?.map_or(Value::Null, |[_, ahead, _]| Value::Int8(ahead)))
        }),
    ),
    (
        "is_called",
        DataType::Bool,
        column(BOOL, |a, context| {
            Ok(read(a, context)?.map_or(Value::Null, |[.., called]| Value::Bool(called != 0)))
        }),
    ),
];

/// The columns of `pg_sequence_parameters`: name, type, and the function of the sequence's OID
/// that computes it.
pub(crate) static SEQUENCE_PARAMETERS: [(&str, DataType, Function); 7] = [
    parameter("start_value", |a, context| {
        Ok(Value::Int8(parameters(a, context)?.counting.start))
    }),
    parameter("minimum_value", |a, context| {
        Ok(Value::Int8(parameters(a, context)?.counting.minimum))
    }),
    parameter("maximum_value", |a, context| {
        Ok(Value::Int8(parameters(a, context)?.counting.maximum))
    }),
    parameter("increment", |a, context| {
        Ok(Value::Int8(parameters(a, context)?.counting.increment))
    }),
    (
        "cycle_option",
        DataType::Bool,
        Function::new("sequence", &[OID], BOOL, |a, context| {
            Ok(Value::Bool(parameters(a, context)?.counting.cycle))
        })
        .stable(),
    ),
    parameter("cache_size", |a, context| {
        Ok(Value::Int8(parameters(a, context)?.counting.cache))
    }),
    (
        "data_type",
        DataType::Oid,
        Function::new("sequence", &[OID], OID, |a, context| {
            Ok(Value::Oid(parameters(a, context)?.data_type.oid()))
        })
        .stable(),
    ),
];

const fn parameter(name: &'static str, body: Body) -> (&'static str, DataType, Function) {
    let function = Function::new("sequence", &[OID], INT8, body).stable();
    (name, DataType::Int8, function)
}

/// How a sequence counts on which the role has any privilege.
fn parameters(a: Arguments<'_>, context: &EvaluationContext<'_>) -> Result<Sequence> {
    let (_, sequence) = sequence(a.oid(0), Privileges::SEQUENCE, context)?;
    Ok(sequence)
}

const fn column(result: ArgumentKind, body: Body) -> Function {
    Function::new("sequence", &[OID], result, body).volatile(Place::Leader)
}

/// Where a sequence is that a statement reads like a table, and so has the privileges to.
fn read(a: Arguments<'_>, context: &EvaluationContext<'_>) -> Result<Option<[i64; 3]>> {
    let found = context.catalog.sequence(a.oid(0));
    let (object, sequence) = found.ok_or_else(|| Error::internal("a planned sequence is gone"))?;
    Ok(progress(object, sequence, context))
}

fn undefined(message: String) -> Error {
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

fn engine<'a>(context: &EvaluationContext<'a>) -> Result<&'a dyn Engine> {
    let engine = context.engine;
    engine.ok_or_else(|| Error::unsupported("a function of sequences here"))
}

/// The sequence with this OID, of which the role has any of these privileges.
fn sequence(
    oid: u32,
    any: Privileges,
    context: &EvaluationContext<'_>,
) -> Result<(Arc<Object>, Sequence)> {
    let Some((object, sequence)) = context.catalog.sequence(oid) else {
        return Err(match relation_by_oid(context.catalog, oid) {
            Some(relation) => Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a sequence", relation.name()),
            ),
            None => Error::new(
                SqlState::UNDEFINED_TABLE,
                format!("could not open relation with OID {oid}"),
            ),
        });
    };
    let (access, role) = (context.catalog.access(), context.session.role);
    if !access.is_superuser(role) {
        let may = access.privileges(role, &object.owned, ObjectKind::Sequence);
        if may.both(any).is_none() {
            return Err(denied("sequence", &object.name));
        }
    }
    Ok((Arc::clone(object), *sequence))
}

fn state<'a>(object: &'a Object, sequence: &Sequence) -> State<'a> {
    State {
        number: sequence.state,
        origin: sequence.origin,
        counting: sequence.counting,
        name: &object.name,
    }
}

/// Makes sure that the sequence is what the catalog says it is until the transaction ends. A
/// statement that names it has the lock already; one that computes its name cannot wait here.
fn lock(
    object: &Object,
    sequence: &Sequence,
    what: &str,
    context: &mut EvaluationContext<'_>,
) -> Result<()> {
    let modes = context.settings;
    let read_only = modes.and_then(|modes| modes.show_setting("transaction_read_only").ok());
    if read_only.as_deref() == Some("on") {
        return Err(Error::new(
            SqlState::READ_ONLY_SQL_TRANSACTION,
            format!("cannot execute {what} in a read-only transaction"),
        ));
    }
    let waker = context.waker.clone();
    let Some(transaction) = &mut context.transaction else {
        return Err(Error::unsupported("a function of sequences here"));
    };
    let (mode, wait) = (TableLock::RowExclusive, LockWait::NoWait);
    let (storage, version) = (sequence.storage, sequence.schema_version);
    let mut task = std::task::Context::from_waker(&waker);
    match transaction.poll_lock_table(storage, mode, wait, version, &mut task) {
        std::task::Poll::Ready(Err(TxnError::LockNotAvailable(_))) => Err(Error::new(
            SqlState::LOCK_NOT_AVAILABLE,
            format!("could not obtain lock on relation \"{}\"", object.name),
        )),
        std::task::Poll::Ready(locked) => locked.map_err(Error::from),
        std::task::Poll::Pending => Err(Error::internal("a lock that waits")),
    }
}

fn next(
    object: &Object,
    sequence: &Sequence,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    lock(object, sequence, "nextval()", context)?;
    let session = &context.session.sequences;
    let counting = &sequence.counting;
    if let Some(number) = session.take_cached(object.oid, sequence.state, counting) {
        return Ok(Value::Int8(number));
    }
    let sequences = &context.session.around.sequences;
    let (step, commit) = sequences.next(&state(object, sequence), engine(context)?)?;
    context.session.numbered.tell(commit);
    session.note(object.oid, sequence.state, &step);
    Ok(Value::Int8(step.first))
}

fn set(a: Arguments<'_>, is_called: bool, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let (object, sequence) = sequence(a.oid(0), Privileges::UPDATE, context)?;
    lock(&object, &sequence, "setval()", context)?;
    let number = a.integer(1);
    let (minimum, maximum) = (sequence.counting.minimum, sequence.counting.maximum);
    if !(minimum..=maximum).contains(&number) {
        return Err(Error::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!(
                "setval: value {number} is out of bounds for sequence \"{}\" ({minimum}..{maximum})",
                object.name
            ),
        ));
    }
    let session = context.session;
    let commit = session.around.sequences.set(
        &state(&object, &sequence),
        (number, is_called),
        engine(context)?,
    )?;
    session.numbered.tell(commit);
    session.sequences.note_set(object.oid, number, is_called);
    Ok(Value::Int8(number))
}

/// The last number of a sequence, if it has handed out one.
pub(in crate::system) fn last_value(
    object: &Object,
    sequence: &Sequence,
    context: &EvaluationContext<'_>,
) -> Option<i64> {
    let [last, _, called] = progress(object, sequence, context)?;
    (called != 0).then_some(last)
}

/// Where a sequence is: its columns `last_value` and `log_cnt`, and whether it is called.
pub(in crate::system) fn progress(
    object: &Object,
    sequence: &Sequence,
    context: &EvaluationContext<'_>,
) -> Option<[i64; 3]> {
    let sequences = &context.session.around.sequences;
    let (progress, commit) = sequences
        .look(&state(object, sequence), context.engine?)
        .ok()?;
    context.session.numbered.tell(commit);
    let called = i64::from(progress.is_called);
    Some([progress.last, progress.reserved, called])
}

/// `pg_get_serial_sequence`: the sequence that belongs to a column.
fn of_column(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let (table_name, column_name) = (a.text(0), a.text(1));
    let missing = || {
        Error::new(
            SqlState::UNDEFINED_TABLE,
            format!("relation \"{table_name}\" does not exist"),
        )
    };
    let oid = find(DataType::Regclass, table_name, context)?.ok_or_else(missing)?;
    let column = match relation_by_oid(context.catalog, oid).ok_or_else(missing)? {
        Relation::Table(table) => table
            .columns
            .iter()
            .find(|column| column.name == column_name)
            .map(|column| column.attribute),
        other => other
            .attributes()
            .iter()
            .find(|attribute| attribute.name == column_name)
            .map(|attribute| attribute.number),
    };
    let Some(attribute) = column else {
        let name = relation_by_oid(context.catalog, oid).map_or("", Relation::name);
        return Err(Error::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{column_name}\" of relation \"{name}\" does not exist"),
        ));
    };
    let found = context.catalog.sequence_of_column(oid, attribute);
    Ok(found.map_or(Value::Null, |(object, _)| {
        Value::text(format!("public.{}", quote_identifier(&object.name)))
    }))
}
