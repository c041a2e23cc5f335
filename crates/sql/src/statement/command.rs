//! Commands: parsed statements, by kind, with the syntax trees of their parts.

use coeval_sql_syntax::tree;
use coeval_txn::{Isolation, LockWait, TableLock};

use super::cursor::{DeclareCommand, FetchCommand};
use super::role_settings::RoleSettingsCommand;
use super::view::ViewCommand;
use super::{Statement, StatementKind};
use crate::access::Privileges;

/// A parsed statement.
#[derive(Debug)]
pub(crate) enum Command {
    /// An empty statement, which does nothing.
    Empty,
    /// A statement that has a plan, and whose tree was dropped.
    Planned {
        /// Kind of the statement.
        kind: StatementKind,
        /// Whether the statement may change rows.
        writes: bool,
    },
    /// A query: SELECT, VALUES or TABLE.
    Query(Box<tree::Query>),
    /// An INSERT statement.
    Insert(Box<tree::Insert>),
    /// An UPDATE statement.
    Update(Box<tree::Update>),
    /// A DELETE statement.
    Delete(Box<tree::Delete>),
    /// A CREATE TABLE statement.
    CreateTable(Box<tree::CreateTable>),
    /// A CREATE INDEX statement.
    CreateIndex(Box<tree::CreateIndex>),
    /// An ALTER TABLE statement.
    AlterTable(Box<tree::AlterTable>),
    /// ALTER TABLE … RENAME: renames a table, or a part of it.
    RenameTable {
        /// Name of the table.
        name: tree::Path,
        /// Whether the statement succeeds if the table does not exist.
        if_exists: bool,
        /// What is renamed.
        action: tree::ObjectAction,
    },
    /// ALTER INDEX … RENAME TO: renames an index.
    RenameIndex {
        /// Name of the index.
        name: tree::Path,
        /// Whether the statement succeeds if the index does not exist.
        if_exists: bool,
        /// New name of the index.
        new_name: tree::Name,
    },
    /// DROP TABLE and DROP INDEX: drops tables or indexes.
    Drop {
        /// Whether the statement drops indexes instead of tables.
        indexes: bool,
        /// Names of the tables or indexes.
        names: Vec<tree::Path>,
        /// Whether the statement succeeds if one of them does not exist.
        if_exists: bool,
        /// CASCADE: whether what depends on them is dropped, too.
        cascade: bool,
    },
    /// TRUNCATE: deletes all rows of tables.
    Truncate(TruncateCommand),
    /// Changes of views, tables made from queries, and comments.
    View(ViewCommand),
    /// A CREATE SEQUENCE statement.
    CreateSequence(Box<tree::CreateSequence>),
    /// ALTER SEQUENCE with options.
    AlterSequence(Box<tree::AlterSequence>),
    /// ALTER SEQUENCE with what tables have as well.
    ChangeSequence {
        /// Name of the sequence.
        name: tree::Path,
        /// Whether the statement succeeds if the sequence does not exist.
        if_exists: bool,
        /// What is changed.
        change: SequenceChange,
    },
    /// DROP SEQUENCE: drops sequences.
    DropSequences {
        /// Names of the sequences.
        names: Vec<tree::Path>,
        /// Whether the statement succeeds if one of them does not exist.
        if_exists: bool,
        /// CASCADE: whether what depends on them is dropped, too.
        cascade: bool,
    },
    /// A COPY statement, in either direction.
    Copy(Box<CopyCommand>),
    /// BEGIN, START TRANSACTION: begins a transaction block.
    Begin {
        /// Modes of the transaction.
        modes: Modes,
        /// Command tag of the statement.
        tag: &'static str,
    },
    /// COMMIT, END: commits the transaction block.
    Commit {
        /// AND CHAIN: whether a transaction block with the same modes begins at once.
        chain: bool,
    },
    /// ROLLBACK, ABORT: rolls back the transaction block.
    Rollback {
        /// AND CHAIN: whether a transaction block with the same modes begins at once.
        chain: bool,
    },
    /// SAVEPOINT: sets a savepoint of this name.
    Savepoint(String),
    /// ROLLBACK TO SAVEPOINT: rolls back to the savepoint of this name.
    RollbackTo(String),
    /// RELEASE SAVEPOINT: removes the savepoint of this name.
    Release(String),
    /// SET TRANSACTION: sets modes of the running transaction.
    SetTransaction(Modes),
    /// SET SESSION CHARACTERISTICS AS TRANSACTION: sets default modes of transactions.
    SetCharacteristics(Modes),
    /// SET: changes a setting.
    Set(SetCommand),
    /// RESET: restores settings to their values at the start of the session.
    Reset(SettingName),
    /// SHOW: returns the values of settings.
    Show(SettingName),
    /// DISCARD: drops state of the session.
    Discard(DiscardKind),
    /// PREPARE: prepares a statement under a name.
    Prepare {
        /// Name of the prepared statement.
        name: String,
        /// Types of the first parameters.
        types: Vec<tree::TypeName>,
        /// The statement to prepare.
        statement: Statement,
    },
    /// EXECUTE: runs a prepared statement.
    Execute {
        /// Name of the prepared statement.
        name: String,
        /// Expressions for its parameters.
        arguments: Vec<tree::Expr>,
    },
    /// DECLARE: begins a query, of which FETCH returns the rows.
    Declare(Box<DeclareCommand>),
    /// FETCH and MOVE: moves a cursor.
    Fetch(FetchCommand),
    /// CLOSE: ends the cursor of this name; `None` ends all.
    CloseCursor(Option<String>),
    /// DEALLOCATE: drops the prepared statement of this name; `None` drops all.
    Deallocate(Option<String>),
    /// EXPLAIN: shows the plan of a statement.
    Explain(ExplainCommand),
    /// VACUUM of these tables; an empty list means all tables.
    Vacuum(Vec<tree::Path>),
    /// ANALYZE of these tables; an empty list means all tables.
    Analyze(Vec<tree::Path>),
    /// REINDEX: rebuilds indexes.
    Reindex(Box<tree::Reindex>),
    /// CHECKPOINT: writes a checkpoint.
    Checkpoint,
    /// BACKUP TO STDOUT: sends the whole database, in the format of `coeval restore`.
    Backup,
    /// LOCK TABLE: locks tables until the transaction ends.
    Lock {
        /// Names of the tables.
        tables: Vec<tree::Path>,
        /// Mode of the lock.
        mode: TableLock,
        /// Whether to wait for a lock that is not free.
        wait: LockWait,
    },
    /// CREATE, ALTER and DROP ROLE: changes roles.
    Role(RoleCommand),
    /// GRANT and REVOKE: changes privileges and memberships.
    Grant(GrantCommand),
    /// CREATE EXTENSION: makes the functions of an extension known by its name.
    CreateExtension(CreateExtension),
    /// DROP EXTENSION.
    DropExtensions {
        /// Names of the extensions.
        names: Vec<String>,
        /// Whether the statement succeeds if one of them does not exist.
        if_exists: bool,
    },
    /// ALTER SCHEMA … OWNER TO: changes the owner of a schema.
    SchemaOwner {
        /// Name of the schema.
        schema: String,
        /// New owner of the schema.
        owner: RoleName,
    },
    /// SET ROLE and RESET ROLE: changes the current role.
    SetRole {
        /// Command tag of the statement.
        tag: &'static str,
        /// Whether the change ends with the transaction.
        local: bool,
        /// Name of the role; `None` for NONE.
        name: Option<String>,
    },
    /// SET and RESET SESSION AUTHORIZATION: changes the session's role.
    SetAuthorization {
        /// Command tag of the statement.
        tag: &'static str,
        /// Whether the change ends with the transaction.
        local: bool,
        /// Name of the role; `None` for DEFAULT.
        name: Option<String>,
    },
    /// A statement that removes objects which this database does not support, such as
    /// UNLISTEN; the string is its command tag.
    NoOperation(&'static str),
}

/// Whether WITH changes rows.
fn changes_in_with(with: Option<&tree::With>) -> bool {
    let mut tables = with.iter().flat_map(|with| &with.tables);
    tables.any(|table| !matches!(*table.statement, tree::StatementKind::Query(_)))
}

impl Command {
    /// Whether the statement may change rows or the schema.
    pub(crate) fn may_write(&self) -> bool {
        match self {
            Self::Insert(_)
            | Self::Update(_)
            | Self::Delete(_)
            | Self::CreateTable(_)
            | Self::CreateIndex(_)
            | Self::AlterTable(_)
            | Self::RenameTable { .. }
            | Self::RenameIndex { .. }
            | Self::Drop { .. }
            | Self::Truncate(_)
            | Self::View(_)
            | Self::CreateSequence(_)
            | Self::AlterSequence(_)
            | Self::ChangeSequence { .. }
            | Self::DropSequences { .. }
            | Self::Execute { .. } => true,
            Self::Planned { writes, .. } => *writes,
            Self::Query(query) => changes_in_with(query.with.as_ref()),
            Self::Copy(copy) => copy.from,
            Self::Explain(explain) => explain.options.analyze,
            _ => false,
        }
    }
}

/// A TRUNCATE statement.
#[derive(Clone, Debug)]
pub(crate) struct TruncateCommand {
    /// Names of the tables.
    pub tables: Vec<tree::Path>,
    /// RESTART IDENTITY: whether the sequences of their columns begin anew.
    pub restarts: bool,
}

/// A change of a sequence that tables have as well.
#[derive(Clone, Debug)]
pub(crate) enum SequenceChange {
    /// RENAME TO.
    Rename(tree::Name),
    /// OWNER TO.
    Owner(RoleName),
}

/// Modes of a transaction; a mode that the statement does not give is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    /// Isolation level.
    pub isolation: Option<Isolation>,
    /// Whether the level, READ COMMITTED, was asked for as READ UNCOMMITTED, as which it is
    /// shown.
    pub uncommitted: bool,
    /// READ ONLY (true) or READ WRITE (false).
    pub read_only: Option<bool>,
    /// DEFERRABLE (true) or NOT DEFERRABLE (false).
    pub deferrable: Option<bool>,
}

/// A SET statement.
#[derive(Clone, Debug)]
pub(crate) struct SetCommand {
    /// Whether the change ends with the transaction.
    pub local: bool,
    /// Name of the setting.
    pub name: String,
    /// Values of the setting; `None` for DEFAULT.
    pub values: Option<Vec<String>>,
}

/// The settings that SHOW or RESET names.
#[derive(Clone, Debug)]
pub(crate) enum SettingName {
    /// The setting of this name.
    One(String),
    /// All settings.
    All,
}

/// State of the session that DISCARD drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscardKind {
    /// All state of the session.
    All,
    /// The session's cached plans.
    Plans,
    /// The session's state of sequences.
    Sequences,
    /// The session's temporary tables.
    Temporary,
}

impl DiscardKind {
    /// Command tag of the statement.
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::All => "DISCARD ALL",
            Self::Plans => "DISCARD PLANS",
            Self::Sequences => "DISCARD SEQUENCES",
            Self::Temporary => "DISCARD TEMP",
        }
    }
}

/// An EXPLAIN statement.
#[derive(Clone, Debug)]
pub(crate) struct ExplainCommand {
    /// What is shown, and whether the statement is executed.
    pub options: ExplainOptions,
    /// The statement to explain.
    pub statement: Statement,
}

/// Options of EXPLAIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExplainOptions {
    /// ANALYZE: the statement is executed.
    pub analyze: bool,
    /// COSTS: estimates are shown.
    pub costs: bool,
    /// TIMING: times of nodes are shown.
    pub timing: bool,
    /// SUMMARY: the time of the whole is shown.
    pub summary: bool,
    /// VERBOSE: the expressions that nodes return are shown.
    pub verbose: bool,
    /// FORMAT JSON.
    pub json: bool,
}

impl Default for ExplainOptions {
    fn default() -> Self {
        Self {
            analyze: false,
            costs: true,
            timing: true,
            summary: false,
            verbose: false,
            json: false,
        }
    }
}

/// A COPY statement.
#[derive(Clone, Debug)]
pub(crate) struct CopyCommand {
    /// Table or query that is copied.
    pub source: CopySource,
    /// Whether this is COPY FROM, which adds rows to the table.
    pub from: bool,
    /// Options of the format.
    pub options: Vec<CopyOption>,
}

/// Table or query that is copied.
#[derive(Clone, Debug)]
pub(crate) enum CopySource {
    /// The rows of a table.
    Table {
        /// Name of the table.
        name: tree::Path,
        /// Columns to copy; an empty list means all.
        columns: Vec<tree::Name>,
    },
    /// The result of a query.
    Query(Box<tree::Query>),
}

/// An option of COPY; options of the old syntax are translated to the present one.
#[derive(Clone, Debug)]
pub(crate) struct CopyOption {
    /// Name of the option, in lower case.
    pub name: String,
    /// Argument of the option.
    pub argument: Argument,
    /// First byte of the option in the text that was parsed.
    pub at: u32,
}

/// Argument of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// The option has no argument.
    None,
    /// A word, a number or a string.
    Text(String),
    /// A list of names.
    List(Vec<String>),
    /// The argument `*`.
    Star,
}

/// A role as a statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoleName {
    /// The role of this name.
    Named(String),
    /// CURRENT_USER or CURRENT_ROLE, the role that SET ROLE has set.
    Current,
    /// SESSION_USER, the role that SET SESSION AUTHORIZATION has set.
    Session,
    /// PUBLIC, which stands for all roles.
    Public,
}

/// Attributes in CREATE or ALTER ROLE; an attribute that is not given is `None`.
#[derive(Clone, Default)]
pub(crate) struct RoleOptions {
    /// SUPERUSER or NOSUPERUSER.
    pub superuser: Option<bool>,
    /// INHERIT or NOINHERIT.
    pub inherit: Option<bool>,
    /// CREATEROLE or NOCREATEROLE.
    pub create_role: Option<bool>,
    /// CREATEDB or NOCREATEDB.
    pub create_database: Option<bool>,
    /// LOGIN or NOLOGIN.
    pub login: Option<bool>,
    /// REPLICATION or NOREPLICATION.
    pub replication: Option<bool>,
    /// BYPASSRLS or NOBYPASSRLS.
    pub bypass_policies: Option<bool>,
    /// CONNECTION LIMIT: maximum number of sessions.
    pub connection_limit: Option<i32>,
    /// PASSWORD; the inner `None` is PASSWORD NULL.
    pub password: Option<Option<String>>,
    /// VALID UNTIL: expiry of the password; the inner `None` is NULL.
    pub valid_until: Option<Option<String>>,
    /// IN ROLE: roles of which the new role becomes a member.
    pub member_of: Vec<RoleName>,
    /// ROLE: roles that become members of the new role.
    pub members: Vec<RoleName>,
    /// ADMIN: roles that become members of the new role, with the admin option.
    pub administrators: Vec<RoleName>,
}

/// Omits the password, because error reports may print a command.
impl std::fmt::Debug for RoleOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RoleOptions")
            .field("password", &self.password.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}

/// A CREATE, ALTER or DROP ROLE statement.
#[derive(Clone, Debug)]
pub(crate) enum RoleCommand {
    /// CREATE ROLE: creates a role.
    Create {
        /// Name of the new role.
        name: String,
        /// Attributes of the new role.
        options: RoleOptions,
    },
    /// ALTER ROLE: changes attributes of a role.
    Alter {
        /// The role to change.
        name: RoleName,
        /// The attributes to change.
        options: RoleOptions,
    },
    /// ALTER ROLE … RENAME TO: renames a role.
    Rename {
        /// The role to rename.
        name: RoleName,
        /// New name of the role.
        new_name: String,
    },
    /// ALTER ROLE … SET or RESET, or the same of a database.
    Settings(RoleSettingsCommand),
    /// DROP ROLE: drops roles.
    Drop {
        /// The roles to drop.
        names: Vec<RoleName>,
        /// Whether the statement succeeds if one of them does not exist.
        if_exists: bool,
    },
}

/// A GRANT or REVOKE statement.
#[derive(Clone, Debug)]
pub(crate) struct GrantCommand {
    /// Whether the statement is REVOKE.
    pub revoke: bool,
    /// Privileges or memberships that the statement grants or revokes.
    pub granted: Granted,
    /// Roles that the statement grants them to, or revokes them from.
    pub roles: Vec<RoleName>,
    /// Whether GRANT includes the grant or admin option, or REVOKE revokes only that
    /// option.
    pub option: bool,
    /// GRANTED BY: the role that acts as grantor.
    pub by: Option<RoleName>,
    /// CASCADE: whether REVOKE also revokes dependent privileges.
    pub cascade: bool,
}

/// What a GRANT or REVOKE statement grants or revokes: privileges or memberships.
#[derive(Clone, Debug)]
pub(crate) enum Granted {
    /// Privileges on objects.
    Privileges {
        /// The privileges; `None` for ALL.
        privileges: Option<Privileges>,
        /// The objects that the privileges are on.
        objects: GrantObjects,
    },
    /// Memberships in these roles.
    Roles(Vec<RoleName>),
}

/// Objects that privileges are granted on.
#[derive(Clone, Debug)]
pub(crate) enum GrantObjects {
    /// The tables of these names.
    Tables(Vec<tree::Path>),
    /// All tables that exist now in these schemas.
    AllTables(Vec<String>),
    /// The sequences of these names.
    Sequences(Vec<tree::Path>),
    /// All sequences that exist now in these schemas.
    AllSequences(Vec<String>),
    /// The schemas of these names.
    Schemas(Vec<String>),
}

/// A CREATE EXTENSION statement.
#[derive(Debug)]
pub(crate) struct CreateExtension {
    /// Name of the extension.
    pub(crate) name: String,
    /// Whether the statement succeeds if the extension exists.
    pub(crate) if_not_exists: bool,
    /// Schema that SCHEMA names.
    pub(crate) schema: Option<String>,
    /// Version that VERSION names.
    pub(crate) version: Option<String>,
}
