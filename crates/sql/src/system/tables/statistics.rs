//! The statistics views of tables and indexes (`pg_stat_user_tables` and its like), of the
//! log and of checkpoints.
//!
//! What the engine counts for each table is how many rows it has; the other counters are
//! null, which is PostgreSQL's value for what is not known. No block is read from a disk,
//! so counters of such reads are 0.

use std::sync::Arc;

use crate::Value;
use crate::catalog::{Index, Table};
use crate::expression::EvaluationContext;
use crate::system::relation::{Relation, indexes, relations};
use crate::system::table::{SystemTable, empty_tables, system_table};
use crate::system::{DATABASE, PUBLIC as PUBLIC_NAMESPACE, schema_name};

/// Number of a table's rows, if the engine knows it.
fn live_rows(relation: Relation<'_>, context: &EvaluationContext<'_>) -> Option<i64> {
    let Relation::Table(table) = relation else {
        return None;
    };
    let rows = context.engine?.estimated_rows(table.storage);
    i64::try_from(rows).ok()
}

/// Tables of the system, of users, or both.
fn tables<'a>(
    context: &'a EvaluationContext<'_>,
    system: bool,
    users: bool,
) -> impl Iterator<Item = Relation<'a>> {
    relations(context.catalog).filter(move |each| {
        let of_system = matches!(each, Relation::System(_));
        each.kind() == b'r' && if of_system { system } else { users }
    })
}

/// All indexes, which are those of users: system tables have none.
fn all_indexes<'a>(
    context: &'a EvaluationContext<'_>,
) -> impl Iterator<Item = (&'a Arc<Table>, &'a Arc<Index>)> {
    indexes(context.catalog)
}

macro_rules! views_of_tables {
    ($($constant:ident $oid:literal $name:ident $system:literal $users:literal;)*) => {$(
        system_table! {
            /// Statistics of tables.
            $constant = PG_CATALOG $oid View $name;
            context => tables(context, $system, $users);
            each => {
                relid: Oid = each.oid(),
                schemaname: Name = schema_name(each.namespace()),
                relname: Name = each.name(),
                seq_scan: Int8 = Value::Null,
                seq_tup_read: Int8 = Value::Null,
                idx_scan: Int8 = Value::Null,
                idx_tup_fetch: Int8 = Value::Null,
                n_tup_ins: Int8 = Value::Null,
                n_tup_upd: Int8 = Value::Null,
                n_tup_del: Int8 = Value::Null,
                n_tup_hot_upd: Int8 = Value::Null,
                n_live_tup: Int8 = live_rows(each, context),
                n_dead_tup: Int8 = Value::Null,
                n_mod_since_analyze: Int8 = Value::Null,
                n_ins_since_vacuum: Int8 = Value::Null,
                last_vacuum: TimestampTz = Value::Null,
                last_autovacuum: TimestampTz = Value::Null,
                last_analyze: TimestampTz = Value::Null,
                last_autoanalyze: TimestampTz = Value::Null,
                vacuum_count: Int8 = Value::Null,
                autovacuum_count: Int8 = Value::Null,
                analyze_count: Int8 = Value::Null,
                autoanalyze_count: Int8 = Value::Null,
            }
        }
    )*};
}

views_of_tables! {
    PG_STAT_ALL_TABLES 12137 pg_stat_all_tables true true;
    PG_STAT_SYS_TABLES 12145 pg_stat_sys_tables true false;
    PG_STAT_USER_TABLES 12154 pg_stat_user_tables false true;
}

macro_rules! views_of_blocks {
    ($($constant:ident $oid:literal $name:ident $system:literal $users:literal;)*) => {$(
        system_table! {
            /// Blocks of tables that were read.
            $constant = PG_CATALOG $oid View $name;
            context => tables(context, $system, $users);
            each => {
                relid: Oid = each.oid(),
                schemaname: Name = schema_name(each.namespace()),
                relname: Name = each.name(),
                heap_blks_read: Int8 = 0_i64,
                heap_blks_hit: Int8 = 0_i64,
                idx_blks_read: Int8 = 0_i64,
                idx_blks_hit: Int8 = 0_i64,
                toast_blks_read: Int8 = Value::Null,
                toast_blks_hit: Int8 = Value::Null,
                tidx_blks_read: Int8 = Value::Null,
                tidx_blks_hit: Int8 = Value::Null,
            }
        }
    )*};
}

views_of_blocks! {
    PG_STATIO_ALL_TABLES 12163 pg_statio_all_tables true true;
    PG_STATIO_SYS_TABLES 12168 pg_statio_sys_tables true false;
    PG_STATIO_USER_TABLES 12172 pg_statio_user_tables false true;
}

macro_rules! views_of_indexes {
    ($($constant:ident $oid:literal $name:ident;)*) => {$(
        system_table! {
            /// Statistics of indexes.
            $constant = PG_CATALOG $oid View $name;
            context => all_indexes(context);
            (table, index) => {
                relid: Oid = table.oid,
                indexrelid: Oid = index.oid,
                schemaname: Name = schema_name(PUBLIC_NAMESPACE),
                relname: Name = &table.name,
                indexrelname: Name = &index.name,
                idx_scan: Int8 = Value::Null,
                idx_tup_read: Int8 = Value::Null,
                idx_tup_fetch: Int8 = Value::Null,
            }
        }
    )*};
}

views_of_indexes! {
    PG_STAT_ALL_INDEXES 12176 pg_stat_all_indexes;
    PG_STAT_USER_INDEXES 12185 pg_stat_user_indexes;
}

macro_rules! views_of_index_blocks {
    ($($constant:ident $oid:literal $name:ident;)*) => {$(
        system_table! {
            /// Blocks of indexes that were read.
            $constant = PG_CATALOG $oid View $name;
            context => all_indexes(context);
            (table, index) => {
                relid: Oid = table.oid,
                indexrelid: Oid = index.oid,
                schemaname: Name = schema_name(PUBLIC_NAMESPACE),
                relname: Name = &table.name,
                indexrelname: Name = &index.name,
                idx_blks_read: Int8 = 0_i64,
                idx_blks_hit: Int8 = 0_i64,
            }
        }
    )*};
}

views_of_index_blocks! {
    PG_STATIO_ALL_INDEXES 12189 pg_statio_all_indexes;
    PG_STATIO_USER_INDEXES 12198 pg_statio_user_indexes;
}

system_table! {
    /// Statements that were canceled because a standby had to replay: none, because reads
    /// of a follower do not hold replay up.
    PG_STAT_DATABASE_CONFLICTS = PG_CATALOG 12251 View pg_stat_database_conflicts;
    context => [context.session.database.clone()];
    name => {
        datid: Oid = DATABASE,
        datname: Name = name,
        confl_tablespace: Int8 = 0_i64,
        confl_lock: Int8 = 0_i64,
        confl_snapshot: Int8 = 0_i64,
        confl_bufferpin: Int8 = 0_i64,
        confl_deadlock: Int8 = 0_i64,
    }
}

system_table! {
    /// Checkpoints and buffers, which the metrics of the server count in its own terms.
    PG_STAT_BGWRITER = PG_CATALOG 12268 View pg_stat_bgwriter;
    _context => [()];
    () => {
        checkpoints_timed: Int8 = Value::Null,
        checkpoints_req: Int8 = Value::Null,
        checkpoint_write_time: Float8 = Value::Null,
        checkpoint_sync_time: Float8 = Value::Null,
        buffers_checkpoint: Int8 = 0_i64,
        buffers_clean: Int8 = 0_i64,
        maxwritten_clean: Int8 = 0_i64,
        buffers_backend: Int8 = 0_i64,
        buffers_backend_fsync: Int8 = 0_i64,
        buffers_alloc: Int8 = 0_i64,
        stats_reset: TimestampTz = Value::Null,
    }
}

system_table! {
    /// Archived segments of the log: there are none.
    PG_STAT_ARCHIVER = PG_CATALOG 12264 View pg_stat_archiver;
    _context => [()];
    () => {
        archived_count: Int8 = 0_i64,
        last_archived_wal: Text = Value::Null,
        last_archived_time: TimestampTz = Value::Null,
        failed_count: Int8 = 0_i64,
        last_failed_wal: Text = Value::Null,
        last_failed_time: TimestampTz = Value::Null,
        stats_reset: TimestampTz = Value::Null,
    }
}

/// Views of what does not happen here.
pub(super) const NOTHING: &[SystemTable] = empty_tables! {
    PG_CATALOG;
    12255 View pg_stat_user_functions {
        funcid: Oid, schemaname: Name, funcname: Name, calls: Int8, total_time: Float8,
        self_time: Float8,
    }
    12233 View pg_stat_wal_receiver {
        pid: Int4, status: Text, receive_start_lsn: Text, receive_start_tli: Int4,
        written_lsn: Text, flushed_lsn: Text, received_tli: Int4,
        last_msg_send_time: TimestampTz, last_msg_receipt_time: TimestampTz,
        latest_end_lsn: Text, latest_end_time: TimestampTz, slot_name: Text, sender_host: Text,
        sender_port: Int4, conninfo: Text,
    }
    12237 View pg_stat_subscription {
        subid: Oid, subname: Name, pid: Int4, relid: Oid, received_lsn: Text,
        last_msg_send_time: TimestampTz, last_msg_receipt_time: TimestampTz,
        latest_end_lsn: Text, latest_end_time: TimestampTz,
    }
    12276 View pg_stat_progress_analyze {
        pid: Int4, datid: Oid, datname: Name, relid: Oid, phase: Text,
        sample_blks_total: Int8, sample_blks_scanned: Int8, ext_stats_total: Int8,
        ext_stats_computed: Int8, child_tables_total: Int8, child_tables_done: Int8,
        current_child_table_relid: Oid,
    }
    12281 View pg_stat_progress_vacuum {
        pid: Int4, datid: Oid, datname: Name, relid: Oid, phase: Text, heap_blks_total: Int8,
        heap_blks_scanned: Int8, heap_blks_vacuumed: Int8, index_vacuum_count: Int8,
        max_dead_tuples: Int8, num_dead_tuples: Int8,
    }
};
