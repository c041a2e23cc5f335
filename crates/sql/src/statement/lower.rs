//! From a statement of PostgreSQL's grammar to a command of this database.
//!
//! ```text
//!   tree ──┬── queries, changes, definitions ── as they are, for their binders
//!          ├── settings, roles, privileges … ── in the form that executes them
//!          └── what this database lacks ──────── 0A000 with its name and position
//! ```

use std::sync::Arc;

use coeval_sql_syntax::tree::{
    self, GrantTarget, Name, Object, ObjectAction, ObjectKind, StatementKind as Kind,
};

use super::command::{Command, CreateExtension, DiscardKind, SequenceChange, TruncateCommand};
use super::copy::copy;
use super::cursor;
use super::grant::{grant, grant_role};
use super::name::{command_name, object_name};
use super::setting::{self, setting_name};
use super::text::Text;
use super::transaction::transaction;
use super::{Parsed, Statement, redact_passwords, role, role_settings, utility, view};
use crate::catalog::fold;
use crate::error::{Error, Result, SqlState};

/// The statement that is lowered.
pub(super) struct Lower<'a> {
    /// Its first byte in the text that was parsed.
    pub at: u32,
    /// Its text.
    pub own: &'a str,
    /// Number of its tokens.
    pub tokens: usize,
    /// Memory that its tree takes, in bytes.
    pub bytes: u64,
    /// Converts bytes to positions.
    pub lines: Arc<Text>,
}

impl Lower<'_> {
    /// The position of a byte of the text that was parsed.
    pub(super) fn position(&self, at: u32) -> Option<u32> {
        self.lines.position(self.own, at)
    }

    /// SQLSTATE 0A000 for a feature that PostgreSQL has.
    pub(super) fn unsupported(&self, feature: impl std::fmt::Display) -> Error {
        Error::unsupported(feature).at(self.position(self.at))
    }

    /// The parsed statement.
    pub(super) fn statement(&self, command: Command) -> Statement {
        Statement(Arc::new(Parsed {
            text: match &command {
                Command::Role(_) => redact_passwords::without_password(self.own).into(),
                _ => self.own.into(),
            },
            tokens: self.tokens,
            bytes: self.bytes + self.own.len() as u64,
            command,
            lines: Arc::clone(&self.lines),
        }))
    }

    pub(super) fn command(&self, kind: Kind) -> Result<Command> {
        Ok(match kind {
            Kind::Query(query) => view::query(self, query)?,
            Kind::Insert(insert) => Command::Insert(insert),
            Kind::Update(update) => Command::Update(update),
            Kind::Delete(delete) => Command::Delete(delete),
            Kind::CreateTable(create) => Command::CreateTable(create),
            Kind::CreateIndex(create) => Command::CreateIndex(create),
            Kind::CreateExtension(create) => create_extension(create),
            Kind::CreateView(create) => view::create(create),
            Kind::CreateTableAs(create) => view::table_as(self, *create)?,
            Kind::Comment(comment) => view::comment(self, comment)?,
            Kind::CreateRole(create) => role::create(create)?,
            Kind::AlterRole(alter) => role::alter(alter)?,
            Kind::AlterRoleSetting(alter) => role_settings::of_role(self, alter)?,
            Kind::AlterDatabase(alter) => role_settings::of_database(self, alter)?,
            Kind::AlterTable(alter) if alter.kind == ObjectKind::Table => {
                Command::AlterTable(Box::new(alter))
            }
            Kind::AlterTable(alter) if alter.kind == ObjectKind::View => view::alter(self, alter)?,
            Kind::AlterTable(alter) if alter.kind == ObjectKind::Index => {
                return Err(self.unsupported("ALTER INDEX other than RENAME"));
            }
            Kind::CreateSequence(create) => Command::CreateSequence(Box::new(create)),
            Kind::AlterSequence(alter) => Command::AlterSequence(Box::new(alter)),
            Kind::AlterTable(alter) if alter.kind == ObjectKind::Sequence => {
                self.alter_sequence(alter)?
            }
            Kind::AlterObject(alter) => self.alter_object(*alter)?,
            Kind::Drop(drop) => self.drop_objects(drop)?,
            Kind::DropRole(drop) => role::drop_roles(drop),
            Kind::Truncate(truncate) => Command::Truncate(TruncateCommand {
                restarts: truncate.restart_identity,
                tables: relations(truncate.tables),
            }),
            Kind::Grant(command) => grant(self, command)?,
            Kind::GrantRole(command) => grant_role(command)?,
            Kind::Transaction(command) => transaction(self, command)?,
            Kind::Set(command) => setting::set(self, command)?,
            Kind::Show(name) => Command::Show(setting_name(&name)),
            Kind::Explain(explain) => utility::explain(self, explain)?,
            Kind::Prepare(prepare) => Command::Prepare {
                name: fold(&prepare.name),
                types: prepare.types,
                statement: self.inner(*prepare.statement)?,
            },
            Kind::Execute(execute) => Command::Execute {
                name: fold(&execute.name),
                arguments: execute.arguments,
            },
            Kind::Deallocate(name) => Command::Deallocate(name.as_ref().map(fold)),
            Kind::Declare(declare) => cursor::declare(self, *declare)?,
            Kind::Fetch(fetch) => cursor::fetch(&fetch),
            Kind::Close(name) => Command::CloseCursor(name.as_ref().map(fold)),
            Kind::Copy(command) => copy(self, *command)?,
            Kind::Lock(lock) => utility::lock(lock),
            Kind::Vacuum(vacuum) => utility::vacuum(vacuum),
            Kind::Discard(what) => Command::Discard(match what {
                tree::Discard::All => DiscardKind::All,
                tree::Discard::Plans => DiscardKind::Plans,
                tree::Discard::Sequences => DiscardKind::Sequences,
                tree::Discard::Temporary => DiscardKind::Temporary,
            }),
            Kind::Reindex(reindex) => Command::Reindex(Box::new(reindex)),
            Kind::Checkpoint => Command::Checkpoint,
            Kind::Unlisten(_) => Command::NoOperation("UNLISTEN"),
            other => return Err(self.unsupported(command_name(&other))),
        })
    }

    /// A statement that is a part of another one, and has its text.
    pub(super) fn inner(&self, kind: Kind) -> Result<Statement> {
        self.command(kind).map(|command| self.statement(command))
    }

    /// ALTER SEQUENCE with an action of ALTER TABLE.
    fn alter_sequence(&self, alter: tree::AlterTable) -> Result<Command> {
        match alter.actions.as_slice() {
            [tree::TableAction::Owner(owner)] => Ok(Command::ChangeSequence {
                change: SequenceChange::Owner(role::role_name(owner)),
                name: alter.table.name,
                if_exists: alter.if_exists,
            }),
            _ => Err(self.unsupported("this form of ALTER SEQUENCE")),
        }
    }

    fn alter_object(&self, alter: tree::AlterObject) -> Result<Command> {
        let tree::AlterObject {
            object,
            if_exists,
            action,
        } = alter;
        Ok(match (object, action) {
            (
                Object::Relation(ObjectKind::Table, table),
                action @ (ObjectAction::Rename(_)
                | ObjectAction::RenameColumn(..)
                | ObjectAction::RenameConstraint(..)),
            ) => Command::RenameTable {
                name: table.name,
                if_exists,
                action,
            },
            (Object::Relation(ObjectKind::View, name), action) => {
                view::alter_object(self, name, if_exists, action)?
            }
            (Object::Named(ObjectKind::View, name), action) => {
                let name = tree::Relation { name, only: false };
                view::alter_object(self, name, if_exists, action)?
            }
            (Object::Relation(ObjectKind::Index, index), ObjectAction::Rename(new_name)) => {
                Command::RenameIndex {
                    name: index.name,
                    if_exists,
                    new_name,
                }
            }
            (Object::Relation(ObjectKind::Sequence, sequence), ObjectAction::Rename(new_name)) => {
                Command::ChangeSequence {
                    name: sequence.name,
                    if_exists,
                    change: SequenceChange::Rename(new_name),
                }
            }
            (Object::Named(ObjectKind::Role, name), ObjectAction::Rename(new_name)) => {
                role::rename(name, new_name)?
            }
            (Object::Named(ObjectKind::Schema, name), ObjectAction::Owner(owner)) => {
                Command::SchemaOwner {
                    schema: name.0.last().map(fold).unwrap_or_default(),
                    owner: role::role_name(&owner),
                }
            }
            (Object::Relation(ObjectKind::Index, _), _) => {
                return Err(self.unsupported("ALTER INDEX other than RENAME"));
            }
            (Object::Named(ObjectKind::Schema, _), _) => {
                return Err(self.unsupported("ALTER SCHEMA other than OWNER TO"));
            }
            (Object::Relation(ObjectKind::Table, _), ObjectAction::Schema(_)) => {
                return Err(self.unsupported("ALTER TABLE … SET SCHEMA"));
            }
            (object, _) => {
                return Err(self.unsupported(format_args!("ALTER {}", object_name(&object))));
            }
        })
    }

    fn drop_objects(&self, drop: tree::Drop) -> Result<Command> {
        if let Some(Object::Named(ObjectKind::Extension, _)) = drop.objects.first() {
            let names = drop.objects.iter().filter_map(|object| match object {
                Object::Named(_, name) => name.0.last().map(fold),
                _ => None,
            });
            return Ok(Command::DropExtensions {
                names: names.collect(),
                if_exists: drop.if_exists,
            });
        }
        if let Some(views) = view::drop_views(&drop) {
            return Ok(views);
        }
        let (mut indexes, mut names) = (false, Vec::with_capacity(drop.objects.len()));
        let mut sequences = false;
        for object in drop.objects {
            match object {
                Object::Named(ObjectKind::Sequence, name) => {
                    sequences = true;
                    names.push(name);
                }
                Object::Named(kind @ (ObjectKind::Table | ObjectKind::Index), name) => {
                    indexes = kind == ObjectKind::Index;
                    names.push(name);
                }
                other => {
                    return Err(self.unsupported(format_args!("DROP {}", object_name(&other))));
                }
            }
        }
        if drop.concurrently {
            if names.len() > 1 {
                let several = "DROP INDEX CONCURRENTLY does not support dropping multiple objects";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, several));
            }
            if drop.cascade {
                let cascade = "DROP INDEX CONCURRENTLY does not support CASCADE";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, cascade));
            }
        }
        let (if_exists, cascade) = (drop.if_exists, drop.cascade);
        Ok(match sequences {
            true => Command::DropSequences {
                names,
                if_exists,
                cascade,
            },
            false => Command::Drop {
                indexes,
                names,
                if_exists,
                cascade,
            },
        })
    }
}

fn create_extension(create: tree::CreateExtension) -> Command {
    let (mut schema, mut version) = (None, None);
    for option in create.options {
        match option {
            tree::ExtensionOption::Schema(name) => schema = Some(fold(&name)),
            tree::ExtensionOption::Version(given) => version = Some(given),
            // Nothing that is built in needs another extension.
            tree::ExtensionOption::Cascade => {}
        }
    }
    Command::CreateExtension(CreateExtension {
        name: fold(&create.name),
        if_not_exists: create.if_not_exists,
        schema,
        version,
    })
}

/// The names of relations. ONLY says nothing: no table inherits from another.
pub(super) fn relations(relations: Vec<tree::Relation>) -> Vec<tree::Path> {
    relations.into_iter().map(|each| each.name).collect()
}

pub(super) fn names(names: &[Name]) -> Vec<String> {
    names.iter().map(fold).collect()
}

/// The names of the schemas or tables that privileges are granted on.
pub(super) fn last_names(paths: &[tree::Path]) -> Vec<String> {
    let last = paths.iter().filter_map(|path| path.0.last());
    last.map(fold).collect()
}

/// The kind of the objects, in the words of GRANT.
pub(super) fn target_name(target: &GrantTarget) -> &'static str {
    use tree::GrantKind as G;
    let kind = match target {
        GrantTarget::Objects(kind, _)
        | GrantTarget::AllInSchema(kind, _)
        | GrantTarget::Default(kind) => *kind,
        GrantTarget::Routines(..) => G::Routine,
        GrantTarget::LargeObjects(_) => return "LARGE OBJECT",
    };
    match kind {
        G::Table => "TABLE",
        G::Sequence => "SEQUENCE",
        G::ForeignDataWrapper => "FOREIGN DATA WRAPPER",
        G::ForeignServer => "FOREIGN SERVER",
        G::Database => "DATABASE",
        G::Domain => "DOMAIN",
        G::Language => "LANGUAGE",
        G::Parameter => "PARAMETER",
        G::Schema => "SCHEMA",
        G::Tablespace => "TABLESPACE",
        G::Type => "TYPE",
        G::Function => "FUNCTION",
        G::Procedure => "PROCEDURE",
        G::Routine => "ROUTINE",
    }
}
