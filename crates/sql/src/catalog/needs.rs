//! Privilege checking: the planner collects the privileges that a statement needs, the
//! session checks them at each execution.

use super::{Catalog, FIRST_USER_OID, PUBLIC};
use crate::access::{ObjectKind, Privileges, denied};
use crate::error::{Error, Result, SqlState};

/// The privileges that a plan needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The relations that the statement names, in itself and in the views that it reads.
    tables: Vec<(u32, Privileges)>,
    /// The sequences of which the statement takes numbers.
    sequences: Vec<u32>,
    checks: Vec<Need>,
    /// The role that needs what is being bound: the owner of a view; `None` for the role
    /// that runs the statement.
    pub(crate) acting: Option<u32>,
}

/// Privileges that a role needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    what: Needed,
    /// The role; `None` for the one that runs the statement.
    role: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    /// Privileges on a relation.
    On(u32, Privileges),
    /// To be a superuser, to read a system table.
    Secret(&'static str),
}

impl Needs {
    /// Adds privileges on a table or a view. System tables are readable by every role and
    /// need none.
    pub fn table(&mut self, oid: u32, privileges: Privileges) {
        if oid < FIRST_USER_OID {
            return;
        }
        match self.tables.iter_mut().find(|(known, _)| *known == oid) {
            Some((_, known)) => *known = known.with(privileges),
            None => self.tables.push((oid, privileges)),
        }
        let role = self.acting;
        for each in self.checks.iter_mut().filter(|each| each.role == role) {
            if let Needed::On(known, all) = &mut each.what
                && *known == oid
            {
                *all = all.with(privileges);
                return;
            }
        }
        let what = Needed::On(oid, privileges);
        self.checks.push(Need { what, role });
    }

    /// The privileges on a relation that the statement's own text, or the view that is being
    /// bound, needs.
    pub(crate) fn own(&self, oid: u32) -> Privileges {
        let of = |need: &Need| match need.what {
            Needed::On(known, privileges) if known == oid => Some(privileges),
            _ => None,
        };
        let own = self.checks.iter().filter_map(of);
        own.fold(Privileges::NONE, Privileges::with)
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
        let what = Needed::Secret(table);
        let role = self.acting;
        self.checks.push(Need { what, role });
    }

    /// The relations that the statement names, in itself and in the views that it reads, with
    /// the privileges that any role needs on them.
    pub fn tables(&self) -> &[(u32, Privileges)] {
        &self.tables
    }

    /// Fails with 42501 if a role lacks any of the privileges: `role`, which runs the
    /// statement, or an owner of a view that it reads.
    pub fn check(&self, catalog: &Catalog, role: u32) -> Result<()> {
        let access = catalog.access();
        if access.role(role).is_none() && !access.is_superuser(role) {
            return Err(gone(role));
        }
        let of_public = |need: &Need| match need.what {
            Needed::On(oid, _) => {
                let table = catalog.table_by_oid(oid);
                need.role.is_none() && table.is_none_or(|table| !table.is_temporary())
            }
            Needed::Secret(_) => false,
        };
        if !access.is_superuser(role) && self.checks.iter().any(of_public) {
            let schema = access.privileges(role, &access.schema, ObjectKind::Schema);
            if !schema.include(Privileges::USAGE) {
                return Err(denied("schema", PUBLIC));
            }
        }
        for need in &self.checks {
            let role = need.role.unwrap_or(role);
            if access.is_superuser(role) {
                continue;
            }
            match need.what {
                Needed::Secret(table) => return Err(denied("table", table)),
                Needed::On(oid, privileges) => check(catalog, role, oid, privileges)?,
            }
        }
        Ok(())
    }
}

/// Fails with 42501 if the role lacks any of the privileges on a relation.
fn check(catalog: &Catalog, role: u32, oid: u32, privileges: Privileges) -> Result<()> {
    let (what, kind, name, owned) = match (catalog.table_by_oid(oid), catalog.object_by_oid(oid)) {
        (Some(table), _) => ("table", ObjectKind::Table, &table.name, &table.owned),
        (None, Some(object)) => {
            let kind = match object.view() {
                Some(_) => ObjectKind::Table,
                None => ObjectKind::Sequence,
            };
            (object.kind(), kind, &object.name, &object.owned)
        }
        (None, None) => return Err(Error::internal("a planned table is gone")),
    };
    let may = catalog.access().privileges(role, owned, kind);
    if may.include(privileges) {
        return Ok(());
    }
    let missing: Vec<_> = privileges.without(may).names().collect();
    Err(denied(what, name)
        .with_detail(format!("Missing: {}.", missing.join(", ")))
        .with_table(PUBLIC, name))
}

/// The session's role has been dropped.
fn gone(role: u32) -> Error {
    Error::new(
        SqlState::UNDEFINED_OBJECT,
        format!("role with OID {role} was dropped"),
    )
}
