//! Generated columns and identity columns in DDL.

use std::sync::Arc;

use coeval_sql_syntax::print;
use coeval_sql_syntax::tree::{ColumnAction, Expr, ExprKind, IdentityAction, SequenceOption};

use super::Change;
use super::depend::Dependent;
use super::sequence_options::{Options, check_type};
use crate::catalog::over_columns;
use crate::catalog::{Generation, Object, Table, fold};
use crate::change::bind_generated;
use crate::error::{Error, Result, SqlState};
use crate::output::{Notice, Severity};
use crate::statement::parse_expression;

impl Change<'_> {
    /// Makes a column computed by an expression. `others` are the columns that are to be
    /// computed, too, by attribute number.
    pub(super) fn generate(
        &mut self,
        table: &mut Table,
        position: usize,
        expression: &Expr,
        others: &[i16],
    ) -> Result<()> {
        let (stored, columns) = over_columns(self.numbered(expression)?, table);
        for used in columns {
            let used = &table.columns[used];
            let is_computed = used
                .generation
                .as_ref()
                .is_some_and(|generation| generation.expression().is_some());
            if is_computed || others.contains(&used.attribute) {
                return Err(Error::new(
                    SqlState::INVALID_OBJECT_DEFINITION,
                    format!(
                        "cannot use generated column \"{}\" in column generation expression",
                        used.name
                    ),
                )
                .with_detail("A generated column cannot reference another generated column.")
                .at(self.place_of(expression, &used.name)));
            }
        }
        let locate = |at| self.statement.position(at);
        let around = (&self.catalog, self.session);
        bind_generated(expression, &table.columns[position], table, around, &locate)?;
        table.columns[position].generation = Some(Generation::Stored(print::expr(&stored)));
        Ok(())
    }

    /// Where a column stands in an expression.
    fn place_of(&self, expression: &Expr, column: &str) -> Option<u32> {
        let mut place = None;
        expression.clone().walk_mut(&mut |each| {
            if let ExprKind::Column { path, .. } = &each.kind
                && path.0.last().is_some_and(|name| fold(name) == column)
            {
                place = place.or(Some(each.at));
            }
        });
        self.statement.position(place?)
    }

    /// The computed columns of a table whose expressions use the column at `position`.
    pub(super) fn computed_from(&self, table: &Table, position: usize) -> Vec<String> {
        let computed = table.columns.iter().filter(|column| {
            let expression = column.generation.as_ref().and_then(Generation::expression);
            let parsed = expression.and_then(|sql| parse_expression(sql).ok());
            parsed.is_some_and(|parsed| over_columns(parsed, table).1.contains(&position))
        });
        computed.map(|column| column.name.clone()).collect()
    }

    /// What depends on a column because it is computed from it.
    pub(super) fn computed_dependents(table: &Table, of: &str, names: &[String]) -> Vec<Dependent> {
        let dependent = |name: &String| Dependent {
            object: format!("column {name} of table {}", table.name),
            on: format!("column {of} of table {}", table.name),
        };
        names.iter().map(dependent).collect()
    }

    /// Executes the actions of ALTER COLUMN about identity and expressions.
    pub(super) async fn alter_generation(
        &mut self,
        table: &Table,
        position: usize,
        action: &ColumnAction,
    ) -> Result<Arc<Table>> {
        let mut new = table.clone();
        let column = &mut new.columns[position];
        let named = format!("column \"{}\" of relation \"{}\"", column.name, table.name);
        let state =
            |message: String| Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
        match action {
            ColumnAction::AddIdentity { always, options } => {
                let data_type = column.column_type.data_type;
                check_type(data_type, true)?;
                if !column.not_null {
                    return Err(state(format!(
                        "{named} must be declared NOT NULL before identity can be added"
                    )));
                }
                match &column.generation {
                    Some(Generation::Identity { .. }) => {
                        return Err(state(format!("{named} is already an identity column")));
                    }
                    Some(Generation::Stored(_)) => {
                        return Err(state(format!("{named} is a generated column")));
                    }
                    None if column.default.is_some() => {
                        return Err(state(format!("{named} already has a default value")));
                    }
                    None => {}
                }
                let options = Options::read(options, true)?;
                if options.data_type.is_some() {
                    return Err(Error::syntax("conflicting or redundant options"));
                }
                column.generation = Some(Generation::Identity { always: *always });
                let owner = Some((table.oid, column.attribute));
                let name = match options.name {
                    Some(path) => {
                        let name = self.name(path)?.name;
                        self.check_free(&name, false)?;
                        name
                    }
                    None => {
                        let column = Some(table.columns[position].name.as_str());
                        self.catalog.free_name(&table.name, column, "seq")
                    }
                };
                let settled = options.create(data_type)?;
                self.make_sequence(name, settled, table.owned.owner, (owner, true))
                    .await?;
            }
            ColumnAction::SetIdentity(actions) => {
                let Some(Generation::Identity { always }) = &mut column.generation else {
                    return Err(state(format!("{named} is not an identity column")));
                };
                let mut options: Vec<&SequenceOption> = Vec::new();
                for action in actions {
                    match action {
                        IdentityAction::Generated(now) => *always = *now,
                        IdentityAction::Option(option) => options.push(option),
                    }
                }
                if !options.is_empty() {
                    let options = Options::read(options, true)?;
                    let sequence = self.identity_sequence(table, position)?;
                    self.change_sequence(&sequence, &options).await?;
                }
            }
            ColumnAction::DropIdentity(if_exists) => {
                if !matches!(column.generation, Some(Generation::Identity { .. })) {
                    let message = format!("{named} is not an identity column");
                    return self.or_skip(table, message, *if_exists);
                }
                column.generation = None;
                let sequence = self.identity_sequence(table, position)?;
                self.remove_sequence(&sequence).await?;
            }
            ColumnAction::DropExpression(if_exists) => {
                if !matches!(column.generation, Some(Generation::Stored(_))) {
                    let message = format!("{named} is not a stored generated column");
                    return self.or_skip(table, message, *if_exists);
                }
                column.generation = None;
            }
            _ => return Err(Error::internal("not about how a column is made")),
        }
        self.replace(new).await
    }

    /// Skips an action with a notice, if it may be skipped; else fails.
    fn or_skip(&mut self, table: &Table, message: String, skips: bool) -> Result<Arc<Table>> {
        if !skips {
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            return Err(Error::new(state, message));
        }
        self.notices.push(Notice::new(
            Severity::Notice,
            SqlState::SUCCESSFUL_COMPLETION,
            format!("{message}, skipping"),
        ));
        let known = self.catalog.table_by_oid(table.oid).cloned();
        known.ok_or_else(|| Error::internal("a table to be changed is gone"))
    }

    fn identity_sequence(&self, table: &Table, position: usize) -> Result<Arc<Object>> {
        let attribute = table.columns[position].attribute;
        let found = self.catalog.sequence_of_column(table.oid, attribute);
        let found = found.filter(|(_, sequence)| sequence.is_identity);
        found
            .map(|(object, _)| Arc::clone(object))
            .ok_or_else(|| Error::internal("an identity column without its sequence"))
    }
}

/// Fails if a column cannot have a default because of how it is made.
pub(super) fn check_may_default(table: &Table, position: usize, drops: bool) -> Result<()> {
    let column = &table.columns[position];
    let (what, hint) = match &column.generation {
        None => return Ok(()),
        Some(Generation::Identity { .. }) => ("an identity column", "IDENTITY"),
        Some(Generation::Stored(_)) => ("a generated column", "EXPRESSION"),
    };
    let error = Error::syntax(format!(
        "column \"{}\" of relation \"{}\" is {what}",
        column.name, table.name
    ));
    Err(match drops {
        true => error.with_hint(format!(
            "Use ALTER TABLE ... ALTER COLUMN ... DROP {hint} instead."
        )),
        false => error,
    })
}
