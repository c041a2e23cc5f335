//! Privilege checking: the planner collects the privileges that a statement needs, the
//! session checks them at each execution.

use super::{Catalog, FIRST_USER_OID, PUBLIC};
use crate::access::{ObjectKind, Privileges, denied};
use crate::error::{Error, Result, SqlState};

/// The privileges that a plan needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    tables: Vec<(u32, Privileges)>,
    /// The sequences of which the statement takes numbers.
    sequences: Vec<u32>,
    /// A system table in the plan that only superusers may read.
    secret: Option<&'static str>,
}

impl Needs {
    /// Adds privileges on a table. System tables are readable by every role and need
    /// none.
    pub fn table(&mut self, oid: u32, privileges: Privileges) {
        if oid < FIRST_USER_OID {
            return;
        }
        match self.tables.iter_mut().find(|(known, _)| *known == oid) {
            Some((_, known)) => *known = known.with(privileges),
            None => self.tables.push((oid, privileges)),
        }
    }

    /// Adds a sequence of which the statement takes numbers. Its privileges are looked at
    /// when it does.
    pub fn sequence(&mut self, oid: u32) {
        if !self.sequences.contains(&oid) {
            self.sequences.push(oid);
        }
    }

    /// The sequences of which the statement takes numbers.
    pub fn sequences(&self) -> &[u32] {
        &self.sequences
    }

    /// Adds a system table that only superusers may read.
    pub fn secret(&mut self, table: &'static str) {
        self.secret = Some(table);
    }

    /// The tables that the statement names, with the privileges it needs on them.
    pub fn tables(&self) -> &[(u32, Privileges)] {
        &self.tables
    }

    /// Fails with 42501 if the role lacks any of the privileges.
    pub fn check(&self, catalog: &Catalog, role: u32) -> Result<()> {
        let access = catalog.access();
        if access.is_superuser(role) {
            return Ok(());
        }
        if access.role(role).is_none() {
            return Err(gone(role));
        }
        if let Some(table) = self.secret {
            return Err(denied("table", table));
        }
        if self.tables.is_empty() {
            return Ok(());
        }
        let permanent = |(oid, _): &(u32, Privileges)| {
            let table = catalog.table_by_oid(*oid);
            table.is_none_or(|table| !table.is_temporary())
        };
        let schema = access.privileges(role, &access.schema, ObjectKind::Schema);
        if self.tables.iter().any(permanent) && !schema.include(Privileges::USAGE) {
            return Err(denied("schema", PUBLIC));
        }
        for (oid, privileges) in &self.tables {
            let table = catalog
                .table_by_oid(*oid)
                .ok_or_else(|| Error::internal("a planned table is gone"))?;
            let may = access.privileges(role, &table.owned, ObjectKind::Table);
            if !may.include(*privileges) {
                let missing: Vec<_> = privileges.without(may).names().collect();
                return Err(denied("table", &table.name)
                    .with_detail(format!("Missing: {}.", missing.join(", ")))
                    .with_table(PUBLIC, &table.name));
            }
        }
        Ok(())
    }
}

/// The session's role has been dropped.
fn gone(role: u32) -> Error {
    Error::new(
        SqlState::UNDEFINED_OBJECT,
        format!("role with OID {role} was dropped"),
    )
}
