//! What the definitions of columns ask for besides the columns: keys, CHECK constraints,
//! sequences, and expressions that compute a column.

use coeval_sql_syntax::tree::{
    BaseType, Expr, Path, SequenceOption, TableConstraint, TableConstraintKind, TypeName,
};

use super::Change;
use super::constraint::{KeyConstraint, deferrable};
use super::sequence_options::{Options, check_type};
use crate::catalog::{Generation, Table, TableColumn, fold};
use crate::error::{Error, Result, SqlState};
use crate::expression::EvaluationContext;
use crate::sequence::{Settled, with_numbers};
use crate::value::{DataType, Value};

/// What the definitions of columns ask for besides the columns.
#[derive(Default)]
pub(super) struct Parts<'tree> {
    /// Name of the table, for errors.
    table: String,
    pub(super) keys: Vec<KeyConstraint>,
    pub(super) checks: Vec<NewCheck<'tree>>,
    sequences: Vec<NewSequence<'tree>>,
    /// Columns that are computed, by attribute number.
    generated: Vec<(i16, &'tree Expr)>,
}

/// A CHECK constraint to be made.
pub(super) struct NewCheck<'tree> {
    pub(super) name: Option<String>,
    pub(super) condition: &'tree Expr,
    pub(super) is_local: bool,
    pub(super) is_valid: bool,
}

/// The sequence of a column.
struct NewSequence<'tree> {
    attribute: i16,
    settled: Settled,
    name: Option<&'tree Path>,
    is_identity: bool,
}

/// Which clauses a column's definition has had.
#[derive(Clone, Copy, Default)]
pub(super) struct Clauses {
    default: bool,
    identity: bool,
    generated: bool,
    /// NULL.
    nullable: bool,
    /// NOT NULL, or what implies it.
    not_null: bool,
}

impl Clauses {
    /// Notes NULL or, if that is not it, NOT NULL or what implies it.
    pub(super) fn note_nullable(&mut self, nullable: bool) {
        self.nullable |= nullable;
        self.not_null |= !nullable;
    }
}

impl<'tree> NewCheck<'tree> {
    /// The CHECK constraint that a table's constraint is, if it is one.
    pub(super) fn of_table(constraint: &'tree TableConstraint) -> Result<Option<Self>> {
        let TableConstraintKind::Check(condition) = &constraint.kind else {
            return Ok(None);
        };
        let attributes = constraint.attributes;
        if attributes.deferrable || attributes.initially_deferred {
            return Err(deferrable());
        }
        Ok(Some(Self {
            name: constraint.name.as_ref().map(fold),
            condition,
            is_local: attributes.no_inherit,
            is_valid: !attributes.not_valid,
        }))
    }
}

impl<'tree> Parts<'tree> {
    pub(super) fn of(table: &str) -> Self {
        Self {
            table: table.to_owned(),
            ..Self::default()
        }
    }

    /// Notes a clause of a column, which it may have once.
    fn once(&self, what: &str, clause: &mut bool, column: &TableColumn) -> Result<()> {
        if std::mem::replace(clause, true) {
            return Err(Error::syntax(format!(
                "multiple {what} for column \"{}\" of table \"{}\"",
                column.name, self.table
            )));
        }
        Ok(())
    }

    /// Notes DEFAULT.
    pub(super) fn note_default(&self, column: &TableColumn, clauses: &mut Clauses) -> Result<()> {
        self.once("default values specified", &mut clauses.default, column)
    }

    /// Notes that the column's type is serial or one of its like.
    pub(super) fn serial(&mut self, column: &mut TableColumn, clauses: &mut Clauses) -> Result<()> {
        self.note_default(column, clauses)?;
        column.not_null = true;
        clauses.not_null = true;
        let settled = Options::default().create(column.column_type.data_type)?;
        self.sequences.push(NewSequence {
            attribute: column.attribute,
            settled,
            name: None,
            is_identity: false,
        });
        Ok(())
    }

    /// Notes GENERATED … AS IDENTITY.
    pub(super) fn identity(
        &mut self,
        column: &mut TableColumn,
        (always, options): (bool, &'tree [SequenceOption]),
        clauses: &mut Clauses,
    ) -> Result<()> {
        self.once("identity specifications", &mut clauses.identity, column)?;
        let data_type = column.column_type.data_type;
        check_type(data_type, true)?;
        let options = Options::read(options, true)?;
        if options.data_type.is_some() {
            return Err(Error::syntax("conflicting or redundant options"));
        }
        column.not_null = true;
        clauses.not_null = true;
        column.generation = Some(Generation::Identity { always });
        self.sequences.push(NewSequence {
            attribute: column.attribute,
            settled: options.create(data_type)?,
            name: options.name,
            is_identity: true,
        });
        Ok(())
    }

    /// Notes that a column is an identity column as another one is, whose sequence counts so.
    pub(super) fn identity_like(&mut self, attribute: i16, settled: Settled) {
        self.sequences.push(NewSequence {
            attribute,
            settled,
            name: None,
            is_identity: true,
        });
    }

    /// Notes GENERATED ALWAYS AS (…) STORED.
    pub(super) fn generated(
        &mut self,
        column: &TableColumn,
        expression: &'tree Expr,
        clauses: &mut Clauses,
    ) -> Result<()> {
        self.once(
            "generation clauses specified",
            &mut clauses.generated,
            column,
        )?;
        self.generated.push((column.attribute, expression));
        Ok(())
    }

    /// Fails if a column has clauses that exclude each other.
    pub(super) fn check_clauses(&self, column: &TableColumn, clauses: Clauses) -> Result<()> {
        if clauses.nullable && clauses.not_null {
            return Err(Error::syntax(format!(
                "conflicting NULL/NOT NULL declarations for column \"{}\" of table \"{}\"",
                column.name, self.table
            )));
        }
        let both = match clauses {
            Clauses {
                default: true,
                identity: true,
                ..
            } => "default and identity",
            Clauses {
                default: true,
                generated: true,
                ..
            } => "default and generation expression",
            Clauses {
                identity: true,
                generated: true,
                ..
            } => "identity and generation expression",
            _ => return Ok(()),
        };
        Err(Error::syntax(format!(
            "both {both} specified for column \"{}\" of table \"{}\"",
            column.name, self.table
        )))
    }
}

impl Change<'_> {
    /// Makes what the columns of a table ask for, but for keys, and describes it in the table.
    /// The rows of a table that is there are not looked at.
    pub(super) async fn make_parts(&mut self, table: &mut Table, parts: &Parts<'_>) -> Result<()> {
        for new in &parts.sequences {
            let position = position(table, new.attribute)?;
            let name = match new.name {
                Some(path) => {
                    let name = self.name(path)?.name;
                    self.check_free(&name, false)?;
                    name
                }
                None => {
                    let column = &table.columns[position].name;
                    self.catalog.free_name(&table.name, Some(column), "seq")
                }
            };
            let owner = table.owned.owner;
            let column = Some((table.oid, new.attribute));
            let oid = self
                .make_sequence(name, new.settled, owner, (column, new.is_identity))
                .await?;
            if !new.is_identity {
                table.columns[position].default = Some(format!("nextval('{oid}'::regclass)"));
            }
        }
        let computed: Vec<i16> = parts.generated.iter().map(|(each, _)| *each).collect();
        for (attribute, expression) in &parts.generated {
            let position = position(table, *attribute)?;
            self.generate(table, position, expression, &computed)?;
        }
        for check in &parts.checks {
            self.add_check(table, check)?;
        }
        Ok(())
    }

    /// The expression with OIDs in place of the names of relations, as the catalog keeps it.
    pub(super) fn numbered(&self, expression: &Expr) -> Result<Expr> {
        let context = EvaluationContext::new(self.session, &self.catalog, &[], None);
        let by_name = self.session.system.by_name;
        with_numbers(expression.clone(), &mut |name, at| {
            let found = by_name(DataType::Regclass, name, &context);
            match found.map_err(|error| error.at(self.statement.position(at)))? {
                Value::Object(oid, _) => Ok(oid),
                _ => Err(Error::internal("a relation without a number")),
            }
        })
    }
}

/// The position of the column with this attribute number.
fn position(table: &Table, attribute: i16) -> Result<usize> {
    let mut columns = table.columns.iter();
    let found = columns.position(|column| column.attribute == attribute);
    found.ok_or_else(|| Error::internal("a column that is defined is not there"))
}

/// The type of the numbers of serial and its like.
pub(super) fn serial_type(kind: &TypeName) -> Result<Option<DataType>> {
    let BaseType::Named(path, modifiers) = &kind.base else {
        return Ok(None);
    };
    let [name] = path.0.as_slice() else {
        return Ok(None);
    };
    let data_type = match name.text.as_str() {
        "smallserial" | "serial2" => DataType::Int2,
        "serial" | "serial4" => DataType::Int4,
        "bigserial" | "serial8" => DataType::Int8,
        _ => return Ok(None),
    };
    if !kind.dimensions.is_empty() {
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "array of serial is not implemented",
        ));
    }
    if !modifiers.is_empty() {
        return Err(Error::syntax(format!(
            "type modifier is not allowed for type \"{}\"",
            data_type.name()
        )));
    }
    Ok(Some(data_type))
}
