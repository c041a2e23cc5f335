//! GRANT and REVOKE of privileges, and changes of ownership.

use std::sync::Arc;

use coeval_sql_syntax::tree::Path;
use coeval_txn::TableLock;

use super::Change;
use super::sequence::sequence_of;
use crate::access::privilege::{grant, revoke};
use crate::access::{Access, Grant, ObjectKind, Owned, PUBLIC_ROLE, Privileges, denied, not_owner};
use crate::catalog::{AccessRow, Content, Object, PUBLIC, Relation, Table};
use crate::error::{Error, Result, SqlState};
use crate::output::{Notice, Severity};
use crate::statement::{GrantCommand, GrantObjects, Granted, RoleName};

impl Change<'_> {
    /// Executes GRANT and REVOKE on tables and schemas.
    pub(super) async fn grant(&mut self, command: &GrantCommand) -> Result<&'static str> {
        let (privileges, objects) = match &command.granted {
            Granted::Roles(roles) => return self.grant_roles(command, roles).await,
            Granted::Privileges {
                privileges,
                objects,
            } => (*privileges, objects),
        };
        match objects {
            GrantObjects::Tables(names) => {
                for name in names {
                    if let Some(object) = self.sequence_named(name)? {
                        self.grant_on_sequence(command, privileges, &object).await?;
                        continue;
                    }
                    if let Some(view) = self.view_named(name)? {
                        self.grant_on_object(command, privileges, &view).await?;
                        continue;
                    }
                    let table = self.table(name)?;
                    self.grant_on_table(command, privileges, &table).await?;
                }
            }
            GrantObjects::Sequences(names) => {
                for name in names {
                    let found = self.sequence_named(name)?;
                    let object = match found {
                        Some(object) => object,
                        None => {
                            // Fails if there is no relation of this name.
                            let table = self.table(name)?;
                            return Err(Error::new(
                                SqlState::WRONG_OBJECT_TYPE,
                                format!("\"{}\" is not a sequence", table.name),
                            ));
                        }
                    };
                    self.grant_on_sequence(command, privileges, &object).await?;
                }
            }
            GrantObjects::AllSequences(schemas) => {
                schemas.iter().try_for_each(|schema| known_schema(schema))?;
                let all = self.catalog.sequences();
                let all: Vec<_> = all.map(|(object, _)| Arc::clone(object)).collect();
                for object in all {
                    self.grant_on_sequence(command, privileges, &object).await?;
                }
            }
            GrantObjects::AllTables(schemas) => {
                schemas.iter().try_for_each(|schema| known_schema(schema))?;
                let tables: Vec<Arc<Table>> = self.catalog.tables().cloned().collect();
                for table in tables.into_iter().filter(|table| !table.is_temporary()) {
                    self.grant_on_table(command, privileges, &table).await?;
                }
                let objects = self.catalog.objects();
                let views = objects.filter(|object| object.view().is_some());
                for view in views.cloned().collect::<Vec<_>>() {
                    self.grant_on_object(command, privileges, &view).await?;
                }
            }
            GrantObjects::Schemas(schemas) => {
                for schema in schemas {
                    known_schema(schema)?;
                    let owned = self.catalog.access().schema.clone();
                    let changed =
                        self.granted(command, privileges, &owned, ObjectKind::Schema, PUBLIC)?;
                    self.replace_schema(changed).await?;
                }
            }
        }
        Ok(if command.revoke { "REVOKE" } else { "GRANT" })
    }

    async fn grant_on_table(
        &mut self,
        command: &GrantCommand,
        privileges: Option<Privileges>,
        table: &Arc<Table>,
    ) -> Result<()> {
        let owned = self.granted(
            command,
            privileges,
            &table.owned,
            ObjectKind::Table,
            &table.name,
        )?;
        if owned == table.owned {
            return Ok(());
        }
        // The exclusive lock waits for active writers; later writers check their
        // privileges against the new grants.
        self.lock(table, TableLock::ShareRowExclusive).await?;
        let mut table = Table::clone(table);
        table.owned = owned;
        self.replace(table).await?;
        Ok(())
    }

    /// The sequence of this name, if it is the name of one.
    pub(super) fn sequence_named(&self, name: &Path) -> Result<Option<Arc<Object>>> {
        let name = self.name(name)?;
        Ok(match self.catalog.named(&name) {
            Some(Relation::Object(object)) if matches!(object.content, Content::Sequence(_)) => {
                Some(object)
            }
            _ => None,
        })
    }

    async fn grant_on_sequence(
        &mut self,
        command: &GrantCommand,
        privileges: Option<Privileges>,
        object: &Object,
    ) -> Result<()> {
        let kind = ObjectKind::Sequence;
        let owned = self.granted(command, privileges, &object.owned, kind, &object.name)?;
        if owned == object.owned {
            return Ok(());
        }
        self.update_sequence(object, |object| object.owned = owned)
            .await
    }

    /// Grants or revokes privileges on a view.
    async fn grant_on_object(
        &mut self,
        command: &GrantCommand,
        privileges: Option<Privileges>,
        object: &Arc<Object>,
    ) -> Result<()> {
        let (kind, name) = (ObjectKind::Table, &object.name);
        let owned = self.granted(command, privileges, &object.owned, kind, name)?;
        if owned != object.owned {
            let mut object = Object::clone(object);
            object.owned = owned;
            self.write_object(object).await?;
        }
        Ok(())
    }

    /// Computes an object's privileges after the statement.
    fn granted(
        &mut self,
        command: &GrantCommand,
        privileges: Option<Privileges>,
        owned: &Owned,
        kind: ObjectKind,
        name: &str,
    ) -> Result<Owned> {
        let wanted = privileges.unwrap_or_else(|| kind.all());
        if !kind.all().include(wanted) {
            let wrong: Vec<_> = wanted.without(kind.all()).names().collect();
            let what = match kind {
                ObjectKind::Table => "relation",
                ObjectKind::Schema => "schema",
                ObjectKind::Sequence => "sequence",
            };
            return Err(Error::new(
                SqlState("0LP01"),
                format!("invalid privilege type {} for {what}", wrong.join(", ")),
            ));
        }
        let (grantor, allowed) = self.grantor(command, wanted, owned, kind)?;
        let given = wanted.both(allowed);
        if given.is_none() {
            return Err(denied(kind_name(kind), name));
        }
        if given != wanted && privileges.is_some() {
            let what = if command.revoke { "revoked" } else { "granted" };
            self.notices.push(Notice::new(
                Severity::Warning,
                SqlState("01007"),
                format!("not all privileges could be {what} for \"{name}\""),
            ));
        }
        let mut grants = owned.grants(kind);
        for role in &command.roles {
            let grantee = match role {
                RoleName::Public => PUBLIC_ROLE,
                other => self.resolve(other)?.oid,
            };
            let mut new = Grant {
                grantee,
                grantor,
                privileges: given,
                grantable: Privileges::NONE,
            };
            if command.revoke {
                revoke(
                    &mut grants,
                    new,
                    command.option,
                    owned.owner,
                    command.cascade,
                )?;
                continue;
            }
            if command.option {
                if grantee == PUBLIC_ROLE {
                    return Err(Error::new(
                        SqlState("0LP01"),
                        "grant options can only be granted to roles",
                    ));
                }
                new.grantable = given;
            }
            grant(&mut grants, new);
        }
        let unchanged = grants == owned.grants(kind);
        Ok(Owned {
            owner: owned.owner,
            grants: if unchanged {
                owned.grants.clone()
            } else {
                Some(grants)
            },
        })
    }

    /// The role recorded as grantor, and the privileges that it may grant: the owner,
    /// if the current role acts as the owner; otherwise a role with the wanted grant
    /// options.
    fn grantor(
        &self,
        command: &GrantCommand,
        wanted: Privileges,
        owned: &Owned,
        kind: ObjectKind,
    ) -> Result<(u32, Privileges)> {
        let access = self.catalog.access();
        let role = self.session.role;
        if let Some(by) = &command.by {
            let by = self.resolve(by)?.oid;
            if !access.has_privileges_of(role, by) {
                let message = "grantor must be a role whose privileges you have";
                return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            return Ok((by, access.grantable(by, owned, kind)));
        }
        if access.has_privileges_of(role, owned.owner) {
            return Ok((owned.owner, kind.all()));
        }
        let own = |role: u32| {
            let grants = owned.grants(kind);
            let grants = grants.iter().filter(|grant| grant.grantee == role);
            grants.fold(Privileges::NONE, |all, each| all.with(each.grantable))
        };
        let mut candidates = access.acts_as(role).into_iter();
        let best = candidates
            .find(|each| own(*each).include(wanted))
            .unwrap_or(role);
        Ok((best, own(best)))
    }

    /// Writes the privileges on the schema `public`, if they have changed.
    async fn replace_schema(&mut self, owned: Owned) -> Result<()> {
        if owned == self.catalog.access().schema {
            return Ok(());
        }
        self.write_access(&AccessRow::Schema(&owned)).await?;
        let mut access = Access::clone(self.catalog.access());
        access.schema = owned;
        self.keep_access(access);
        Ok(())
    }

    /// Executes ALTER SCHEMA … OWNER TO.
    pub(super) async fn schema_owner(
        &mut self,
        schema: &str,
        owner: &RoleName,
    ) -> Result<&'static str> {
        known_schema(schema)?;
        let owned = self.catalog.access().schema.clone();
        let access = self.catalog.access();
        if !access.has_privileges_of(self.session.role, owned.owner) {
            return Err(not_owner("schema", schema));
        }
        let owner = self.new_owner(owner)?;
        self.replace_schema(handed_over(&owned, owner)).await?;
        Ok("ALTER SCHEMA")
    }

    /// Executes ALTER TABLE … OWNER TO.
    pub(super) async fn table_owner(
        &mut self,
        table: &Table,
        owner: &RoleName,
    ) -> Result<Arc<Table>> {
        let owner = self.new_owner(owner)?;
        let access = self.catalog.access();
        let may = access.privileges(owner, &access.schema, ObjectKind::Schema);
        if !access.is_superuser(self.session.role) && !may.include(Privileges::CREATE) {
            return Err(denied("schema", PUBLIC));
        }
        let mut table = table.clone();
        table.owned = handed_over(&table.owned, owner);
        let table = self.replace(table).await?;
        for object in self.sequences_of_table(table.oid) {
            self.update_sequence(&object, |object| {
                object.owned = handed_over(&object.owned, owner);
            })
            .await?;
        }
        Ok(table)
    }

    /// Executes ALTER SEQUENCE … OWNER TO.
    pub(super) async fn sequence_owner(
        &mut self,
        name: &Path,
        if_exists: bool,
        owner: &RoleName,
    ) -> Result<&'static str> {
        let Some(object) = self.owned_sequence(name, if_exists, "relation")? else {
            return Ok("ALTER SEQUENCE");
        };
        if let Some((table, _)) = sequence_of(&object)?.owned_by {
            let table = self.catalog.table_by_oid(table);
            let table = table.map_or("", |table| table.name.as_str());
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cannot change owner of sequence \"{}\"", object.name),
            )
            .with_detail(format!(
                "Sequence \"{}\" is linked to table \"{table}\".",
                object.name
            )));
        }
        let owner = self.new_owner(owner)?;
        let access = self.catalog.access();
        let may = access.privileges(owner, &access.schema, ObjectKind::Schema);
        if !access.is_superuser(self.session.role) && !may.include(Privileges::CREATE) {
            return Err(denied("schema", PUBLIC));
        }
        self.update_sequence(&object, |object| {
            object.owned = handed_over(&object.owned, owner);
        })
        .await?;
        Ok("ALTER SEQUENCE")
    }

    pub(super) fn new_owner(&self, owner: &RoleName) -> Result<u32> {
        let owner = self.resolve(owner)?;
        let access = self.catalog.access();
        if !access.is_member(self.session.role, owner.oid) {
            return Err(Error::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("must be member of role \"{}\"", owner.name),
            ));
        }
        Ok(owner.oid)
    }

    /// Fails with 42501 unless the statement's role has the privileges of the table's
    /// owner.
    pub(super) fn require_owner(&self, table: &Table) -> Result<()> {
        let access = self.catalog.access();
        if access.has_privileges_of(self.session.role, table.owned.owner) {
            return Ok(());
        }
        Err(not_owner("table", &table.name))
    }

    /// Fails with 42501 unless the statement's role has these privileges on the schema
    /// `public`.
    pub(super) fn require_schema(&self, privileges: Privileges) -> Result<()> {
        let access = self.catalog.access();
        let may = access.privileges(self.session.role, &access.schema, ObjectKind::Schema);
        if may.include(privileges) {
            return Ok(());
        }
        Err(denied("schema", PUBLIC))
    }

    /// Fails with 42501 unless the statement's role has these privileges on a table.
    pub(super) fn require(&self, table: &Table, privileges: Privileges) -> Result<()> {
        if !table.is_temporary() {
            self.require_schema(Privileges::USAGE)?;
        }
        let access = self.catalog.access();
        let may = access.privileges(self.session.role, &table.owned, ObjectKind::Table);
        if may.include(privileges) {
            return Ok(());
        }
        Err(denied("table", &table.name))
    }
}

/// The object's privileges under a new owner: the old owner is replaced as owner,
/// grantee and grantor.
pub(super) fn handed_over(owned: &Owned, owner: u32) -> Owned {
    let heir = |role| if role == owned.owner { owner } else { role };
    let grants = owned.grants.as_ref().map(|grants| {
        let mut merged = Vec::new();
        for each in grants {
            grant(
                &mut merged,
                Grant {
                    grantee: heir(each.grantee),
                    grantor: heir(each.grantor),
                    ..*each
                },
            );
        }
        merged
    });
    Owned { owner, grants }
}

fn kind_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table => "table",
        ObjectKind::Schema => "schema",
        ObjectKind::Sequence => "sequence",
    }
}

/// Checks that a schema exists and is `public`, the only one whose privileges can be
/// changed.
fn known_schema(schema: &str) -> Result<()> {
    match schema {
        PUBLIC => Ok(()),
        "pg_catalog" | "information_schema" => Err(denied("schema", schema)),
        _ => Err(Error::new(
            SqlState::INVALID_SCHEMA_NAME,
            format!("schema \"{schema}\" does not exist"),
        )),
    }
}
