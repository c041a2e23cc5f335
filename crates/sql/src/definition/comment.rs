//! COMMENT ON.

use std::collections::BTreeMap;
use std::sync::Arc;

use coeval_sql_syntax::tree::{self, Object as Named, ObjectKind, Path};

use super::Change;
use super::view::wrong_kind_of;
use crate::access::{FIRST_ROLE, not_owner};
use crate::catalog::{
    CONSTRAINTS, Comment, Comments, DATABASES, PUBLIC, QualifiedName, RELATIONS, ROLES, Relation,
    SCHEMAS, Table, fold,
};
use crate::error::{Error, Result, SqlState};
use crate::system::constraint_oid;

/// An object, or a part of one, in the numbers of `pg_description`.
struct Address {
    class: u32,
    object: u32,
    part: i32,
}

/// Fails for a temporary table: comments are rows of the catalog that all sessions share.
fn refuse_temporary(table: &Table) -> Result<()> {
    match table.is_temporary() {
        true => Err(Error::unsupported("COMMENT ON a temporary table")),
        false => Ok(()),
    }
}

impl Change<'_> {
    /// Executes COMMENT ON.
    pub(super) async fn comment(&mut self, comment: &tree::Comment) -> Result<&'static str> {
        let address = self.address(&comment.object)?;
        let text = comment.text.as_deref().filter(|text| !text.is_empty());
        self.set_comment(&address, text).await?;
        Ok("COMMENT")
    }

    /// Sets the comment on a column of a relation, or on the relation.
    pub(super) async fn comment_on_relation(
        &mut self,
        object: u32,
        part: i32,
        text: &str,
    ) -> Result<()> {
        let address = Address {
            class: RELATIONS,
            object,
            part,
        };
        self.set_comment(&address, Some(text)).await
    }

    async fn set_comment(&mut self, address: &Address, text: Option<&str>) -> Result<()> {
        let key = (address.class, address.object);
        let known = self.catalog.comments().get(&key).cloned();
        if known.is_none() && text.is_none() {
            return Ok(());
        }
        self.require_objects("a comment")?;
        let is_new = known.is_none();
        let mut comment = match known {
            Some(known) => Comment::clone(&known),
            None => Comment {
                number: self.context.store.counters.oid(),
                class: address.class,
                object: address.object,
                texts: BTreeMap::new(),
            },
        };
        match text {
            Some(text) => comment.texts.insert(address.part, text.to_owned()),
            None => comment.texts.remove(&address.part),
        };
        self.write_comment(comment, is_new).await
    }

    /// Writes the row of an object's comments, or deletes it if there are none.
    async fn write_comment(&mut self, comment: Comment, is_new: bool) -> Result<()> {
        let key = (comment.class, comment.object);
        let mut all = Comments::clone(self.catalog.comments());
        let (store, transaction) = (self.context.store, &mut *self.context.transaction);
        if comment.texts.is_empty() {
            if !is_new {
                store.delete_described(transaction, comment.number).await?;
            }
            all.remove(&key);
        } else {
            match is_new {
                true => store.insert_comment(transaction, &comment).await?,
                false => store.update_comment(transaction, &comment).await?,
            }
            all.insert(key, Arc::new(comment));
        }
        self.keep_comments(all);
        Ok(())
    }

    /// Deletes the comments on what the statement has dropped.
    pub(super) async fn forget_comments(&mut self) -> Result<()> {
        let all: Vec<_> = self.catalog.comments().values().cloned().collect();
        for comment in all {
            let mut left = Comment::clone(&comment);
            left.texts.retain(|part, _| self.is_there(&comment, *part));
            if left.texts.len() < comment.texts.len() {
                self.write_comment(left, false).await?;
            }
        }
        Ok(())
    }

    /// Whether what a comment is on is still there.
    fn is_there(&self, comment: &Comment, part: i32) -> bool {
        let oid = comment.object;
        match comment.class {
            RELATIONS => {
                if let Some(table) = self.catalog.table_by_oid(oid) {
                    let is_part = |attribute: i16| i32::from(attribute) == part;
                    return part == 0
                        || table.columns.iter().any(|column| is_part(column.attribute));
                }
                let index = |table: &Arc<crate::catalog::Table>| {
                    table.indexes.iter().any(|index| index.oid == oid)
                };
                self.catalog.object_by_oid(oid).is_some() || self.catalog.tables().any(index)
            }
            CONSTRAINTS => self.catalog.tables().any(|table| {
                let mut indexes = table.indexes.iter();
                indexes.any(|index| constraint_oid(index.oid) == oid)
                    || table.checks.iter().any(|check| check.oid == oid)
            }),
            ROLES => self.catalog.access().role(oid).is_some(),
            _ => true,
        }
    }

    fn address(&self, object: &Named) -> Result<Address> {
        match object {
            Named::Named(ObjectKind::Schema, name) => self.schema_address(name),
            Named::Named(ObjectKind::Role, name) => self.role_address(name),
            Named::Named(ObjectKind::Database, name) => self.database_address(name),
            Named::Named(kind, name) => self.relation_address(*kind, name),
            Named::Column(path) => self.column_address(path),
            Named::PartOfTable(_, name, table) => self.constraint_address(&fold(name), table),
            _ => Err(Error::unsupported("COMMENT ON an object of this kind")),
        }
    }

    /// The relation of this name.
    fn named_relation(&self, path: &Path) -> Result<Relation> {
        let name = self.name(path)?;
        let found = self.catalog.named(&name).ok_or_else(|| {
            Error::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{}\" does not exist", name.name),
            )
        })?;
        match &found {
            Relation::Table(table) | Relation::Index(table, _) => refuse_temporary(table)?,
            Relation::Object(_) => {}
        }
        Ok(found)
    }

    fn relation_address(&self, kind: ObjectKind, path: &Path) -> Result<Address> {
        let found = self.named_relation(path)?;
        let (wanted, fits) = match (kind, &found) {
            (ObjectKind::View, Relation::Object(object)) => ("view", object.view().is_some()),
            (ObjectKind::View, _) => ("view", false),
            (ObjectKind::Index, found) => ("index", matches!(found, Relation::Index(..))),
            (ObjectKind::Sequence, Relation::Object(object)) => {
                ("sequence", object.kind() == "sequence")
            }
            (ObjectKind::Sequence, _) => ("sequence", false),
            (_, found) => ("table", matches!(found, Relation::Table(_))),
        };
        if !fits {
            return Err(wrong_kind_of(&self.name(path)?.name, wanted));
        }
        let object = self.own(&found)?;
        Ok(Address {
            class: RELATIONS,
            object,
            part: 0,
        })
    }

    /// OID of a relation, of which the role must be the owner.
    fn own(&self, relation: &Relation) -> Result<u32> {
        let access = self.catalog.access();
        let (oid, kind, name, owner) = match relation {
            Relation::Table(table) => (table.oid, "table", &table.name, table.owned.owner),
            Relation::Index(table, index) => (index.oid, "index", &index.name, table.owned.owner),
            Relation::Object(object) => {
                (object.oid, object.kind(), &object.name, object.owned.owner)
            }
        };
        match access.has_privileges_of(self.session.role, owner) {
            true => Ok(oid),
            false => Err(not_owner(kind, name)),
        }
    }

    fn column_address(&self, path: &Path) -> Result<Address> {
        let (Some(column), relation) = (path.0.last(), &path.0[..path.0.len() - 1]) else {
            return Err(Error::internal("a column without a name"));
        };
        if relation.is_empty() {
            return Err(Error::syntax("column name must be qualified"));
        }
        let (column, path) = (fold(column), Path(relation.to_vec()));
        let found = self.named_relation(&path)?;
        let object = self.own(&found)?;
        let (name, part) = match &found {
            Relation::Table(table) => {
                let position = table.column(&column);
                let attribute = position.map(|position| table.columns[position].attribute);
                (&table.name, attribute.map(i32::from))
            }
            Relation::Object(object) => {
                let position = object.view().and_then(|view| view.column(&column));
                (&object.name, position.map(|position| position as i32 + 1))
            }
            Relation::Index(_, index) => {
                return Err(Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("cannot set comment on relation \"{}\"", index.name),
                )
                .with_detail("This operation is not supported for indexes."));
            }
        };
        let part = part.ok_or_else(|| {
            Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" of relation \"{name}\" does not exist"),
            )
        })?;
        Ok(Address {
            class: RELATIONS,
            object,
            part,
        })
    }

    fn constraint_address(&self, name: &str, table: &Path) -> Result<Address> {
        let table = self.table(table)?;
        refuse_temporary(&table)?;
        self.require_owner(&table)?;
        let indexes = table.indexes.iter().filter(|index| index.constraint);
        let mut keys = indexes.map(|index| (&index.name, constraint_oid(index.oid)));
        let mut checks = table.checks.iter().map(|check| (&check.name, check.oid));
        let of_name = |(known, _): &(&String, u32)| *known == name;
        match keys.find(of_name).or_else(|| checks.find(of_name)) {
            Some((_, object)) => Ok(Address {
                class: CONSTRAINTS,
                object,
                part: 0,
            }),
            None => Err(Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!(
                    "constraint \"{name}\" for table \"{}\" does not exist",
                    table.name
                ),
            )),
        }
    }

    fn schema_address(&self, path: &Path) -> Result<Address> {
        let name = QualifiedName::new(path)?.name;
        if name != PUBLIC {
            return Err(Error::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{name}\" does not exist"),
            ));
        }
        let access = self.catalog.access();
        if !access.has_privileges_of(self.session.role, access.schema.owner) {
            return Err(not_owner("schema", &name));
        }
        Ok(Address {
            class: SCHEMAS,
            object: crate::system::PUBLIC,
            part: 0,
        })
    }

    fn role_address(&self, path: &Path) -> Result<Address> {
        let name = QualifiedName::new(path)?.name;
        let access = self.catalog.access();
        let role = access.find(&name)?;
        let (mine, may_create) = (self.session.role, access.role(self.session.role));
        let may_create = may_create.is_some_and(|mine| mine.create_role);
        if !access.is_superuser(mine) && (role.superuser || !may_create) {
            let message = match role.superuser {
                true => "must be superuser to comment on superuser role",
                false => "must have CREATEROLE privilege",
            };
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok(Address {
            class: ROLES,
            object: role.oid,
            part: 0,
        })
    }

    fn database_address(&self, path: &Path) -> Result<Address> {
        let name = QualifiedName::new(path)?.name;
        if name != self.session.database.as_str() {
            return Err(Error::new(
                SqlState("3D000"),
                format!("database \"{name}\" does not exist"),
            ));
        }
        let access = self.catalog.access();
        if !access.has_privileges_of(self.session.role, FIRST_ROLE) {
            return Err(not_owner("database", &name));
        }
        Ok(Address {
            class: DATABASES,
            object: crate::system::DATABASE,
            part: 0,
        })
    }
}
