//! What statements ask for.

use coeval_txn::{Isolation, TableLock};
use sqlparser::ast;
use sqlparser::tokenizer::Location;

use super::Statement;
use crate::access::Privileges;

/// What a statement asks for.
#[derive(Debug)]
pub(crate) enum Command {
    /// Nothing.
    Empty,
    /// SELECT, VALUES, TABLE.
    Query(Box<ast::Query>),
    /// INSERT.
    Insert(Box<ast::Insert>),
    /// UPDATE.
    Update(Box<ast::Update>),
    /// DELETE.
    Delete(Box<ast::Delete>),
    /// CREATE TABLE.
    CreateTable(Box<ast::CreateTable>),
    /// CREATE INDEX.
    CreateIndex(Box<ast::CreateIndex>),
    /// ALTER TABLE.
    AlterTable(Box<ast::AlterTable>),
    /// ALTER INDEX … RENAME TO.
    RenameIndex {
        /// The index.
        name: ast::ObjectName,
        /// Whether its absence is no error.
        if_exists: bool,
        /// What it is to be called.
        new_name: ast::Ident,
    },
    /// DROP TABLE and DROP INDEX.
    Drop {
        /// Whether indexes are to be dropped, not tables.
        indexes: bool,
        /// What is to be dropped.
        names: Vec<ast::ObjectName>,
        /// Whether absence is no error.
        if_exists: bool,
    },
    /// TRUNCATE.
    Truncate(Vec<ast::ObjectName>),
    /// COPY.
    Copy(Box<CopyCommand>),
    /// BEGIN, START TRANSACTION.
    Begin {
        /// How.
        modes: Modes,
        /// Its command tag.
        tag: &'static str,
    },
    /// COMMIT, END.
    Commit {
        /// Whether a like transaction begins at once.
        chain: bool,
    },
    /// ROLLBACK, ABORT.
    Rollback {
        /// Whether a like transaction begins at once.
        chain: bool,
    },
    /// SAVEPOINT.
    Savepoint(String),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(String),
    /// RELEASE SAVEPOINT.
    Release(String),
    /// SET TRANSACTION.
    SetTransaction(Modes),
    /// SET SESSION CHARACTERISTICS AS TRANSACTION.
    SetCharacteristics(Modes),
    /// SET.
    Set(SetCommand),
    /// RESET.
    Reset(SettingName),
    /// SHOW.
    Show(SettingName),
    /// DISCARD.
    Discard(DiscardKind),
    /// PREPARE.
    Prepare {
        /// Under which name.
        name: String,
        /// Types of the first parameters.
        types: Vec<ast::DataType>,
        /// What is prepared.
        statement: Statement,
    },
    /// EXECUTE.
    Execute {
        /// Which prepared statement.
        name: String,
        /// With which parameters.
        arguments: Vec<ast::Expr>,
    },
    /// DEALLOCATE; `None` for all.
    Deallocate(Option<String>),
    /// EXPLAIN.
    Explain(ExplainCommand),
    /// VACUUM of these tables; of none means of all.
    Vacuum(Vec<ast::ObjectName>),
    /// ANALYZE.
    Analyze(Vec<ast::ObjectName>),
    /// CHECKPOINT.
    Checkpoint,
    /// BACKUP TO STDOUT: everything, as bytes for `coeval restore`.
    Backup,
    /// LOCK TABLE.
    Lock {
        /// Which tables.
        tables: Vec<ast::ObjectName>,
        /// How; `None` for the modes that only get in the way of schema changes.
        mode: Option<TableLock>,
    },
    /// CREATE, ALTER and DROP ROLE.
    Role(RoleCommand),
    /// GRANT and REVOKE.
    Grant(GrantCommand),
    /// ALTER SCHEMA … OWNER TO.
    SchemaOwner {
        /// The schema.
        schema: String,
        /// Its new owner.
        owner: RoleName,
    },
    /// SET ROLE and RESET ROLE; `None` for NONE.
    SetRole {
        /// Its command tag.
        tag: &'static str,
        /// Whether it ends with the transaction.
        local: bool,
        /// Which role.
        name: Option<String>,
    },
    /// SET and RESET SESSION AUTHORIZATION; `None` for DEFAULT.
    SetAuthorization {
        /// Its command tag.
        tag: &'static str,
        /// Whether it ends with the transaction.
        local: bool,
        /// Which role.
        name: Option<String>,
    },
    /// A statement that ends something there never is, such as UNLISTEN; the word
    /// is its command tag.
    NoOperation(&'static str),
}

impl Command {
    /// Whether it may change rows or the schema.
    pub(crate) fn may_write(&self) -> bool {
        match self {
            Self::Insert(_)
            | Self::Update(_)
            | Self::Delete(_)
            | Self::CreateTable(_)
            | Self::CreateIndex(_)
            | Self::AlterTable(_)
            | Self::RenameIndex { .. }
            | Self::Drop { .. }
            | Self::Truncate(_)
            | Self::Execute { .. } => true,
            Self::Copy(copy) => copy.from,
            Self::Explain(explain) => explain.analyze,
            _ => false,
        }
    }
}

/// Modes of a transaction; `None` for what was not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    /// ISOLATION LEVEL.
    pub isolation: Option<Isolation>,
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
    /// [NOT] DEFERRABLE.
    pub deferrable: Option<bool>,
}

/// SET.
#[derive(Clone, Debug)]
pub(crate) struct SetCommand {
    /// Whether it ends with the transaction.
    pub local: bool,
    /// Which setting.
    pub name: String,
    /// To what; `None` for DEFAULT.
    pub values: Option<Vec<String>>,
}

/// One setting or all.
#[derive(Clone, Debug)]
pub(crate) enum SettingName {
    /// This one.
    One(String),
    /// All.
    All,
}

/// What DISCARD discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscardKind {
    /// Everything of the session.
    All,
    /// Cached plans.
    Plans,
    /// Sequence state.
    Sequences,
    /// Temporary tables.
    Temporary,
}

impl DiscardKind {
    /// Its command tag.
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::All => "DISCARD ALL",
            Self::Plans => "DISCARD PLANS",
            Self::Sequences => "DISCARD SEQUENCES",
            Self::Temporary => "DISCARD TEMP",
        }
    }
}

/// EXPLAIN.
#[derive(Clone, Debug)]
pub(crate) struct ExplainCommand {
    /// Whether the statement is run.
    pub analyze: bool,
    /// Whether times are shown.
    pub timing: bool,
    /// What is explained.
    pub statement: Statement,
}

/// COPY.
#[derive(Clone, Debug)]
pub(crate) struct CopyCommand {
    /// Whose rows.
    pub source: CopySource,
    /// Whether rows come in.
    pub from: bool,
    /// How they are written.
    pub options: Vec<CopyOption>,
}

/// Whose rows are copied.
#[derive(Clone, Debug)]
pub(crate) enum CopySource {
    /// A table's.
    Table {
        /// The table.
        name: ast::ObjectName,
        /// Which columns; none means all.
        columns: Vec<ast::Ident>,
    },
    /// A query's.
    Query(Box<ast::Query>),
}

/// An option of COPY, in the names of its present syntax.
#[derive(Clone, Debug)]
pub(crate) struct CopyOption {
    /// Its name, lower case.
    pub name: String,
    /// Its argument.
    pub argument: Argument,
    /// Where it stands.
    pub location: Location,
}

/// An option's argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// None was given.
    None,
    /// A word, a number or a string.
    Text(String),
    /// A list of names.
    List(Vec<String>),
    /// `*`.
    Star,
}

/// A role where a statement names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoleName {
    /// By its name.
    Named(String),
    /// CURRENT_USER, CURRENT_ROLE.
    Current,
    /// SESSION_USER.
    Session,
    /// PUBLIC: everybody.
    Public,
}

/// What is said of a role; `None` for what is not.
#[derive(Clone, Default)]
pub(crate) struct RoleOptions {
    /// SUPERUSER.
    pub superuser: Option<bool>,
    /// INHERIT.
    pub inherit: Option<bool>,
    /// CREATEROLE.
    pub create_role: Option<bool>,
    /// CREATEDB.
    pub create_database: Option<bool>,
    /// LOGIN.
    pub login: Option<bool>,
    /// REPLICATION.
    pub replication: Option<bool>,
    /// BYPASSRLS.
    pub bypass_policies: Option<bool>,
    /// CONNECTION LIMIT.
    pub connection_limit: Option<i32>,
    /// PASSWORD; `None` inside for NULL.
    pub password: Option<Option<String>>,
    /// VALID UNTIL.
    pub valid_until: Option<Option<String>>,
    /// IN ROLE: what it belongs to.
    pub member_of: Vec<RoleName>,
    /// ROLE: who belongs to it.
    pub members: Vec<RoleName>,
    /// ADMIN: who belongs to it and may make others belong to it.
    pub administrators: Vec<RoleName>,
}

/// Without the password: commands are printed where something went wrong.
impl std::fmt::Debug for RoleOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RoleOptions")
            .field("password", &self.password.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}

/// CREATE, ALTER and DROP ROLE.
#[derive(Clone, Debug)]
pub(crate) enum RoleCommand {
    /// CREATE ROLE.
    Create {
        /// Its name.
        name: String,
        /// What is said of it.
        options: RoleOptions,
    },
    /// ALTER ROLE.
    Alter {
        /// Which.
        name: RoleName,
        /// What is said of it.
        options: RoleOptions,
    },
    /// ALTER ROLE … RENAME TO.
    Rename {
        /// Which.
        name: RoleName,
        /// What it is to be called.
        new_name: String,
    },
    /// DROP ROLE.
    Drop {
        /// Which.
        names: Vec<RoleName>,
        /// Whether absence is no error.
        if_exists: bool,
    },
}

/// GRANT and REVOKE.
#[derive(Clone, Debug)]
pub(crate) struct GrantCommand {
    /// Whether it is REVOKE.
    pub revoke: bool,
    /// What.
    pub granted: Granted,
    /// To or from whom.
    pub roles: Vec<RoleName>,
    /// WITH GRANT or ADMIN OPTION; of REVOKE, only that.
    pub option: bool,
    /// GRANTED BY.
    pub by: Option<RoleName>,
    /// CASCADE.
    pub cascade: bool,
}

/// What is granted.
#[derive(Clone, Debug)]
pub(crate) enum Granted {
    /// Privileges on objects.
    Privileges {
        /// Which; `None` for ALL.
        privileges: Option<Privileges>,
        /// On what.
        objects: GrantObjects,
    },
    /// Membership in roles.
    Roles(Vec<RoleName>),
}

/// What privileges are granted on.
#[derive(Clone, Debug)]
pub(crate) enum GrantObjects {
    /// These tables.
    Tables(Vec<ast::ObjectName>),
    /// Every table there is now in these schemas.
    AllTables(Vec<String>),
    /// These schemas.
    Schemas(Vec<String>),
}
