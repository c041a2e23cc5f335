//! The system tables, by subject.

mod absent;
mod access_methods;
mod activity;
mod cluster_views;
mod column_statistics;
mod columns;
mod comments;
mod contention;
mod cursors;
mod depend;
mod extensions;
mod information;
mod information_columns;
mod locks;
mod relations;
mod replication;
mod roles;
mod sequences;
mod statistics;
mod time_zones;
mod types;
mod views;

pub(super) use relations::is_primary;
pub(super) use types::collation_oid;
pub(super) use views::{updatable_columns, update_events};

use super::table::SystemTable;

/// All system tables.
pub(super) const ALL: &[&[SystemTable]] = &[
    &[
        relations::PG_CLASS,
        relations::PG_INDEX,
        relations::PG_CONSTRAINT,
        relations::PG_NAMESPACE,
        relations::PG_TABLES,
        relations::PG_INDEXES,
    ],
    &[comments::PG_DESCRIPTION, comments::PG_SHDESCRIPTION],
    &[depend::PG_DEPEND],
    &[
        views::PG_REWRITE,
        views::PG_VIEWS,
        views::VIEWS,
        views::VIEW_TABLE_USAGE,
        views::VIEW_COLUMN_USAGE,
    ],
    &[columns::PG_ATTRIBUTE, columns::PG_ATTRDEF],
    &[
        sequences::PG_SEQUENCE,
        sequences::PG_SEQUENCES,
        sequences::SEQUENCES,
    ],
    &[types::PG_TYPE, types::PG_COLLATION],
    &[
        time_zones::PG_TIMEZONE_NAMES,
        time_zones::PG_TIMEZONE_ABBREVS,
    ],
    &[
        access_methods::PG_AM,
        access_methods::PG_OPCLASS,
        access_methods::PG_OPFAMILY,
        access_methods::PG_TABLESPACE,
        access_methods::PG_LANGUAGE,
        access_methods::PG_PROC,
    ],
    &[
        roles::PG_AUTHID,
        roles::PG_AUTH_MEMBERS,
        roles::PG_ROLES,
        roles::PG_USER,
        roles::PG_SHADOW,
        roles::PG_GROUP,
        roles::PG_DATABASE,
        roles::PG_DB_ROLE_SETTING,
    ],
    &[
        activity::PG_SETTINGS,
        activity::PG_STAT_ACTIVITY,
        activity::PG_STAT_DATABASE,
        activity::COEVAL_SETTINGS,
        activity::COEVAL_METRICS,
    ],
    &[column_statistics::PG_STATS],
    &[contention::LOCKS, contention::CONFLICTS, locks::PG_LOCKS],
    &[cursors::PG_CURSORS],
    &[
        statistics::PG_STAT_ALL_TABLES,
        statistics::PG_STAT_SYS_TABLES,
        statistics::PG_STAT_USER_TABLES,
        statistics::PG_STATIO_ALL_TABLES,
        statistics::PG_STATIO_SYS_TABLES,
        statistics::PG_STATIO_USER_TABLES,
        statistics::PG_STAT_ALL_INDEXES,
        statistics::PG_STAT_USER_INDEXES,
        statistics::PG_STATIO_ALL_INDEXES,
        statistics::PG_STATIO_USER_INDEXES,
        statistics::PG_STAT_DATABASE_CONFLICTS,
        statistics::PG_STAT_BGWRITER,
        statistics::PG_STAT_ARCHIVER,
    ],
    statistics::NOTHING,
    &[
        cluster_views::STATUS,
        cluster_views::MEMBERS,
        cluster_views::ELECTIONS,
    ],
    &[
        replication::REPLICAS,
        replication::PG_STAT_REPLICATION,
        replication::GAMMA,
    ],
    &[
        information::CATALOG_NAME,
        information::SCHEMATA,
        information::TABLES,
        information::TABLE_CONSTRAINTS,
        information::KEY_COLUMN_USAGE,
        information::CONSTRAINT_COLUMN_USAGE,
        information_columns::COLUMNS,
        information_columns::CHECK_CONSTRAINTS,
    ],
    &[
        extensions::PG_EXTENSION,
        extensions::PG_AVAILABLE_EXTENSIONS,
    ],
    absent::PG_CATALOG_TABLES,
    absent::INFORMATION_SCHEMA_TABLES,
];
