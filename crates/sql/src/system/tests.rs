//! Tests of invariants that every system table satisfies.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::table::all;
use super::*;
use crate::Value;
use crate::catalog::Catalog;
use crate::expression::{EvaluationContext, SessionInfo};
use crate::value::DataType;

pub(super) fn with_context<T>(body: impl FnOnce(&EvaluationContext<'_>) -> T) -> T {
    let session = SessionInfo {
        user: "somebody".into(),
        database: "something".into(),
        search_path: vec!["public".into()],
        ..SessionInfo::new(OBJECTS)
    };
    let catalog = Arc::new(Catalog::default());
    body(&EvaluationContext::new(&session, &catalog, &[], None))
}

#[test]
fn names_and_numbers_are_different() {
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for each in all() {
        assert!(names.insert((each.schema(), each.name)), "{}", each.name);
        assert!(numbers.insert(each.oid), "{}", each.name);
        let columns: BTreeSet<_> = each.columns.iter().map(|(name, _)| name).collect();
        assert_eq!(columns.len(), each.columns.len(), "{}", each.name);
        let found = table(each.schema(), each.name).map(|found| found.oid);
        assert_eq!(found, Some(each.oid));
    }
    assert!(table("public", "pg_class").is_none());
    assert!(table("information_schema", "pg_class").is_none());
}

/// Whether a column of this type can hold the value.
fn fits(value: &Value, data_type: DataType) -> bool {
    use DataType as T;
    match value {
        Value::Null => true,
        Value::Bool(_) => data_type == T::Bool,
        Value::Int2(_) => data_type == T::Int2,
        Value::Int4(_) => data_type == T::Int4,
        Value::Int8(_) => data_type == T::Int8,
        Value::Float4(_) => data_type == T::Float4,
        Value::Float8(_) => data_type == T::Float8,
        Value::Oid(_) => data_type == T::Oid,
        Value::Char(_) => data_type == T::InternalChar,
        Value::Text(_) => data_type.is_string(),
        Value::Object(..) => data_type == T::Regproc,
        Value::TimestampTz(_) => data_type == T::TimestampTz,
        Value::Interval(_) => data_type == T::Interval,
        Value::Uuid(_) => data_type == T::Uuid,
        Value::Array(elements) => data_type
            .element()
            .is_some_and(|element| elements.iter().all(|each| fits(each, element))),
        _ => false,
    }
}

#[test]
fn values_are_of_their_columns_types() {
    with_context(|context| {
        for each in all() {
            for row in each.rows(context) {
                assert_eq!(row.len(), each.columns.len(), "{}", each.name);
                for (value, (column, data_type)) in row.iter().zip(each.columns) {
                    assert!(
                        fits(value, *data_type),
                        "{}.{column}: {value:?} is no {data_type}",
                        each.name
                    );
                }
            }
        }
    });
}

#[test]
fn a_system_table_is_itself_a_relation() {
    with_context(|context| {
        let printed = |oid| object_by_oid(DataType::Regclass, oid, context);
        let named = |name| object_by_name(DataType::Regclass, name, context);
        let is = |value: Value, oid: u32, name: &str| {
            assert!(
                matches!(&value, Value::Object(number, text) if *number == oid && text == name),
                "{value:?}"
            );
        };
        is(printed(1259), 1259, "pg_class");
        is(named("PG_CATALOG.pg_class").unwrap(), 1259, "pg_class");
        is(
            named("information_schema.tables").unwrap(),
            13_425,
            "information_schema.tables",
        );
        is(printed(0), 0, "-");
        is(printed(77), 77, "77");
        is(named("77").unwrap(), 77, "77");
        for bad in ["nothing", "public.pg_class", "a.b.c.d", "", "99999999999"] {
            assert!(named(bad).is_err(), "{bad}");
        }
    });
}

/// What is volatile says where it can be called; what depends on the leader's process without
/// being volatile is listed here, so that a new function of that kind is thought about.
#[test]
fn functions_of_the_leader_are_known() {
    use crate::expression::Place;
    let all = || crate::expression::all_functions(super::OBJECTS);
    let named = |select: &dyn Fn(&crate::expression::Function) -> bool| {
        let mut names: Vec<_> = all()
            .filter(|each| select(each))
            .map(|each| each.name)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    assert_eq!(
        named(&|each| each.place == Place::Leader),
        [
            "coeval.cluster_add",
            "coeval.cluster_remove",
            "coeval.cluster_transfer",
            "coeval.last_commit",
            "currval",
            "lastval",
            "nextval",
            "pg_advisory_lock",
            "pg_advisory_lock_shared",
            "pg_advisory_unlock",
            "pg_advisory_unlock_all",
            "pg_advisory_unlock_shared",
            "pg_advisory_xact_lock",
            "pg_advisory_xact_lock_shared",
            "pg_blocking_pids",
            "pg_conf_load_time",
            "pg_current_xact_id",
            "pg_current_xact_id_if_assigned",
            "pg_postmaster_start_time",
            "pg_sequence_last_value",
            "pg_try_advisory_lock",
            "pg_try_advisory_lock_shared",
            "pg_try_advisory_xact_lock",
            "pg_try_advisory_xact_lock_shared",
            "pg_xact_status",
            "setval",
            "txid_current",
            "txid_current_if_assigned",
            "txid_status",
        ]
    );
    assert_eq!(
        named(&|each| each.place == Place::Interrupts),
        ["pg_cancel_backend", "pg_terminate_backend"]
    );
    assert_eq!(
        named(&|each| each.place == Place::Session),
        ["current_setting", "pg_client_encoding", "set_config"]
    );
    // Volatile, and still callable anywhere: clocks, chance, constants, sizes of the node's
    // own tables, and waits for what the executing node shows.
    assert_eq!(
        named(&|each| each.volatile && each.place == Place::Anywhere),
        [
            "clock_timestamp",
            "coeval.wait_for",
            "gen_random_bytes",
            "gen_random_uuid",
            "pg_database_size",
            "pg_indexes_size",
            "pg_is_in_recovery",
            "pg_relation_size",
            "pg_sleep",
            "pg_sleep_for",
            "pg_sleep_until",
            "pg_table_size",
            "pg_tablespace_size",
            "pg_total_relation_size",
            "random",
            "timeofday",
            "uuid_generate_v1",
            "uuid_generate_v1mc",
            "uuid_generate_v4",
        ]
    );
    let of_leader: Vec<_> = super::table::all()
        .filter(|table| table.is_of_leader())
        .map(|table| table.name)
        .collect();
    for name in [
        "cluster_status",
        "cluster_members",
        "replicas",
        "locks",
        "conflicts",
        "metrics",
        "pg_locks",
        "pg_settings",
        "pg_stat_replication",
    ] {
        assert!(of_leader.contains(&name), "{name}");
    }
    assert!(!of_leader.contains(&"pg_stat_activity"));
}
