//! Printing of ALTER: what it changes, an action at a time.

use super::Printer;
use crate::tree::{
    AlterComposite, AlterDatabase, AlterDomain, AlterEnum, AlterObject, AlterRole,
    AlterRoleSetting, AlterSequence, AlterTable, AttributeAction, ColumnAction, DatabaseAction,
    DomainAction, EnumAction, EnumPlace, GenericAction, IdentityAction, ListedOption, Name,
    ObjectAction, ReplicaIdentity, SequenceOption, Switch, TableAction, Triggers,
};

impl Printer {
    pub(super) fn alter_table(&mut self, alter: &AlterTable) {
        self.put("ALTER");
        self.object_kind(alter.kind);
        self.put_if(alter.if_exists, "IF EXISTS");
        self.relation(&alter.table);
        self.list(&alter.actions, Self::table_action);
    }

    fn options(&mut self, words: &str, options: &[ListedOption]) {
        self.put(words);
        self.bracketed(options, Self::listed_option);
    }

    fn drop_named(&mut self, words: &str, if_exists: bool, name: &Name, cascade: bool) {
        self.put(words);
        self.put_if(if_exists, "IF EXISTS");
        self.name(name);
        self.cascade(cascade);
    }

    fn table_action(&mut self, action: &TableAction) {
        use TableAction as A;
        match action {
            A::AddColumn {
                if_not_exists,
                column,
            } => {
                self.put("ADD COLUMN");
                self.put_if(*if_not_exists, "IF NOT EXISTS");
                self.column_definition(column);
            }
            A::DropColumn {
                if_exists,
                name,
                cascade,
            } => self.drop_named("DROP COLUMN", *if_exists, name, *cascade),
            A::AlterColumn(name, action) => {
                self.named("ALTER COLUMN", Some(name));
                self.column_action(action);
            }
            A::SetStatisticsOf(number, target) => {
                self.put(&format!("ALTER COLUMN {number} SET STATISTICS {target}"));
            }
            A::AddConstraint(constraint) => {
                self.put("ADD");
                self.table_constraint(constraint);
            }
            A::AlterConstraint(name, attributes) => {
                self.named("ALTER CONSTRAINT", Some(name));
                self.attributes(*attributes);
            }
            A::ValidateConstraint(name) => self.named("VALIDATE CONSTRAINT", Some(name)),
            A::DropConstraint {
                if_exists,
                name,
                cascade,
            } => self.drop_named("DROP CONSTRAINT", *if_exists, name, *cascade),
            A::SetWithoutOids => self.put("SET WITHOUT OIDS"),
            A::ClusterOn(name) => self.named("CLUSTER ON", Some(name)),
            A::SetWithoutCluster => self.put("SET WITHOUT CLUSTER"),
            A::SetLogged(true) => self.put("SET LOGGED"),
            A::SetLogged(false) => self.put("SET UNLOGGED"),
            A::Trigger(switch, triggers) => {
                self.switch(*switch);
                match triggers {
                    Triggers::Named(name) => self.named("TRIGGER", Some(name)),
                    Triggers::All => self.put("TRIGGER ALL"),
                    Triggers::User => self.put("TRIGGER USER"),
                }
            }
            A::Rule(switch, name) => {
                self.switch(*switch);
                self.named("RULE", Some(name));
            }
            A::Inherit(table) => {
                self.put("INHERIT");
                self.path(table);
            }
            A::NoInherit(table) => {
                self.put("NO INHERIT");
                self.path(table);
            }
            A::Of(kind) => {
                self.put("OF");
                self.path(kind);
            }
            A::NotOf => self.put("NOT OF"),
            A::Owner(role) => {
                self.put("OWNER TO");
                self.role(role);
            }
            A::SetAccessMethod(name) => self.named("SET ACCESS METHOD", Some(name)),
            A::SetTablespace(name) => self.named("SET TABLESPACE", Some(name)),
            A::SetOptions(options) => self.options("SET", options),
            A::ResetOptions(options) => self.options("RESET", options),
            A::ReplicaIdentity(identity) => {
                self.put("REPLICA IDENTITY");
                match identity {
                    ReplicaIdentity::Nothing => self.put("NOTHING"),
                    ReplicaIdentity::Full => self.put("FULL"),
                    ReplicaIdentity::Default => self.put("DEFAULT"),
                    ReplicaIdentity::Index(name) => self.named("USING INDEX", Some(name)),
                }
            }
            A::RowSecurity(true) => self.put("ENABLE ROW LEVEL SECURITY"),
            A::RowSecurity(false) => self.put("DISABLE ROW LEVEL SECURITY"),
            A::ForceRowSecurity(true) => self.put("FORCE ROW LEVEL SECURITY"),
            A::ForceRowSecurity(false) => self.put("NO FORCE ROW LEVEL SECURITY"),
            A::GenericOptions(actions) => self.generic_actions(actions),
            A::AttachPartition(name, bound) => {
                self.put("ATTACH PARTITION");
                self.path(name);
                if let Some(bound) = bound {
                    self.partition_bound(bound);
                }
            }
            A::DetachPartition {
                name,
                concurrently,
                finalize,
            } => {
                self.put("DETACH PARTITION");
                self.path(name);
                self.put_if(*concurrently, "CONCURRENTLY");
                self.put_if(*finalize, "FINALIZE");
            }
        }
    }

    fn switch(&mut self, switch: Switch) {
        self.put(match switch {
            Switch::Enable => "ENABLE",
            Switch::EnableAlways => "ENABLE ALWAYS",
            Switch::EnableReplica => "ENABLE REPLICA",
            Switch::Disable => "DISABLE",
        });
    }

    fn generic_actions(&mut self, actions: &[GenericAction]) {
        self.put("OPTIONS");
        self.bracketed(actions, |printer, action| match action {
            GenericAction::Plain(option) => printer.generic_option(option),
            GenericAction::Set(option) => {
                printer.put("SET");
                printer.generic_option(option);
            }
            GenericAction::Add(option) => {
                printer.put("ADD");
                printer.generic_option(option);
            }
            GenericAction::Drop(name) => printer.named("DROP", Some(name)),
        });
    }

    fn column_action(&mut self, action: &ColumnAction) {
        use ColumnAction as A;
        match action {
            A::SetDefault(value) => self.clause("SET DEFAULT", Some(value)),
            A::DropDefault => self.put("DROP DEFAULT"),
            A::SetNotNull(true) => self.put("SET NOT NULL"),
            A::SetNotNull(false) => self.put("DROP NOT NULL"),
            A::DropExpression(if_exists) => {
                self.put("DROP EXPRESSION");
                self.put_if(*if_exists, "IF EXISTS");
            }
            A::SetStatistics(target) => {
                self.put("SET STATISTICS");
                self.number(target);
            }
            A::SetOptions(options) => self.options("SET", options),
            A::ResetOptions(options) => self.options("RESET", options),
            A::SetStorage(name) => self.named("SET STORAGE", Some(name)),
            A::SetCompression(name) => {
                self.put("SET COMPRESSION");
                self.name_or_default(name);
            }
            A::AddIdentity { always, options } => {
                self.put("ADD");
                self.generated_when(*always);
                self.put("AS IDENTITY");
                if !options.is_empty() {
                    self.brackets(|printer| printer.sequence_options(options));
                }
            }
            A::SetIdentity(actions) => {
                for action in actions {
                    match action {
                        IdentityAction::Generated(always) => {
                            self.put("SET");
                            self.generated_when(*always);
                        }
                        IdentityAction::Option(option) => {
                            self.put_if(!matches!(option, SequenceOption::Restart(_)), "SET");
                            self.sequence_option(option);
                        }
                    }
                }
            }
            A::DropIdentity(if_exists) => {
                self.put("DROP IDENTITY");
                self.put_if(*if_exists, "IF EXISTS");
            }
            A::SetType {
                kind,
                collation,
                using,
            } => {
                self.put("TYPE");
                self.type_name(kind);
                self.collation(collation.as_ref());
                self.clause("USING", using.as_ref());
            }
            A::GenericOptions(actions) => self.generic_actions(actions),
        }
    }

    pub(super) fn alter_object(&mut self, alter: &AlterObject) {
        use ObjectAction as A;
        self.put("ALTER");
        self.object_with(&alter.object, alter.if_exists);
        match &alter.action {
            A::Rename(name) => self.named("RENAME TO", Some(name)),
            A::RenameColumn(from, to) => {
                self.named("RENAME COLUMN", Some(from));
                self.named("TO", Some(to));
            }
            A::RenameConstraint(from, to) => {
                self.named("RENAME CONSTRAINT", Some(from));
                self.named("TO", Some(to));
            }
            A::RenameAttribute { from, to, cascade } => {
                self.named("RENAME ATTRIBUTE", Some(from));
                self.named("TO", Some(to));
                self.cascade(*cascade);
            }
            A::Owner(role) => {
                self.put("OWNER TO");
                self.role(role);
            }
            A::Schema(name) => self.named("SET SCHEMA", Some(name)),
            A::DependsOn { no, extension } => {
                self.put_if(*no, "NO");
                self.named("DEPENDS ON EXTENSION", Some(extension));
            }
            A::SetOptions(options) => self.options("SET", options),
            A::RefreshVersion => self.put("REFRESH VERSION"),
        }
    }

    pub(super) fn alter_sequence(&mut self, alter: &AlterSequence) {
        self.put("ALTER SEQUENCE");
        self.put_if(alter.if_exists, "IF EXISTS");
        self.path(&alter.name);
        self.sequence_options(&alter.options);
    }

    pub(super) fn alter_domain(&mut self, alter: &AlterDomain) {
        self.put("ALTER DOMAIN");
        self.path(&alter.name);
        match &alter.action {
            DomainAction::SetDefault(value) => self.clause("SET DEFAULT", Some(value)),
            DomainAction::DropDefault => self.put("DROP DEFAULT"),
            DomainAction::SetNotNull(true) => self.put("SET NOT NULL"),
            DomainAction::SetNotNull(false) => self.put("DROP NOT NULL"),
            DomainAction::AddConstraint(constraint) => {
                self.put("ADD");
                self.table_constraint(constraint);
            }
            DomainAction::DropConstraint {
                if_exists,
                name,
                cascade,
            } => self.drop_named("DROP CONSTRAINT", *if_exists, name, *cascade),
            DomainAction::ValidateConstraint(name) => self.named("VALIDATE CONSTRAINT", Some(name)),
        }
    }

    pub(super) fn alter_enum(&mut self, alter: &AlterEnum) {
        self.put("ALTER TYPE");
        self.path(&alter.name);
        match &alter.action {
            EnumAction::Add {
                if_not_exists,
                value,
                place,
            } => {
                self.put("ADD VALUE");
                self.put_if(*if_not_exists, "IF NOT EXISTS");
                self.string(value);
                match place {
                    None => {}
                    Some(EnumPlace::Before(other)) => {
                        self.put("BEFORE");
                        self.string(other);
                    }
                    Some(EnumPlace::After(other)) => {
                        self.put("AFTER");
                        self.string(other);
                    }
                }
            }
            EnumAction::Rename(from, to) => {
                self.put("RENAME VALUE");
                self.string(from);
                self.put("TO");
                self.string(to);
            }
        }
    }

    pub(super) fn alter_composite(&mut self, alter: &AlterComposite) {
        self.put("ALTER TYPE");
        self.path(&alter.name);
        self.list(&alter.actions, |printer, action| match action {
            AttributeAction::Add(column, cascade) => {
                printer.put("ADD ATTRIBUTE");
                printer.column_type(column);
                printer.cascade(*cascade);
            }
            AttributeAction::Drop {
                if_exists,
                name,
                cascade,
            } => printer.drop_named("DROP ATTRIBUTE", *if_exists, name, *cascade),
            AttributeAction::SetType {
                name,
                kind,
                collation,
                cascade,
            } => {
                printer.named("ALTER ATTRIBUTE", Some(name));
                printer.put("TYPE");
                printer.type_name(kind);
                printer.collation(collation.as_ref());
                printer.cascade(*cascade);
            }
        });
    }

    pub(super) fn alter_role(&mut self, alter: &AlterRole) {
        self.put("ALTER ROLE");
        self.role(&alter.role);
        self.role_options(&alter.options);
    }

    pub(super) fn alter_role_setting(&mut self, alter: &AlterRoleSetting) {
        self.put("ALTER ROLE");
        match &alter.role {
            Some(role) => self.role(role),
            None => self.put("ALL"),
        }
        self.named("IN DATABASE", alter.database.as_ref());
        self.setting(&alter.setting);
    }

    pub(super) fn alter_database(&mut self, alter: &AlterDatabase) {
        self.named("ALTER DATABASE", Some(&alter.name));
        match &alter.action {
            DatabaseAction::Options(options) => self.database_options(options),
            DatabaseAction::Tablespace(name) => self.named("SET TABLESPACE", Some(name)),
            DatabaseAction::RefreshCollation => self.put("REFRESH COLLATION VERSION"),
            DatabaseAction::Setting(setting) => self.setting(setting),
        }
    }
}
