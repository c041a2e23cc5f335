//! CREATE TABLE AS: the table, without its rows, which the session inserts.

use coeval_sql_syntax::tree::{ColumnDefinition, CreateTable, Name, TableElement, TableShape};

use super::Change;
use crate::catalog::fold;
use crate::error::{Error, Result};
use crate::statement::{TableAs, parse_type};

impl Change<'_> {
    /// Creates the table. Returns the command tag `SELECT` if the session has to insert the
    /// query's rows.
    pub(super) async fn create_table_as(&mut self, create: &TableAs) -> Result<&'static str> {
        const NO_ROWS: &str = "CREATE TABLE AS";
        let name = self.name(&create.table.name)?;
        let own = self.on_commit(&create.table, &name)?.is_some();
        if create.table.if_not_exists && !self.check_free_in(own, &name.name, true)? {
            return Ok(NO_ROWS);
        }
        let result = self.context.result;
        if create.columns.len() > result.len() {
            return Err(Error::syntax("too many column names were specified"));
        }
        let mut elements = Vec::with_capacity(result.len());
        for (position, column) in result.iter().enumerate() {
            let name = match create.columns.get(position) {
                Some(name) => fold(name),
                None => column.name.clone(),
            };
            elements.push(TableElement::Column(ColumnDefinition {
                name: Name {
                    text: name.into(),
                    at: create.table.name.at(),
                },
                kind: Some(parse_type(&column.column_type.to_string())?),
                compression: None,
                options: Vec::new(),
                collation: None,
                constraints: Vec::new(),
            }));
        }
        let table = CreateTable {
            shape: TableShape::Columns(elements),
            ..create.table.clone()
        };
        self.create_table(&table).await?;
        Ok(if create.with_data { "SELECT" } else { NO_ROWS })
    }
}
