//! System tables of sequences: `pg_sequence`, and the views over them.

use super::information::yes_or_no;
use crate::access::{ObjectKind, Privileges};
use crate::expression::EvaluationContext;
use crate::system::functions::sequences::last_value;
use crate::system::table::system_table;
use crate::system::{object_by_oid, role_name};
use crate::value::DataType;

system_table! {
    /// How sequences count.
    PG_SEQUENCE = PG_CATALOG 2224 Table pg_sequence;
    context => context.catalog.sequences();
    (object, sequence) => {
        seqrelid: Oid = object.oid,
        seqtypid: Oid = sequence.data_type.oid(),
        seqstart: Int8 = sequence.counting.start,
        seqincrement: Int8 = sequence.counting.increment,
        seqmax: Int8 = sequence.counting.maximum,
        seqmin: Int8 = sequence.counting.minimum,
        seqcache: Int8 = sequence.counting.cache,
        seqcycle: Bool = sequence.counting.cycle,
    }
}

system_table! {
    /// Sequences, by name, with their last numbers.
    PG_SEQUENCES = PG_CATALOG 12048 View pg_sequences;
    context => context.catalog.sequences();
    (object, sequence) => {
        schemaname: Name = "public",
        sequencename: Name = &object.name,
        sequenceowner: Name = role_name(object.owned.owner, context),
        data_type: Regtype = object_by_oid(DataType::Regtype, sequence.data_type.oid(), context),
        start_value: Int8 = sequence.counting.start,
        min_value: Int8 = sequence.counting.minimum,
        max_value: Int8 = sequence.counting.maximum,
        increment_by: Int8 = sequence.counting.increment,
        cycle: Bool = sequence.counting.cycle,
        cache_size: Int8 = sequence.counting.cache,
        last_value: Int8 = may_see(object, Privileges::SELECT.with(Privileges::USAGE), context)
            .then(|| last_value(object, sequence, context))
            .flatten(),
    }
}

/// Whether the current role owns a sequence, or has any of these privileges on it.
fn may_see(
    object: &crate::catalog::Object,
    any: Privileges,
    context: &EvaluationContext<'_>,
) -> bool {
    let (access, role) = (context.catalog.access(), context.session.role);
    let may = access.privileges(role, &object.owned, ObjectKind::Sequence);
    access.has_privileges_of(role, object.owned.owner) || !may.both(any).is_none()
}

system_table! {
    /// Sequences that the current role may see, but for those of identity columns.
    SEQUENCES = INFORMATION_SCHEMA 13386 View sequences;
    context => context.catalog.sequences().filter(|(object, sequence)| {
        !sequence.is_identity && may_see(object, Privileges::SEQUENCE, context)
    });
    (object, sequence) => {
        sequence_catalog: Name = context.session.database.clone(),
        sequence_schema: Name = "public",
        sequence_name: Name = &object.name,
        data_type: VarChar = sequence.data_type.sql_name(),
        numeric_precision: Int4 = match sequence.data_type {
            DataType::Int2 => 16i32,
            DataType::Int4 => 32,
            _ => 64,
        },
        numeric_precision_radix: Int4 = 2i32,
        numeric_scale: Int4 = 0i32,
        start_value: VarChar = sequence.counting.start.to_string(),
        minimum_value: VarChar = sequence.counting.minimum.to_string(),
        maximum_value: VarChar = sequence.counting.maximum.to_string(),
        increment: VarChar = sequence.counting.increment.to_string(),
        cycle_option: VarChar = yes_or_no(sequence.counting.cycle),
    }
}
