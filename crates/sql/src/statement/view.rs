//! Views, tables made from queries, and comments, from their trees.

use coeval_sql_syntax::tree::{
    self, Body, CreateTableAs, IntoTable, ListedOption, Name, Object, ObjectAction, ObjectKind,
    Path, Query, Storage, TableSource,
};

use super::Statement;
use super::command::{Command, RoleName};
use super::lower::Lower;
use super::name::object_name;
use super::role::role_name;
use crate::catalog::fold;
use crate::error::{Error, Result, SqlState};

/// A change of views, a table made from a query, or a comment.
#[derive(Debug)]
pub(crate) enum ViewCommand {
    /// CREATE VIEW.
    Create(Box<tree::CreateView>),
    /// ALTER VIEW, also under the name of ALTER TABLE.
    Alter {
        /// Name of the view.
        name: Path,
        /// Whether the statement succeeds if the view does not exist.
        if_exists: bool,
        /// What is changed, one after the other.
        actions: Vec<ViewAction>,
    },
    /// DROP VIEW.
    Drop {
        /// Names of the views.
        names: Vec<Path>,
        /// Whether the statement succeeds if one of them does not exist.
        if_exists: bool,
        /// Whether what depends on them is dropped, too.
        cascade: bool,
    },
    /// CREATE TABLE AS and SELECT INTO.
    TableAs(Box<TableAs>),
    /// COMMENT ON.
    Comment(tree::Comment),
}

/// CREATE TABLE AS, and SELECT INTO.
#[derive(Debug)]
pub(crate) struct TableAs {
    /// The table, without its columns.
    pub table: tree::CreateTable,
    /// Names of the columns, as far as the statement gives them.
    pub columns: Vec<Name>,
    /// What makes the rows.
    pub source: RowSource,
    /// Whether the table gets the rows, and not only the columns.
    pub with_data: bool,
    /// Whether the statement is SELECT INTO.
    pub into: bool,
}

/// What makes the rows of a new table.
#[derive(Debug)]
pub(crate) enum RowSource {
    /// A query.
    Query(Statement),
    /// EXECUTE of a prepared query, with arguments.
    Execute(String, Vec<tree::Expr>),
}

/// A change of a view.
#[derive(Debug)]
pub(crate) enum ViewAction {
    /// RENAME TO.
    Rename(Name),
    /// RENAME COLUMN.
    RenameColumn(Name, Name),
    /// OWNER TO.
    Owner(RoleName),
    /// SET of options.
    Set(Vec<ListedOption>),
    /// RESET of options.
    Reset(Vec<ListedOption>),
    /// ALTER COLUMN … SET DEFAULT; no expression is DROP DEFAULT.
    Default(Name, Option<tree::Expr>),
}

impl ViewCommand {
    /// Command tag for the audit log.
    pub(super) fn definition(&self) -> &'static str {
        match self {
            Self::Create(_) => "CREATE VIEW",
            Self::Alter { .. } => "ALTER VIEW",
            Self::Drop { .. } => "DROP VIEW",
            Self::TableAs(create) if create.into => "SELECT INTO",
            Self::TableAs(_) => "CREATE TABLE AS",
            Self::Comment(_) => "COMMENT",
        }
    }
}

/// CREATE VIEW.
pub(super) fn create(view: Box<tree::CreateView>) -> Command {
    Command::View(ViewCommand::Create(view))
}

/// CREATE TABLE AS.
pub(super) fn table_as(lower: &Lower<'_>, create: CreateTableAs) -> Result<Command> {
    if create.materialized_view {
        return Err(lower.unsupported("CREATE MATERIALIZED VIEW"));
    }
    let source = match create.source {
        TableSource::Query(mut query) => {
            refuse_second_into(&mut query)?;
            RowSource::Query(lower.inner(tree::StatementKind::Query(query))?)
        }
        TableSource::Execute(execute) => RowSource::Execute(fold(&execute.name), execute.arguments),
    };
    let table = empty_table(create.persistence, create.name);
    Ok(Command::View(ViewCommand::TableAs(Box::new(TableAs {
        table: tree::CreateTable {
            if_not_exists: create.if_not_exists,
            storage: create.storage,
            ..table
        },
        columns: create.columns,
        source,
        with_data: create.with_data,
        into: false,
    }))))
}

/// A query; SELECT … INTO makes a table.
pub(super) fn query(lower: &Lower<'_>, mut query: Box<Query>) -> Result<Command> {
    refuse_late_into(lower, &query)?;
    let Some(into) = take_into(&mut query) else {
        return Ok(Command::Query(query));
    };
    let source = RowSource::Query(lower.inner(tree::StatementKind::Query(query))?);
    Ok(Command::View(ViewCommand::TableAs(Box::new(TableAs {
        table: empty_table(into.persistence, into.name),
        columns: Vec::new(),
        source,
        with_data: true,
        into: true,
    }))))
}

fn empty_table(persistence: tree::Persistence, name: Path) -> tree::CreateTable {
    tree::CreateTable {
        persistence,
        if_not_exists: false,
        name,
        shape: tree::TableShape::Columns(Vec::new()),
        inherits: Vec::new(),
        partition_by: None,
        storage: Storage::default(),
        foreign: None,
    }
}

/// CREATE TABLE AS has no SELECT INTO within itself.
fn refuse_second_into(query: &mut Query) -> Result<()> {
    match take_into(query) {
        None => Ok(()),
        Some(_) => Err(not_here()),
    }
}

/// Fails for INTO of a SELECT behind UNION and its like.
fn refuse_late_into(lower: &Lower<'_>, query: &Query) -> Result<()> {
    let mut query = query;
    while let Body::Set(first, steps) = &query.body {
        for step in steps {
            if let Body::Select(select) = &step.query.body
                && let Some(into) = &select.into
            {
                let message = "INTO is only allowed on first SELECT of UNION/INTERSECT/EXCEPT";
                let place = lower.position(into.name.at());
                return Err(Error::syntax(message).at(place));
            }
        }
        query = first;
    }
    Ok(())
}

/// Takes INTO away from the first SELECT of a query, the only one that may have it.
fn take_into(query: &mut Query) -> Option<IntoTable> {
    let mut query = query;
    loop {
        match &mut query.body {
            Body::Select(select) => return select.into.take(),
            Body::Set(first, _) => query = first,
            Body::Values(_) | Body::Table(_) => return None,
        }
    }
}

/// ALTER VIEW with actions like those of ALTER TABLE.
pub(super) fn alter(lower: &Lower<'_>, alter: tree::AlterTable) -> Result<Command> {
    let mut actions = Vec::with_capacity(alter.actions.len());
    for action in alter.actions {
        actions.push(match action {
            tree::TableAction::Owner(owner) => ViewAction::Owner(role_name(&owner)),
            tree::TableAction::SetOptions(options) => ViewAction::Set(options),
            tree::TableAction::ResetOptions(options) => ViewAction::Reset(options),
            tree::TableAction::AlterColumn(name, tree::ColumnAction::SetDefault(value)) => {
                ViewAction::Default(name, Some(value))
            }
            tree::TableAction::AlterColumn(name, tree::ColumnAction::DropDefault) => {
                ViewAction::Default(name, None)
            }
            _ => return Err(lower.unsupported("this form of ALTER VIEW")),
        });
    }
    Ok(Command::View(ViewCommand::Alter {
        name: alter.table.name,
        if_exists: alter.if_exists,
        actions,
    }))
}

/// ALTER VIEW … RENAME and OWNER TO.
pub(super) fn alter_object(
    lower: &Lower<'_>,
    view: tree::Relation,
    if_exists: bool,
    action: ObjectAction,
) -> Result<Command> {
    let action = match action {
        ObjectAction::Rename(name) => ViewAction::Rename(name),
        ObjectAction::RenameColumn(old, new) => ViewAction::RenameColumn(old, new),
        ObjectAction::Owner(owner) => ViewAction::Owner(role_name(&owner)),
        ObjectAction::Schema(_) => return Err(lower.unsupported("ALTER VIEW … SET SCHEMA")),
        _ => return Err(lower.unsupported("this form of ALTER VIEW")),
    };
    Ok(Command::View(ViewCommand::Alter {
        name: view.name,
        if_exists,
        actions: vec![action],
    }))
}

/// DROP VIEW; `None` for objects of another kind.
pub(super) fn drop_views(drop: &tree::Drop) -> Option<Command> {
    let mut names = Vec::with_capacity(drop.objects.len());
    for object in &drop.objects {
        match object {
            Object::Named(ObjectKind::View, name) => names.push(name.clone()),
            _ => return None,
        }
    }
    Some(Command::View(ViewCommand::Drop {
        names,
        if_exists: drop.if_exists,
        cascade: drop.cascade,
    }))
}

/// COMMENT ON.
pub(super) fn comment(lower: &Lower<'_>, comment: tree::Comment) -> Result<Command> {
    use ObjectKind as K;
    match &comment.object {
        Object::Named(
            K::Table | K::View | K::Index | K::Sequence | K::Schema | K::Role | K::Database,
            _,
        )
        | Object::Column(_)
        | Object::PartOfTable(tree::TablePartKind::Constraint, ..) => {
            Ok(Command::View(ViewCommand::Comment(comment)))
        }
        other => Err(lower.unsupported(format_args!("COMMENT ON {}", object_name(other)))),
    }
}

/// SQLSTATE 42601: INTO where no table can be made of a query.
pub(crate) fn not_here() -> Error {
    let message = "SELECT ... INTO is not allowed here";
    Error::new(SqlState::SYNTAX_ERROR, message)
}
