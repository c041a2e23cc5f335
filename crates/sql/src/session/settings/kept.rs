//! Settings of PostgreSQL that are checked, kept and shown, and have no effect here: those
//! of its planner, of its maintenance and of its log. Programs set them when they connect,
//! and read them back; what they tune is not there.
//!
//! Only `work_mem` of the planner's settings has an effect
//! ([differences](../../../../docs/sql/differences.md)).

use super::definitions::{Definition, SettingKind as K};

const ABOUT: &str = "Kept for clients that set it: it has no effect.";
const SHOWN: &str = "Shown for clients that read it.";

/// A setting that every role may set.
const fn kept(name: &'static str, initial: &'static str, kind: K) -> Definition {
    Definition {
        name,
        initial,
        kind,
        reported: false,
        restricted: false,
        about: ABOUT,
    }
}

/// A setting that only superusers may set.
const fn restricted(name: &'static str, initial: &'static str, kind: K) -> Definition {
    Definition {
        restricted: true,
        ..kept(name, initial, kind)
    }
}

/// A setting that cannot be changed in PostgreSQL, or not while it runs.
const fn shown(name: &'static str, value: &'static str) -> Definition {
    Definition {
        about: SHOWN,
        ..kept(name, value, K::Fixed)
    }
}

const INT: i64 = i32::MAX as i64;

/// These settings, sorted by name.
pub(super) const KEPT: &[Definition] = &[
    shown("block_size", "8192"),
    restricted("commit_delay", "0", K::Number(0, 100_000)),
    kept("commit_siblings", "5", K::Number(0, 1000)),
    kept(
        "constraint_exclusion",
        "partition",
        K::Word(&["partition", "on", "off"]),
    ),
    kept("cpu_index_tuple_cost", "0.005", K::Real(0.0, f64::MAX)),
    kept("cpu_operator_cost", "0.0025", K::Real(0.0, f64::MAX)),
    kept("cpu_tuple_cost", "0.01", K::Real(0.0, f64::MAX)),
    kept("cursor_tuple_fraction", "0.1", K::Real(0.0, 1.0)),
    shown("debug_assertions", "off"),
    kept("debug_pretty_print", "on", K::Switch),
    kept("debug_print_parse", "off", K::Switch),
    kept("debug_print_plan", "off", K::Switch),
    kept("debug_print_rewritten", "off", K::Switch),
    kept("default_statistics_target", "100", K::Number(1, 10_000)),
    kept(
        "default_toast_compression",
        "pglz",
        K::Word(&["pglz", "lz4"]),
    ),
    kept("effective_cache_size", "4GB", K::Blocks),
    kept("effective_io_concurrency", "1", K::Number(0, 1000)),
    kept("enable_async_append", "on", K::Switch),
    kept("enable_bitmapscan", "on", K::Switch),
    kept("enable_gathermerge", "on", K::Switch),
    kept("enable_hashagg", "on", K::Switch),
    kept("enable_hashjoin", "on", K::Switch),
    kept("enable_incremental_sort", "on", K::Switch),
    kept("enable_indexonlyscan", "on", K::Switch),
    kept("enable_indexscan", "on", K::Switch),
    kept("enable_material", "on", K::Switch),
    kept("enable_memoize", "on", K::Switch),
    kept("enable_mergejoin", "on", K::Switch),
    kept("enable_nestloop", "on", K::Switch),
    kept("enable_parallel_append", "on", K::Switch),
    kept("enable_parallel_hash", "on", K::Switch),
    kept("enable_partition_pruning", "on", K::Switch),
    kept("enable_partitionwise_aggregate", "off", K::Switch),
    kept("enable_partitionwise_join", "off", K::Switch),
    kept("enable_sort", "on", K::Switch),
    kept("enable_tidscan", "on", K::Switch),
    kept(
        "force_parallel_mode",
        "off",
        K::Word(&["off", "on", "regress"]),
    ),
    kept("from_collapse_limit", "8", K::Number(1, INT)),
    kept("geqo", "on", K::Switch),
    kept("geqo_effort", "5", K::Number(1, 10)),
    kept("geqo_generations", "0", K::Number(0, INT)),
    kept("geqo_pool_size", "0", K::Number(0, INT)),
    kept("geqo_seed", "0", K::Real(0.0, 1.0)),
    kept("geqo_selection_bias", "2", K::Real(1.5, 2.0)),
    kept("geqo_threshold", "12", K::Number(2, INT)),
    kept("gin_fuzzy_search_limit", "0", K::Number(0, INT)),
    kept("gin_pending_list_limit", "4MB", K::StatementMemory),
    kept("hash_mem_multiplier", "2", K::Real(1.0, 1000.0)),
    kept("jit_above_cost", "100000", K::Real(-1.0, f64::MAX)),
    shown("jit_debugging_support", "off"),
    restricted("jit_dump_bitcode", "off", K::Switch),
    kept("jit_expressions", "on", K::Switch),
    kept("jit_inline_above_cost", "500000", K::Real(-1.0, f64::MAX)),
    kept("jit_optimize_above_cost", "500000", K::Real(-1.0, f64::MAX)),
    shown("jit_profiling_support", "off"),
    shown("jit_provider", "llvmjit"),
    kept("jit_tuple_deforming", "on", K::Switch),
    kept("join_collapse_limit", "8", K::Number(1, INT)),
    restricted("lo_compat_privileges", "off", K::Switch),
    restricted("log_duration", "off", K::Switch),
    restricted(
        "log_error_verbosity",
        "default",
        K::Word(&["terse", "default", "verbose"]),
    ),
    restricted("log_executor_stats", "off", K::Switch),
    restricted("log_lock_waits", "off", K::Switch),
    restricted("log_min_duration_sample", "-1", K::TimeOrNever),
    restricted("log_parser_stats", "off", K::Switch),
    restricted("log_planner_stats", "off", K::Switch),
    restricted("log_replication_commands", "off", K::Switch),
    restricted("log_statement_stats", "off", K::Switch),
    kept("logical_decoding_work_mem", "64MB", K::StatementMemory),
    kept("maintenance_io_concurrency", "10", K::Number(0, 1000)),
    shown("max_function_args", "100"),
    kept("max_parallel_maintenance_workers", "2", K::Number(0, 1024)),
    kept("max_parallel_workers", "8", K::Number(0, 1024)),
    shown("max_prepared_transactions", "0"),
    kept("min_parallel_index_scan_size", "512kB", K::Blocks),
    kept("min_parallel_table_scan_size", "8MB", K::Blocks),
    kept("parallel_leader_participation", "on", K::Switch),
    kept("parallel_setup_cost", "1000", K::Real(0.0, f64::MAX)),
    kept("parallel_tuple_cost", "0.1", K::Real(0.0, f64::MAX)),
    kept("random_page_cost", "4", K::Real(0.0, f64::MAX)),
    kept(
        "recursive_worktable_factor",
        "10",
        K::Real(0.001, 1_000_000.0),
    ),
    shown("segment_size", "1GB"),
    kept("seq_page_cost", "1", K::Real(0.0, f64::MAX)),
    kept(
        "stats_fetch_consistency",
        "cache",
        K::Word(&["none", "cache", "snapshot"]),
    ),
    kept("temp_buffers", "8MB", K::Blocks),
    restricted("temp_file_limit", "-1", K::Number(-1, INT)),
    kept("temp_tablespaces", "", K::Text),
    kept("trace_notify", "off", K::Switch),
    restricted("track_counts", "on", K::Switch),
    restricted("track_functions", "none", K::Word(&["none", "pl", "all"])),
    restricted("track_io_timing", "off", K::Switch),
    kept("vacuum_cost_delay", "0", K::Time),
    kept("vacuum_cost_limit", "200", K::Number(1, 10_000)),
    kept("vacuum_cost_page_dirty", "20", K::Number(0, 10_000)),
    kept("vacuum_cost_page_hit", "1", K::Number(0, 10_000)),
    kept("vacuum_cost_page_miss", "2", K::Number(0, 10_000)),
    kept(
        "vacuum_freeze_min_age",
        "50000000",
        K::Number(0, 1_000_000_000),
    ),
    kept(
        "vacuum_freeze_table_age",
        "150000000",
        K::Number(0, 2_000_000_000),
    ),
    shown("wal_block_size", "8192"),
    shown("wal_segment_size", "16MB"),
    kept("xmlbinary", "base64", K::Word(&["base64", "hex"])),
];
