//! Names of commands and of kinds of objects, for errors that say what is not supported.

use coeval_sql_syntax::tree::{
    Defined, Object, ObjectKind, RoutineKind, StatementKind as Kind, TablePartKind,
};

/// The command of a statement that this database lacks.
pub(super) fn command_name(kind: &Kind) -> String {
    let name = match kind {
        Kind::Merge(_) => "MERGE",
        Kind::CreateTableAs(create) if create.materialized_view => "CREATE MATERIALIZED VIEW",
        Kind::CreateTableAs(_) => "CREATE TABLE AS",
        Kind::CreateView(_) => "CREATE VIEW",
        Kind::CreateSequence(_) => "CREATE SEQUENCE",
        Kind::CreateSchema(_) => "CREATE SCHEMA",
        Kind::CreateDatabase(_) => "CREATE DATABASE",
        Kind::CreateDomain(_) => "CREATE DOMAIN",
        Kind::CreateType(_) => "CREATE TYPE",
        Kind::CreateRoutine(routine) if routine.procedure => "CREATE PROCEDURE",
        Kind::CreateRoutine(_) => "CREATE FUNCTION",
        Kind::CreateAggregate(_) => "CREATE AGGREGATE",
        Kind::CreateTrigger(_) => "CREATE TRIGGER",
        Kind::CreateRule(_) => "CREATE RULE",
        Kind::CreatePolicy(_) => "CREATE POLICY",
        Kind::CreateStatistics(_) => "CREATE STATISTICS",
        Kind::CreateExtension(_) => "CREATE EXTENSION",
        Kind::CreateCast(_) => "CREATE CAST",
        Kind::CreateCollation(_) => "CREATE COLLATION",
        Kind::Define(define) => match define.what {
            Defined::Operator(_) => "CREATE OPERATOR",
            Defined::Type(_) => "CREATE TYPE",
            Defined::TextSearchParser(_) => "CREATE TEXT SEARCH PARSER",
            Defined::TextSearchDictionary(_) => "CREATE TEXT SEARCH DICTIONARY",
            Defined::TextSearchTemplate(_) => "CREATE TEXT SEARCH TEMPLATE",
            Defined::TextSearchConfiguration(_) => "CREATE TEXT SEARCH CONFIGURATION",
        },
        Kind::RefreshView(_) => "REFRESH MATERIALIZED VIEW",
        Kind::AlterTable(alter) => return format!("ALTER {}", kind_name(alter.kind)),
        Kind::AlterSequence(_) => "ALTER SEQUENCE",
        Kind::AlterDomain(_) => "ALTER DOMAIN",
        Kind::AlterEnum(_) | Kind::AlterComposite(_) => "ALTER TYPE",
        Kind::AlterGroup(_) => "ALTER GROUP",
        Kind::AlterSystem(_) => "ALTER SYSTEM",
        Kind::AlterRoutine(_) => "ALTER ROUTINE",
        Kind::AlterPolicy(_) => "ALTER POLICY",
        Kind::AlterStatistics(_) => "ALTER STATISTICS",
        Kind::AlterDefaultPrivileges(_) => "ALTER DEFAULT PRIVILEGES",
        Kind::DropOwned(_) => "DROP OWNED",
        Kind::ReassignOwned(_) => "REASSIGN",
        Kind::DropDatabase(_) => "DROP DATABASE",
        Kind::Comment(_) => "COMMENT",
        Kind::SetConstraints(_) => "SET CONSTRAINTS",
        Kind::Cluster(_) => "CLUSTER",
        Kind::Reindex(_) => "REINDEX",
        Kind::Listen(_) => "LISTEN",
        Kind::Notify(_) => "NOTIFY",
        Kind::Load(_) => "LOAD",
        Kind::Do(_) => "DO",
        Kind::Call(_) => "CALL",
        Kind::Return(_) => "RETURN",
        Kind::Unsupported(statement) => statement.command,
        _ => "this statement",
    };
    name.to_owned()
}

/// The kind of an object, in capitals.
pub(super) fn object_name(object: &Object) -> &'static str {
    match object {
        Object::Named(kind, _) | Object::Relation(kind, _) => kind_name(*kind),
        Object::Type(_) => "TYPE",
        Object::Domain(_) | Object::DomainConstraint(..) => "DOMAIN",
        Object::Routine(RoutineKind::Function, _) => "FUNCTION",
        Object::Routine(RoutineKind::Procedure, _) => "PROCEDURE",
        Object::Routine(RoutineKind::Routine, _) => "ROUTINE",
        Object::Aggregate(_) => "AGGREGATE",
        Object::Operator(_) => "OPERATOR",
        Object::OperatorClass(false, ..) => "OPERATOR CLASS",
        Object::OperatorClass(true, ..) => "OPERATOR FAMILY",
        Object::Cast(..) => "CAST",
        Object::Transform(..) => "TRANSFORM",
        Object::PartOfTable(TablePartKind::Policy, ..) => "POLICY",
        Object::PartOfTable(TablePartKind::Rule, ..) => "RULE",
        Object::PartOfTable(TablePartKind::Trigger, ..) => "TRIGGER",
        Object::PartOfTable(TablePartKind::Constraint, ..) => "CONSTRAINT",
        Object::Column(_) => "COLUMN",
        Object::LargeObject(_) => "LARGE OBJECT",
    }
}

fn kind_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table => "TABLE",
        ObjectKind::Sequence => "SEQUENCE",
        ObjectKind::View => "VIEW",
        ObjectKind::MaterializedView => "MATERIALIZED VIEW",
        ObjectKind::Index => "INDEX",
        ObjectKind::ForeignTable => "FOREIGN TABLE",
        ObjectKind::Collation => "COLLATION",
        ObjectKind::Conversion => "CONVERSION",
        ObjectKind::Statistics => "STATISTICS",
        ObjectKind::TextSearchParser => "TEXT SEARCH PARSER",
        ObjectKind::TextSearchDictionary => "TEXT SEARCH DICTIONARY",
        ObjectKind::TextSearchTemplate => "TEXT SEARCH TEMPLATE",
        ObjectKind::TextSearchConfiguration => "TEXT SEARCH CONFIGURATION",
        ObjectKind::AccessMethod => "ACCESS METHOD",
        ObjectKind::EventTrigger => "EVENT TRIGGER",
        ObjectKind::Extension => "EXTENSION",
        ObjectKind::ForeignDataWrapper => "FOREIGN DATA WRAPPER",
        ObjectKind::Language => "LANGUAGE",
        ObjectKind::Publication => "PUBLICATION",
        ObjectKind::Schema => "SCHEMA",
        ObjectKind::Server => "SERVER",
        ObjectKind::Database => "DATABASE",
        ObjectKind::Role => "ROLE",
        ObjectKind::Subscription => "SUBSCRIPTION",
        ObjectKind::Tablespace => "TABLESPACE",
    }
}
