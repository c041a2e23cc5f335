//! Views: CREATE, ALTER and DROP VIEW.
//!
//! A view has no storage and no rows, so these statements lock nothing but the catalog: a
//! statement that reads or writes through the view goes on with the definition that its
//! snapshot shows, and what is planned later has the new one.

use std::sync::Arc;

use coeval_sql_syntax::print;
use coeval_sql_syntax::tree::{self, CheckOption, Path, Persistence, Query};

use super::Change;
use super::table::option_value;
use crate::access::{ObjectKind, Owned, Privileges, denied, not_owner};
use crate::catalog::{
    Content, Definition, Object, PUBLIC, Reference, Relation, View, ViewColumn, fold, truth,
};
use crate::change::{check_default, constant_default, not_updatable};
use crate::error::{Error, Result, SqlState};
use crate::expression::{Binder, Parameters};
use crate::output::Column;
use crate::select;
use crate::statement::{RoleName, ViewAction, ViewCommand};

impl Change<'_> {
    /// Executes a statement about views, or COMMENT.
    pub(super) async fn views(&mut self, command: &ViewCommand) -> Result<&'static str> {
        match command {
            ViewCommand::Create(create) => self.create_view(create).await,
            ViewCommand::Alter {
                name,
                if_exists,
                actions,
            } => {
                if let Some(view) = self.altered_view(name, *if_exists)? {
                    self.alter_view(view, actions).await?;
                }
                Ok("ALTER VIEW")
            }
            ViewCommand::Drop {
                names,
                if_exists,
                cascade,
            } => self.drop_views(names, *if_exists, *cascade).await,
            ViewCommand::TableAs(create) => self.create_table_as(create).await,
            ViewCommand::Comment(comment) => self.comment(comment).await,
        }
    }

    async fn create_view(&mut self, create: &tree::CreateView) -> Result<&'static str> {
        const TAG: &str = "CREATE VIEW";
        match create.persistence {
            Persistence::Permanent => {}
            Persistence::Temporary => return Err(Error::unsupported("CREATE TEMPORARY VIEW")),
            Persistence::Unlogged => {
                let message = "views cannot be unlogged because they do not have storage";
                return Err(Error::syntax(message));
            }
        }
        let name = self.name(&create.name)?;
        if name.is_temporary() {
            return Err(Error::unsupported("CREATE TEMPORARY VIEW"));
        }
        self.require_schema(Privileges::USAGE.with(Privileges::CREATE))?;
        let recursive;
        let query = match create.recursive {
            false => &create.query,
            true => {
                recursive = recursive_query(create);
                &recursive
            }
        };
        refuse_changes(query)?;
        let known = self.catalog.relation(&name.name);
        let old = match (known, create.or_replace) {
            (None, _) => None,
            (Some(Relation::Object(object)), true) if object.view().is_some() => Some(object),
            (Some(_), true) => {
                return Err(Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("\"{}\" is not a view", name.name),
                ));
            }
            (Some(_), false) => {
                self.check_free(&name.name, false)?;
                return Err(Error::internal("a name that is free and taken"));
            }
        };
        if let Some(old) = &old {
            self.require_owner_of(old)?;
        }
        let (made, relations) = self.described(query)?;
        self.refuse_temporary_tables(&relations)?;
        let columns = view_columns(create, &made)?;
        let mut options = view_options(&create.options)?;
        let check = match create.check {
            CheckOption::None => None,
            CheckOption::Local => Some("local"),
            CheckOption::Cascaded => Some("cascaded"),
        };
        if let Some(check) = check {
            if options.iter().any(|(name, _)| name == "check_option") {
                let message = "parameter \"check_option\" specified more than once";
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            options.push(("check_option".to_owned(), check.to_owned()));
        }
        let mut view = View {
            columns,
            definition: Arc::new(Definition::new(print::query(query), relations)),
            options,
        };
        let object = match old {
            None => Object {
                oid: self.context.store.counters.oid(),
                name: name.name,
                owned: Owned::by(self.session.role),
                content: Content::View(view),
            },
            Some(old) => {
                replaceable(&old, &mut view)?;
                Object {
                    content: Content::View(view),
                    ..Object::clone(&old)
                }
            }
        };
        self.require_check_option(&object)?;
        self.write_object(object).await?;
        Ok(TAG)
    }

    /// The columns of a query, and the relations that its names stand for.
    pub(super) fn described(&self, query: &Query) -> Result<(Vec<Column>, Vec<Reference>)> {
        let locate = |at| self.statement.position(at);
        let parameters = Parameters::default();
        let mut binder = Binder::new(&self.catalog, self.session, &locate, parameters);
        binder.views.keep_record();
        let plan = select::plan_query(&mut binder, query)?;
        let taken = binder.parameters.finish().map_or(1, |types| types.len());
        if taken > 0 {
            return Err(Error::new(
                SqlState::UNDEFINED_PARAMETER,
                "there is no parameter $1",
            ));
        }
        Ok((plan.columns().to_vec(), binder.views.take_record()))
    }

    /// Fails if a view would read a temporary table, which other sessions do not have.
    fn refuse_temporary_tables(&self, relations: &[Reference]) -> Result<()> {
        let mut tables = relations
            .iter()
            .filter_map(|each| self.catalog.table_by_oid(each.oid));
        match tables.any(|table| table.is_temporary()) {
            true => Err(Error::unsupported("a view of a temporary table")),
            false => Ok(()),
        }
    }

    /// Fails if a view has a check option and cannot be written through.
    fn require_check_option(&self, object: &Object) -> Result<()> {
        if object.view().and_then(View::check_option).is_none() {
            return Ok(());
        }
        let Some(why) = not_updatable(object, &self.catalog, self.session)? else {
            return Ok(());
        };
        Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "WITH CHECK OPTION is supported only on automatically updatable views",
        )
        .with_hint(why))
    }

    /// The view to be altered, of which the role is the owner. With IF EXISTS, a notice and
    /// none for a view that does not exist.
    fn altered_view(&mut self, path: &Path, if_exists: bool) -> Result<Option<Arc<Object>>> {
        let name = self.name(path)?;
        let object = match self.catalog.named(&name) {
            Some(Relation::Object(object)) if object.view().is_some() => object,
            Some(_) => {
                return Err(Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("\"{}\" is not a view", name.name),
                ));
            }
            None if if_exists => {
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("relation \"{}\" does not exist, skipping", name.name),
                );
                return Ok(None);
            }
            None => {
                return Err(Error::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("relation \"{}\" does not exist", name.name),
                )
                .at(self.statement.position(name.at)));
            }
        };
        self.require_owner_of(&object)?;
        Ok(Some(object))
    }

    /// The view of this name; `None` if no relation or one of another kind has it.
    pub(super) fn view_named(&self, path: &Path) -> Result<Option<Arc<Object>>> {
        let name = self.name(path)?;
        Ok(match self.catalog.named(&name) {
            Some(Relation::Object(object)) if object.view().is_some() => Some(object),
            _ => None,
        })
    }

    /// Changes a view.
    pub(super) async fn alter_view(
        &mut self,
        object: Arc<Object>,
        actions: &[ViewAction],
    ) -> Result<()> {
        let mut object = Object::clone(&object);
        for action in actions {
            match action {
                ViewAction::Rename(new) => {
                    let new = fold(new);
                    self.require_schema(Privileges::CREATE)?;
                    self.check_free(&new, false)?;
                    object.name = new;
                }
                ViewAction::RenameColumn(old, new) => {
                    let (old, new) = (fold(old), fold(new));
                    let (name, view) = view_of(&mut object)?;
                    let position = view.column(&old).ok_or_else(|| {
                        let message = format!("column \"{old}\" does not exist");
                        Error::new(SqlState::UNDEFINED_COLUMN, message)
                    })?;
                    if view.column(&new).is_some() {
                        return Err(Error::new(
                            SqlState::DUPLICATE_COLUMN,
                            format!("column \"{new}\" of relation \"{name}\" already exists"),
                        ));
                    }
                    view.columns[position].name = new;
                }
                ViewAction::Owner(owner) => self.hand_over(&mut object, owner)?,
                ViewAction::Set(options) => {
                    let options = view_options(options)?;
                    let (_, view) = view_of(&mut object)?;
                    for (name, value) in options {
                        view.options.retain(|(known, _)| *known != name);
                        view.options.push((name, value));
                    }
                }
                ViewAction::Reset(options) => {
                    let (_, view) = view_of(&mut object)?;
                    for option in options {
                        let name = fold(&option.name);
                        view.options.retain(|(known, _)| *known != name);
                    }
                }
                ViewAction::Default(column, value) => {
                    self.column_default(&mut object, &fold(column), value.as_ref())?;
                }
            }
        }
        self.require_check_option(&object)?;
        self.write_object(object).await?;
        Ok(())
    }

    fn hand_over(&mut self, object: &mut Object, owner: &RoleName) -> Result<()> {
        let owner = self.new_owner(owner)?;
        let access = self.catalog.access();
        let may = access.privileges(owner, &access.schema, ObjectKind::Schema);
        if !access.is_superuser(self.session.role) && !may.include(Privileges::CREATE) {
            return Err(denied("schema", PUBLIC));
        }
        object.owned = super::grant::handed_over(&object.owned, owner);
        Ok(())
    }

    fn column_default(
        &self,
        object: &mut Object,
        column: &str,
        value: Option<&tree::Expr>,
    ) -> Result<()> {
        let (name, view) = view_of(object)?;
        let position = column_of(view, name, column)?;
        let changed = &mut view.columns[position];
        let Some(value) = value else {
            changed.default = None;
            return Ok(());
        };
        let as_column = changed.as_table_column(position);
        let value = &self.numbered(value)?;
        let system = self.session.system;
        check_default(value, &as_column, self.statement, &self.catalog, system)?;
        let moment = constant_default(value, &as_column, &self.catalog, self.session)?;
        changed.default = Some(moment.unwrap_or_else(|| print::expr(value)));
        Ok(())
    }

    async fn drop_views(
        &mut self,
        names: &[Path],
        if_exists: bool,
        cascade: bool,
    ) -> Result<&'static str> {
        let mut dropped: Vec<Arc<Object>> = Vec::new();
        for path in names {
            let name = self.name(path)?;
            let object = match self.catalog.named(&name) {
                Some(Relation::Object(object)) if object.view().is_some() => object,
                Some(other) => return Err(wrong_kind(&name.name, "view", &other)),
                None => {
                    let missing = format!("view \"{}\" does not exist", name.name);
                    if !if_exists {
                        return Err(Error::new(SqlState::UNDEFINED_TABLE, missing));
                    }
                    self.notice(
                        SqlState::SUCCESSFUL_COMPLETION,
                        format!("{missing}, skipping"),
                    );
                    continue;
                }
            };
            self.require_owner_of(&object)?;
            if dropped.iter().all(|known| known.oid != object.oid) {
                dropped.push(object);
            }
        }
        let roots: Vec<_> = dropped.iter().map(|object| object.oid).collect();
        self.drop_dependents(&roots, None, cascade).await?;
        for object in dropped {
            self.delete_object(object.oid).await?;
        }
        Ok("DROP VIEW")
    }

    /// Deletes the row of a view that nothing depends on.
    pub(super) async fn delete_object(&mut self, oid: u32) -> Result<()> {
        self.context
            .store
            .delete_described(&mut *self.context.transaction, oid)
            .await?;
        self.keep_object(None, oid);
        Ok(())
    }

    /// Fails with 42501 unless the statement's role has the privileges of the object's owner.
    pub(super) fn require_owner_of(&self, object: &Object) -> Result<()> {
        let access = self.catalog.access();
        if access.has_privileges_of(self.session.role, object.owned.owner) {
            return Ok(());
        }
        Err(not_owner(object.kind(), &object.name))
    }
}

/// SQLSTATE 42809: the relation is not of this kind.
pub(super) fn wrong_kind_of(name: &str, wanted: &str) -> Error {
    let article = if wanted == "index" { "an" } else { "a" };
    Error::new(
        SqlState::WRONG_OBJECT_TYPE,
        format!("\"{name}\" is not {article} {wanted}"),
    )
}

/// SQLSTATE 42809: the relation is not of the kind that DROP names.
pub(super) fn wrong_kind(name: &str, wanted: &str, found: &Relation) -> Error {
    let (found, one) = match found {
        Relation::Table(_) => ("TABLE", "a table"),
        Relation::Index(..) => ("INDEX", "an index"),
        Relation::Object(object) => match object.kind() {
            "view" => ("VIEW", "a view"),
            _ => ("SEQUENCE", "a sequence"),
        },
    };
    wrong_kind_of(name, wanted).with_hint(format!("Use DROP {found} to remove {one}."))
}

fn view_of(object: &mut Object) -> Result<(&str, &mut View)> {
    match &mut object.content {
        Content::View(view) => Ok((&object.name, view)),
        _ => Err(Error::internal("a view that is none")),
    }
}

fn column_of(view: &View, relation: &str, column: &str) -> Result<usize> {
    view.column(column).ok_or_else(|| {
        Error::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{column}\" of relation \"{relation}\" does not exist"),
        )
    })
}

/// The query of a recursive view: `WITH RECURSIVE name (columns) AS (query) SELECT columns FROM
/// name`.
fn recursive_query(create: &tree::CreateView) -> Query {
    let name = create.name.0.last().cloned().unwrap_or(tree::Name {
        text: "".into(),
        at: 0,
    });
    let relation = tree::Relation {
        name: Path(vec![name.clone()]),
        only: false,
    };
    let column = |column: &tree::Name| {
        let expr = tree::Expr {
            at: column.at,
            kind: tree::ExprKind::Column {
                path: Path(vec![column.clone()]),
                star: false,
            },
        };
        tree::Target::Expr(expr, None)
    };
    let targets = create.columns.iter().map(column).collect();
    let select = tree::Select::from_relation(relation, targets);
    Query {
        at: create.query.at,
        with: Some(tree::With {
            at: create.query.at,
            recursive: true,
            tables: vec![tree::CommonTable {
                name,
                columns: create.columns.clone(),
                materialized: None,
                statement: Arc::new(tree::StatementKind::Query(Box::new(create.query.clone()))),
                search: None,
                cycle: None,
            }],
        }),
        body: tree::Body::Select(Box::new(select)),
        order: Vec::new(),
        limit: None,
        offset: None,
        locking: Vec::new(),
    }
}

/// Fails for a query that changes something: SELECT INTO, and writing tables of WITH.
fn refuse_changes(query: &Query) -> Result<()> {
    let mut first = query;
    let into = loop {
        match &first.body {
            tree::Body::Select(select) => break select.into.is_some(),
            tree::Body::Set(query, _) => first = query,
            tree::Body::Values(_) | tree::Body::Table(_) => break false,
        }
    };
    if into {
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "views must not contain SELECT INTO",
        ));
    }
    let mut tables = query.with.iter().flat_map(|with| &with.tables);
    if tables.any(|table| !matches!(*table.statement, tree::StatementKind::Query(_))) {
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "views must not contain data-modifying statements in WITH",
        ));
    }
    Ok(())
}

/// The columns of a view that is made of a query with these columns.
fn view_columns(create: &tree::CreateView, made: &[Column]) -> Result<Vec<ViewColumn>> {
    if create.columns.len() > made.len() {
        return Err(Error::syntax(
            "CREATE VIEW specifies more column names than columns",
        ));
    }
    let mut columns: Vec<ViewColumn> = Vec::with_capacity(made.len());
    for (position, column) in made.iter().enumerate() {
        let name = create
            .columns
            .get(position)
            .map_or_else(|| column.name.clone(), fold);
        if columns.iter().any(|known| known.name == name) {
            return Err(Error::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        columns.push(ViewColumn {
            name,
            column_type: column.column_type,
            default: None,
        });
    }
    Ok(columns)
}

/// Fails unless the new definition can take the place of the old one: it has all of its
/// columns, in their places, and perhaps more. Takes over their defaults.
fn replaceable(old: &Object, new: &mut View) -> Result<()> {
    let refused = |message: String| Error::new(SqlState::INVALID_TABLE_DEFINITION, message);
    let Some(known) = old.view() else {
        return Err(Error::internal("a view that is none"));
    };
    if new.columns.len() < known.columns.len() {
        return Err(refused("cannot drop columns from view".to_owned()));
    }
    for (old, new) in known.columns.iter().zip(&mut new.columns) {
        if old.name != new.name {
            return Err(refused(format!(
                "cannot change name of view column \"{}\" to \"{}\"",
                old.name, new.name
            ))
            .with_hint(
                "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.",
            ));
        }
        if old.column_type != new.column_type {
            return Err(refused(format!(
                "cannot change data type of view column \"{}\" from {} to {}",
                old.name, old.column_type, new.column_type
            )));
        }
        new.default.clone_from(&old.default);
    }
    Ok(())
}

/// The options of a view.
fn view_options(options: &[tree::ListedOption]) -> Result<Vec<(String, String)>> {
    let invalid = |message: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut read: Vec<(String, String)> = Vec::with_capacity(options.len());
    for option in options {
        let name = fold(&option.name);
        let value = option_value(option);
        if let Some(namespace) = &option.namespace {
            let message = format!("unrecognized parameter namespace \"{}\"", namespace.text);
            return Err(invalid(message));
        }
        match name.as_str() {
            "security_barrier" | "security_invoker" if truth(&value).is_none() => {
                let message = format!("invalid value for boolean option \"{name}\": {value}");
                return Err(invalid(message));
            }
            "check_option" if !matches!(value.as_str(), "local" | "cascaded") => {
                let message = format!("invalid value for enum option \"check_option\": {value}");
                return Err(
                    invalid(message).with_detail("Valid values are \"local\" and \"cascaded\".")
                );
            }
            "security_barrier" | "security_invoker" | "check_option" => {}
            _ => return Err(invalid(format!("unrecognized parameter \"{name}\""))),
        }
        if read.iter().any(|(known, _)| *known == name) {
            let message = format!("parameter \"{name}\" specified more than once");
            return Err(invalid(message));
        }
        read.push((name, value));
    }
    Ok(read)
}

impl ViewColumn {
    /// The column as one of a table, for its default.
    pub(crate) fn as_table_column(&self, position: usize) -> crate::catalog::TableColumn {
        crate::catalog::TableColumn {
            name: self.name.clone(),
            column_type: self.column_type,
            attribute: position as i16 + 1,
            not_null: false,
            default: self.default.clone(),
            generation: None,
        }
    }
}
