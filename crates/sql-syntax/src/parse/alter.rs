//! ALTER.

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    AlterComposite, AlterDatabase, AlterDomain, AlterEnum, AlterObject, AlterSequence,
    AlterStatistics, AlterTable, AttributeAction, BaseType, ColumnAction, DatabaseAction,
    DomainAction, EnumAction, EnumPlace, GenericAction, IdentityAction, Object, ObjectAction,
    ObjectKind, Path, Relation, ReplicaIdentity, SequenceOption, Setting, StatementKind, Switch,
    TableAction, TablePartKind, Triggers, TypeName,
};

impl Parser<'_> {
    pub(super) fn alter(&mut self) -> Parsed<StatementKind> {
        let start = self.at;
        self.bump();
        if let Some(command) = self.unmodelled_alter() {
            self.at = start;
            return self.unsupported(command);
        }
        match self.keyword() {
            K::Role | K::User | K::Group => return self.alter_role(),
            K::Default => {
                self.bump();
                self.expect(K::Privileges)?;
                return self.alter_default_privileges();
            }
            K::System => {
                self.bump();
                if self.is(K::Reset) {
                    return Ok(StatementKind::AlterSystem(self.reset()?));
                }
                self.expect(K::Set)?;
                let action = self.generic_set()?;
                return Ok(StatementKind::AlterSystem(Setting {
                    local: false,
                    action,
                }));
            }
            K::Policy | K::Rule | K::Trigger => return self.alter_part_of_table(),
            K::Type => return self.alter_type(),
            K::Domain => return self.alter_domain(),
            _ => {}
        }
        let Some((kind, qualified)) = self.object_kind() else {
            let object = self.object()?;
            return self.alter_named(object, start);
        };
        match kind {
            ObjectKind::Table
            | ObjectKind::Index
            | ObjectKind::Sequence
            | ObjectKind::View
            | ObjectKind::MaterializedView
            | ObjectKind::ForeignTable => self.alter_relation(kind),
            ObjectKind::Database => self.alter_database(),
            ObjectKind::Statistics => self.alter_statistics(),
            _ => {
                let name = self.object_name(qualified)?;
                self.alter_named(Object::Named(kind, name), start)
            }
        }
    }

    fn unmodelled_alter(&self) -> Option<&'static str> {
        let next = self.peek(1).keyword;
        Some(match (self.keyword(), next) {
            (K::User, K::Mapping) if self.is_at(2, K::For) => "ALTER USER MAPPING",
            (K::Table | K::Index, K::All) => "ALTER TABLE ALL IN TABLESPACE",
            (K::Materialized, K::View) if self.is_at(2, K::All) => {
                "ALTER MATERIALIZED VIEW ALL IN TABLESPACE"
            }
            _ => return None,
        })
    }

    /// What is done with objects of all kinds, or with this kind alone.
    fn alter_named(&mut self, object: Object, start: usize) -> Parsed<StatementKind> {
        if let Some(action) = self.object_action()? {
            return Ok(altered(object, action));
        }
        let command = match &object {
            Object::Routine(..) => {
                let Object::Routine(kind, routine) = object else {
                    return Err(self.error());
                };
                return self.alter_routine(kind, routine);
            }
            Object::Operator(_) if self.eat(K::Set) => {
                return Ok(altered(
                    object,
                    ObjectAction::SetOptions(self.definition()?),
                ));
            }
            Object::OperatorClass(true, ..) => "ALTER OPERATOR FAMILY",
            Object::Named(ObjectKind::Collation, _) => {
                self.expect_all(&[K::Refresh, K::Version])?;
                return Ok(altered(object, ObjectAction::RefreshVersion));
            }
            Object::Named(kind, _) => match kind {
                ObjectKind::EventTrigger => "ALTER EVENT TRIGGER",
                ObjectKind::Extension => "ALTER EXTENSION",
                ObjectKind::ForeignDataWrapper => "ALTER FOREIGN DATA WRAPPER",
                ObjectKind::Server => "ALTER SERVER",
                ObjectKind::Publication => "ALTER PUBLICATION",
                ObjectKind::Subscription => "ALTER SUBSCRIPTION",
                ObjectKind::Tablespace => "ALTER TABLESPACE",
                ObjectKind::TextSearchConfiguration => "ALTER TEXT SEARCH CONFIGURATION",
                ObjectKind::TextSearchDictionary => "ALTER TEXT SEARCH DICTIONARY",
                _ => return Err(self.error()),
            },
            _ => return Err(self.error()),
        };
        if matches!(self.kind(), TokenKind::End | TokenKind::Semicolon) {
            return Err(self.error());
        }
        self.at = start;
        self.unsupported(command)
    }

    /// RENAME TO, OWNER TO, SET SCHEMA or DEPENDS ON EXTENSION, if one of them is here.
    fn object_action(&mut self) -> Parsed<Option<ObjectAction>> {
        Ok(Some(if self.eat_all(&[K::Rename, K::To]) {
            ObjectAction::Rename(self.column_name()?)
        } else if self.eat_all(&[K::Owner, K::To]) {
            ObjectAction::Owner(self.role()?)
        } else if self.eat_all(&[K::Set, K::Schema]) {
            ObjectAction::Schema(self.column_name()?)
        } else if self.is(K::Depends) || self.are(&[K::No, K::Depends]) {
            let no = self.eat(K::No);
            self.expect_all(&[K::Depends, K::On, K::Extension])?;
            ObjectAction::DependsOn {
                no,
                extension: self.column_name()?,
            }
        } else {
            return Ok(None);
        }))
    }

    pub(super) fn rename(&mut self, object: Object, role: bool) -> Parsed<StatementKind> {
        self.expect_all(&[K::Rename, K::To])?;
        let name = if role {
            self.column_name()?
        } else {
            self.role_id()?
        };
        Ok(altered(object, ObjectAction::Rename(name)))
    }

    fn alter_part_of_table(&mut self) -> Parsed<StatementKind> {
        let word = self.keyword();
        self.bump();
        let if_exists = word == K::Policy && self.if_exists();
        let name = self.column_name()?;
        self.expect(K::On)?;
        let table = self.qualified_name()?;
        let is_action = self.any(&[K::Rename, K::Depends]) || self.are(&[K::No, K::Depends]);
        if word == K::Policy && !is_action && !if_exists {
            return self.alter_policy(name, table);
        }
        let kind = match word {
            K::Policy => TablePartKind::Policy,
            K::Rule => TablePartKind::Rule,
            _ => TablePartKind::Trigger,
        };
        let action = match self.object_action()? {
            Some(action @ ObjectAction::Rename(_)) => action,
            Some(action @ ObjectAction::DependsOn { .. }) if word == K::Trigger => action,
            _ => return Err(self.error()),
        };
        Ok(StatementKind::AlterObject(Box::new(AlterObject {
            object: Object::PartOfTable(kind, name, table),
            if_exists,
            action,
        })))
    }

    fn alter_database(&mut self) -> Parsed<StatementKind> {
        let name = self.column_name()?;
        let object = Object::Named(ObjectKind::Database, Path(vec![name.clone()]));
        if self.any(&[K::Rename, K::Owner])
            && let Some(action) = self.object_action()?
        {
            return Ok(altered(object, action));
        }
        let action = if self.eat_all(&[K::Set, K::Tablespace]) {
            DatabaseAction::Tablespace(self.column_name()?)
        } else if self.eat_all(&[K::Refresh, K::Collation]) {
            self.expect(K::Version)?;
            DatabaseAction::RefreshCollation
        } else if self.any(&[K::Set, K::Reset]) {
            DatabaseAction::Setting(self.set_or_reset()?)
        } else {
            self.eat(K::With);
            DatabaseAction::Options(self.database_options()?)
        };
        Ok(StatementKind::AlterDatabase(AlterDatabase { name, action }))
    }

    fn alter_statistics(&mut self) -> Parsed<StatementKind> {
        let if_exists = self.if_exists();
        let name = self.any_name()?;
        if self.eat_all(&[K::Set, K::Statistics]) {
            return Ok(StatementKind::AlterStatistics(AlterStatistics {
                if_exists,
                name,
                target: self.signed_integer()?,
            }));
        }
        match self.object_action()? {
            Some(action) if !if_exists => {
                Ok(altered(Object::Named(ObjectKind::Statistics, name), action))
            }
            _ => Err(self.error()),
        }
    }

    fn alter_domain(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let name = self.any_name()?;
        let as_object = |name| Object::Domain(type_named(name));
        if let Some(action) = self.object_action()? {
            return Ok(altered(as_object(name), action));
        }
        if self.eat_all(&[K::Rename, K::Constraint]) {
            let from = self.column_name()?;
            self.expect(K::To)?;
            let action = ObjectAction::RenameConstraint(from, self.column_name()?);
            return Ok(altered(as_object(name), action));
        }
        let action = if self.eat_all(&[K::Set, K::Default]) {
            DomainAction::SetDefault(self.expr()?)
        } else if self.eat_all(&[K::Drop, K::Default]) {
            DomainAction::DropDefault
        } else if self.eat_all(&[K::Set, K::Not]) {
            self.expect(K::Null)?;
            DomainAction::SetNotNull(true)
        } else if self.eat_all(&[K::Drop, K::Not]) {
            self.expect(K::Null)?;
            DomainAction::SetNotNull(false)
        } else if self.eat(K::Add) {
            DomainAction::AddConstraint(self.table_constraint()?)
        } else if self.eat_all(&[K::Drop, K::Constraint]) {
            DomainAction::DropConstraint {
                if_exists: self.if_exists(),
                name: self.column_name()?,
                cascade: self.cascade(),
            }
        } else {
            self.expect_all(&[K::Validate, K::Constraint])?;
            DomainAction::ValidateConstraint(self.column_name()?)
        };
        Ok(StatementKind::AlterDomain(Box::new(AlterDomain {
            name,
            action,
        })))
    }

    fn alter_type(&mut self) -> Parsed<StatementKind> {
        self.bump();
        let name = self.any_name()?;
        if let Some(action) = self.object_action()? {
            return Ok(altered(Object::Type(type_named(name)), action));
        }
        if self.eat_all(&[K::Rename, K::Attribute]) {
            let from = self.column_name()?;
            self.expect(K::To)?;
            let action = ObjectAction::RenameAttribute {
                from,
                to: self.column_name()?,
                cascade: self.cascade(),
            };
            return Ok(altered(Object::Type(type_named(name)), action));
        }
        if self.eat(K::Set) {
            let action = ObjectAction::SetOptions(self.definition()?);
            return Ok(altered(Object::Type(type_named(name)), action));
        }
        if self.eat_all(&[K::Rename, K::Value]) {
            let from = self.string()?;
            self.expect(K::To)?;
            let action = EnumAction::Rename(from, self.string()?);
            return Ok(StatementKind::AlterEnum(AlterEnum { name, action }));
        }
        if self.eat_all(&[K::Add, K::Value]) {
            let action = EnumAction::Add {
                if_not_exists: self.if_not_exists(),
                value: self.string()?,
                place: if self.eat(K::Before) {
                    Some(EnumPlace::Before(self.string()?))
                } else if self.eat(K::After) {
                    Some(EnumPlace::After(self.string()?))
                } else {
                    None
                },
            };
            return Ok(StatementKind::AlterEnum(AlterEnum { name, action }));
        }
        let actions = self.list(Self::attribute_action)?;
        Ok(StatementKind::AlterComposite(AlterComposite {
            name,
            actions,
        }))
    }

    fn attribute_action(&mut self) -> Parsed<AttributeAction> {
        let word = self.keyword();
        if !matches!(word, K::Add | K::Drop | K::Alter) {
            return Err(self.error());
        }
        self.bump();
        self.expect(K::Attribute)?;
        Ok(match word {
            K::Add => AttributeAction::Add(self.column_type()?, self.cascade()),
            K::Drop => AttributeAction::Drop {
                if_exists: self.if_exists(),
                name: self.column_name()?,
                cascade: self.cascade(),
            },
            _ => {
                let name = self.column_name()?;
                self.set_data_type()?;
                AttributeAction::SetType {
                    name,
                    kind: self.type_name()?,
                    collation: self.optional_collation()?,
                    cascade: self.cascade(),
                }
            }
        })
    }

    fn set_data_type(&mut self) -> Parsed<()> {
        if self.eat(K::Set) {
            self.expect(K::Data)?;
        }
        self.expect(K::Type)
    }

    /// A table, or what is altered like one, behind its kind.
    fn alter_relation(&mut self, kind: ObjectKind) -> Parsed<StatementKind> {
        let if_exists = self.if_exists();
        let table = if matches!(kind, ObjectKind::Table | ObjectKind::ForeignTable) {
            self.relation()?
        } else {
            Relation {
                name: self.qualified_name()?,
                only: false,
            }
        };
        if self.is(K::Rename)
            || self.are(&[K::Set, K::Schema])
            || self.is(K::Depends)
            || self.are(&[K::No, K::Depends])
        {
            return self.alter_relation_by_name(kind, if_exists, table);
        }
        if kind == ObjectKind::Sequence {
            let options = self.sequence_options()?;
            if !options.is_empty() {
                return Ok(StatementKind::AlterSequence(AlterSequence {
                    if_exists,
                    name: table.name,
                    options,
                }));
            }
        }
        let actions = if self.any(&[K::Attach, K::Detach]) {
            vec![self.partition_action(kind)?]
        } else {
            self.list(Self::table_action)?
        };
        Ok(StatementKind::AlterTable(AlterTable {
            kind,
            if_exists,
            table,
            actions,
        }))
    }

    fn alter_relation_by_name(
        &mut self,
        kind: ObjectKind,
        if_exists: bool,
        table: Relation,
    ) -> Parsed<StatementKind> {
        let action = if let Some(action) = self.object_action()? {
            action
        } else {
            self.expect(K::Rename)?;
            if self.eat(K::Constraint) {
                let from = self.column_name()?;
                self.expect(K::To)?;
                ObjectAction::RenameConstraint(from, self.column_name()?)
            } else {
                self.eat(K::Column);
                let from = self.column_name()?;
                self.expect(K::To)?;
                ObjectAction::RenameColumn(from, self.column_name()?)
            }
        };
        Ok(StatementKind::AlterObject(Box::new(AlterObject {
            object: Object::Relation(kind, table),
            if_exists,
            action,
        })))
    }

    fn partition_action(&mut self, kind: ObjectKind) -> Parsed<TableAction> {
        let attach = self.is(K::Attach);
        self.bump();
        self.expect(K::Partition)?;
        let name = self.qualified_name()?;
        if attach {
            let bound = if kind == ObjectKind::Index {
                None
            } else {
                Some(self.partition_bound()?)
            };
            return Ok(TableAction::AttachPartition(name, bound));
        }
        let concurrently = self.eat(K::Concurrently);
        Ok(TableAction::DetachPartition {
            name,
            concurrently,
            finalize: !concurrently && self.eat(K::Finalize),
        })
    }

    /// `alter_table_cmd`
    fn table_action(&mut self) -> Parsed<TableAction> {
        let word = self.keyword();
        if word == K::Options {
            return Ok(TableAction::GenericOptions(self.generic_actions()?));
        }
        let first = self.token();
        self.bump();
        match word {
            K::Add => self.add_action(),
            K::Alter => self.alter_column(),
            K::Drop => self.drop_action(),
            K::Set => self.set_action(),
            K::Reset => Ok(TableAction::ResetOptions(self.listed_options()?)),
            K::Validate => {
                self.expect(K::Constraint)?;
                Ok(TableAction::ValidateConstraint(self.column_name()?))
            }
            K::Cluster => {
                self.expect(K::On)?;
                Ok(TableAction::ClusterOn(self.column_name()?))
            }
            K::Enable | K::Disable => self.switch_action(word == K::Enable),
            K::Inherit => Ok(TableAction::Inherit(self.qualified_name()?)),
            K::No if self.eat(K::Inherit) => Ok(TableAction::NoInherit(self.qualified_name()?)),
            K::No | K::Force => {
                if word == K::No {
                    self.expect(K::Force)?;
                }
                self.expect_all(&[K::Row, K::Level, K::Security])?;
                Ok(TableAction::ForceRowSecurity(word == K::Force))
            }
            K::Of => Ok(TableAction::Of(self.any_name()?)),
            K::Not => {
                self.expect(K::Of)?;
                Ok(TableAction::NotOf)
            }
            K::Owner => {
                self.expect(K::To)?;
                Ok(TableAction::Owner(self.role()?))
            }
            K::Replica => {
                self.expect(K::Identity)?;
                Ok(TableAction::ReplicaIdentity(self.replica_identity()?))
            }
            _ => Err(self.error_at(first, "syntax error")),
        }
    }

    fn replica_identity(&mut self) -> Parsed<ReplicaIdentity> {
        if self.eat(K::Using) {
            self.expect(K::Index)?;
            return Ok(ReplicaIdentity::Index(self.column_name()?));
        }
        let identity = match self.keyword() {
            K::Nothing => ReplicaIdentity::Nothing,
            K::Full => ReplicaIdentity::Full,
            K::Default => ReplicaIdentity::Default,
            _ => return Err(self.error()),
        };
        self.bump();
        Ok(identity)
    }

    fn add_action(&mut self) -> Parsed<TableAction> {
        let is_constraint = self.any(&[K::Constraint, K::Check, K::Unique, K::Primary, K::Foreign])
            || self.is(K::Exclude)
                && (self.is_at(1, K::Using) || self.is_kind_at(1, TokenKind::Open));
        if is_constraint {
            return Ok(TableAction::AddConstraint(self.table_constraint()?));
        }
        self.eat(K::Column);
        Ok(TableAction::AddColumn {
            if_not_exists: self.if_not_exists(),
            column: self.column_definition()?,
        })
    }

    fn drop_action(&mut self) -> Parsed<TableAction> {
        if self.eat(K::Constraint) {
            return Ok(TableAction::DropConstraint {
                if_exists: self.if_exists(),
                name: self.column_name()?,
                cascade: self.cascade(),
            });
        }
        self.eat(K::Column);
        Ok(TableAction::DropColumn {
            if_exists: self.if_exists(),
            name: self.column_name()?,
            cascade: self.cascade(),
        })
    }

    fn set_action(&mut self) -> Parsed<TableAction> {
        if self.kind() == TokenKind::Open {
            return Ok(TableAction::SetOptions(self.listed_options()?));
        }
        Ok(if self.eat_all(&[K::Without, K::Oids]) {
            TableAction::SetWithoutOids
        } else if self.eat_all(&[K::Without, K::Cluster]) {
            TableAction::SetWithoutCluster
        } else if self.eat(K::Logged) {
            TableAction::SetLogged(true)
        } else if self.eat(K::Unlogged) {
            TableAction::SetLogged(false)
        } else if self.eat(K::Access) {
            self.expect(K::Method)?;
            TableAction::SetAccessMethod(self.column_name()?)
        } else {
            self.expect(K::Tablespace)?;
            TableAction::SetTablespace(self.column_name()?)
        })
    }

    fn switch_action(&mut self, enable: bool) -> Parsed<TableAction> {
        if self.eat(K::Row) {
            self.expect_all(&[K::Level, K::Security])?;
            return Ok(TableAction::RowSecurity(enable));
        }
        let switch = if !enable {
            Switch::Disable
        } else if self.eat(K::Always) {
            Switch::EnableAlways
        } else if self.eat(K::Replica) {
            Switch::EnableReplica
        } else {
            Switch::Enable
        };
        if self.eat(K::Rule) {
            return Ok(TableAction::Rule(switch, self.column_name()?));
        }
        self.expect(K::Trigger)?;
        let plain = matches!(switch, Switch::Enable | Switch::Disable);
        let triggers = if plain && self.eat(K::All) {
            Triggers::All
        } else if plain && self.eat(K::User) {
            Triggers::User
        } else {
            Triggers::Named(self.column_name()?)
        };
        Ok(TableAction::Trigger(switch, triggers))
    }

    fn alter_column(&mut self) -> Parsed<TableAction> {
        if self.eat(K::Constraint) {
            let name = self.column_name()?;
            let at = self.pos();
            let attributes = self.attributes()?;
            if attributes.not_valid || attributes.no_inherit {
                let what = if attributes.not_valid {
                    "NOT VALID"
                } else {
                    "NO INHERIT"
                };
                let message =
                    format!("ALTER CONSTRAINT statement constraints cannot be marked {what}");
                return Err(SyntaxError::new(Fault::NotSupported, message, at));
            }
            return Ok(TableAction::AlterConstraint(name, attributes));
        }
        self.eat(K::Column);
        if self.kind() == TokenKind::Integer {
            let at = self.pos();
            let number = self.integer()?;
            if !(1..=i32::from(i16::MAX)).contains(&number) {
                let message = format!("column number must be in range from 1 to {}", i16::MAX);
                return Err(SyntaxError::new(Fault::InvalidParameter, message, at));
            }
            self.expect_all(&[K::Set, K::Statistics])?;
            return Ok(TableAction::SetStatisticsOf(number, self.signed_integer()?));
        }
        let name = self.column_name()?;
        Ok(TableAction::AlterColumn(name, self.column_action()?))
    }

    fn column_action(&mut self) -> Parsed<ColumnAction> {
        let word = self.keyword();
        match word {
            K::Options => return Ok(ColumnAction::GenericOptions(self.generic_actions()?)),
            K::Type => return self.column_type_action(),
            K::Set if self.is_at(1, K::Data) => return self.column_type_action(),
            K::Restart => return self.identity_actions(),
            K::Set if self.is_identity_option() => return self.identity_actions(),
            _ => {}
        }
        let first = self.token();
        self.bump();
        match word {
            K::Set => self.column_set(),
            K::Drop => {
                if self.eat(K::Default) {
                    return Ok(ColumnAction::DropDefault);
                }
                if self.eat(K::Expression) {
                    return Ok(ColumnAction::DropExpression(self.if_exists()));
                }
                if self.eat(K::Identity) {
                    return Ok(ColumnAction::DropIdentity(self.if_exists()));
                }
                self.expect_all(&[K::Not, K::Null])?;
                Ok(ColumnAction::SetNotNull(false))
            }
            K::Reset => Ok(ColumnAction::ResetOptions(self.listed_options()?)),
            K::Add => {
                self.expect(K::Generated)?;
                let always = self.generated_when()?;
                self.expect_all(&[K::As, K::Identity])?;
                Ok(ColumnAction::AddIdentity {
                    always,
                    options: self.bracketed_sequence_options()?,
                })
            }
            _ => Err(self.error_at(first, "syntax error")),
        }
    }

    fn column_set(&mut self) -> Parsed<ColumnAction> {
        if self.kind() == TokenKind::Open {
            return Ok(ColumnAction::SetOptions(self.listed_options()?));
        }
        Ok(if self.eat(K::Default) {
            ColumnAction::SetDefault(self.expr()?)
        } else if self.eat(K::Not) {
            self.expect(K::Null)?;
            ColumnAction::SetNotNull(true)
        } else if self.eat(K::Statistics) {
            ColumnAction::SetStatistics(self.signed_integer()?)
        } else if self.eat(K::Storage) {
            ColumnAction::SetStorage(self.column_name()?)
        } else {
            self.expect(K::Compression)?;
            ColumnAction::SetCompression(self.column_name_or_default()?)
        })
    }

    fn column_type_action(&mut self) -> Parsed<ColumnAction> {
        self.set_data_type()?;
        Ok(ColumnAction::SetType {
            kind: self.type_name()?,
            collation: self.optional_collation()?,
            using: if self.eat(K::Using) {
                Some(self.expr()?)
            } else {
                None
            },
        })
    }

    /// Whether SET begins an option of an identity column's sequence.
    fn is_identity_option(&self) -> bool {
        matches!(
            self.peek(1).keyword,
            K::Generated
                | K::Cache
                | K::Cycle
                | K::No
                | K::Increment
                | K::Maxvalue
                | K::Minvalue
                | K::Start
                | K::Restart
                | K::Logged
                | K::Unlogged
        ) || self.is_at(1, K::Sequence) && self.is_at(2, K::Name)
    }

    fn identity_actions(&mut self) -> Parsed<ColumnAction> {
        let mut actions = Vec::new();
        loop {
            if self.is(K::Restart) {
                if let Some(option) = self.sequence_option()? {
                    actions.push(IdentityAction::Option(option));
                }
                continue;
            }
            if !self.is(K::Set) || !self.is_identity_option() {
                break;
            }
            self.bump();
            if self.eat(K::Generated) {
                actions.push(IdentityAction::Generated(self.generated_when()?));
                continue;
            }
            let at = self.pos();
            let option = self.sequence_option()?.ok_or_else(|| self.error())?;
            let refused = match option {
                SequenceOption::As(_) => Some("as"),
                SequenceOption::Restart(_) => Some("restart"),
                SequenceOption::OwnedBy(_) => Some("owned_by"),
                _ => None,
            };
            if let Some(name) = refused {
                let message = format!("sequence option \"{name}\" not supported here");
                return Err(SyntaxError::new(Fault::Syntax, message, at));
            }
            actions.push(IdentityAction::Option(option));
        }
        Ok(ColumnAction::SetIdentity(actions))
    }

    /// `alter_generic_options`
    fn generic_actions(&mut self) -> Parsed<Vec<GenericAction>> {
        self.expect(K::Options)?;
        self.bracketed_list(|parser| {
            let behind = parser.peek(2).kind == TokenKind::String;
            Ok(if behind && parser.eat(K::Set) {
                GenericAction::Set(parser.generic_option()?)
            } else if behind && parser.eat(K::Add) {
                GenericAction::Add(parser.generic_option()?)
            } else if parser.is(K::Drop) && parser.peek(1).kind != TokenKind::String {
                parser.bump();
                GenericAction::Drop(parser.label()?)
            } else {
                GenericAction::Plain(parser.generic_option()?)
            })
        })
    }
}

fn altered(object: Object, action: ObjectAction) -> StatementKind {
    StatementKind::AlterObject(Box::new(AlterObject {
        object,
        if_exists: false,
        action,
    }))
}

/// A type that ALTER names: a name, without modifiers.
fn type_named(name: Path) -> TypeName {
    TypeName {
        at: name.at(),
        setof: false,
        base: BaseType::Named(name, Vec::new()),
        dimensions: Vec::new(),
    }
}
