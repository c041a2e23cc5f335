//! Printing of objects by kind and name, of DROP, GRANT and REVOKE.

use super::Printer;
use crate::tree::{
    AlterDefaultPrivileges, DefaultsOf, Drop, Grant, GrantKind, GrantRole, GrantTarget, Object,
    ObjectKind, Privilege, Privileges, TablePartKind,
};

impl Printer {
    pub(super) fn object_kind(&mut self, kind: ObjectKind) {
        use ObjectKind as O;
        self.put(match kind {
            O::Table => "TABLE",
            O::Sequence => "SEQUENCE",
            O::View => "VIEW",
            O::MaterializedView => "MATERIALIZED VIEW",
            O::Index => "INDEX",
            O::ForeignTable => "FOREIGN TABLE",
            O::Collation => "COLLATION",
            O::Conversion => "CONVERSION",
            O::Statistics => "STATISTICS",
            O::TextSearchParser => "TEXT SEARCH PARSER",
            O::TextSearchDictionary => "TEXT SEARCH DICTIONARY",
            O::TextSearchTemplate => "TEXT SEARCH TEMPLATE",
            O::TextSearchConfiguration => "TEXT SEARCH CONFIGURATION",
            O::AccessMethod => "ACCESS METHOD",
            O::EventTrigger => "EVENT TRIGGER",
            O::Extension => "EXTENSION",
            O::ForeignDataWrapper => "FOREIGN DATA WRAPPER",
            O::Language => "LANGUAGE",
            O::Publication => "PUBLICATION",
            O::Schema => "SCHEMA",
            O::Server => "SERVER",
            O::Database => "DATABASE",
            O::Role => "ROLE",
            O::Subscription => "SUBSCRIPTION",
            O::Tablespace => "TABLESPACE",
        });
    }

    fn kind_of(&mut self, object: &Object) {
        match object {
            Object::Named(kind, _) | Object::Relation(kind, _) => self.object_kind(*kind),
            Object::Type(_) => self.put("TYPE"),
            Object::Domain(_) => self.put("DOMAIN"),
            Object::Routine(kind, _) => self.routine_kind(*kind),
            Object::Aggregate(_) => self.put("AGGREGATE"),
            Object::Operator(_) => self.put("OPERATOR"),
            Object::OperatorClass(false, ..) => self.put("OPERATOR CLASS"),
            Object::OperatorClass(true, ..) => self.put("OPERATOR FAMILY"),
            Object::Cast(..) => self.put("CAST"),
            Object::Transform(..) => self.put("TRANSFORM"),
            Object::PartOfTable(kind, ..) => self.put(match kind {
                TablePartKind::Policy => "POLICY",
                TablePartKind::Rule => "RULE",
                TablePartKind::Trigger => "TRIGGER",
                TablePartKind::Constraint => "CONSTRAINT",
            }),
            Object::DomainConstraint(..) => self.put("CONSTRAINT"),
            Object::Column(_) => self.put("COLUMN"),
            Object::LargeObject(_) => self.put("LARGE OBJECT"),
        }
    }

    fn name_of(&mut self, object: &Object) {
        match object {
            Object::Named(_, path) | Object::Column(path) => self.path(path),
            Object::Relation(_, relation) => self.relation(relation),
            Object::Type(kind) | Object::Domain(kind) => self.type_name(kind),
            Object::Routine(_, routine) => self.routine_ref(routine),
            Object::Aggregate(aggregate) => self.aggregate_ref(aggregate),
            Object::Operator(operator) => self.operator_ref(operator),
            Object::OperatorClass(_, path, method) => {
                self.path(path);
                self.named("USING", Some(method));
            }
            Object::Cast(source, target) => self.brackets(|printer| {
                printer.type_name(source);
                printer.put("AS");
                printer.type_name(target);
            }),
            Object::Transform(kind, language) => {
                self.put("FOR");
                self.type_name(kind);
                self.named("LANGUAGE", Some(language));
            }
            Object::PartOfTable(_, name, table) => {
                self.name(name);
                self.put("ON");
                self.path(table);
            }
            Object::DomainConstraint(name, domain) => {
                self.name(name);
                self.put("ON DOMAIN");
                self.path(domain);
            }
            Object::LargeObject(number) => self.literal(number),
        }
    }

    pub(super) fn object(&mut self, object: &Object) {
        self.object_with(object, false);
    }

    pub(super) fn object_with(&mut self, object: &Object, if_exists: bool) {
        self.kind_of(object);
        self.put_if(if_exists, "IF EXISTS");
        self.name_of(object);
    }

    pub(super) fn drop(&mut self, drop: &Drop) {
        self.put("DROP");
        if let Some(first) = drop.objects.first() {
            self.kind_of(first);
        }
        self.put_if(drop.concurrently, "CONCURRENTLY");
        self.put_if(drop.if_exists, "IF EXISTS");
        self.list(&drop.objects, Self::name_of);
        self.cascade(drop.cascade);
    }

    fn privilege(&mut self, privilege: &Privilege) {
        // These are words of the grammar, and names to everybody else.
        match privilege.name.as_str() {
            word @ ("select" | "references" | "create" | "alter system") => self.put(word),
            name => self.identifier(name),
        }
        self.names(&privilege.columns);
    }

    fn grant_kind(&mut self, kind: GrantKind) {
        self.put(match kind {
            GrantKind::Table => "TABLE",
            GrantKind::Sequence => "SEQUENCE",
            GrantKind::ForeignDataWrapper => "FOREIGN DATA WRAPPER",
            GrantKind::ForeignServer => "FOREIGN SERVER",
            GrantKind::Database => "DATABASE",
            GrantKind::Domain => "DOMAIN",
            GrantKind::Language => "LANGUAGE",
            GrantKind::Parameter => "PARAMETER",
            GrantKind::Schema => "SCHEMA",
            GrantKind::Tablespace => "TABLESPACE",
            GrantKind::Type => "TYPE",
            GrantKind::Function => "FUNCTION",
            GrantKind::Procedure => "PROCEDURE",
            GrantKind::Routine => "ROUTINE",
        });
    }

    pub(super) fn grant(&mut self, grant: &Grant) {
        self.put(if grant.revoke { "REVOKE" } else { "GRANT" });
        self.put_if(grant.option_for, "GRANT OPTION FOR");
        match &grant.privileges {
            Privileges::All(columns) => {
                self.put("ALL");
                self.names(columns);
            }
            Privileges::List(privileges) => self.list(privileges, Self::privilege),
        }
        self.put("ON");
        match &grant.target {
            GrantTarget::Objects(kind, names) => {
                self.grant_kind(*kind);
                self.list(names, Self::path);
            }
            GrantTarget::Routines(kind, routines) => {
                self.routine_kind(*kind);
                self.list(routines, Self::routine_ref);
            }
            GrantTarget::LargeObjects(numbers) => {
                self.put("LARGE OBJECT");
                self.list(numbers, Self::literal);
            }
            GrantTarget::AllInSchema(kind, schemas) => {
                self.put("ALL");
                self.grant_kind(*kind);
                self.glue("S");
                self.put("IN SCHEMA");
                self.list(schemas, Self::name);
            }
            GrantTarget::Default(kind) => {
                self.grant_kind(*kind);
                self.glue("S");
            }
        }
        self.roles(if grant.revoke { "FROM" } else { "TO" }, &grant.grantees);
        self.put_if(grant.with_grant_option, "WITH GRANT OPTION");
        self.granted_by(grant.granted_by.as_ref());
        self.cascade(grant.cascade);
    }

    fn granted_by(&mut self, role: Option<&crate::tree::Role>) {
        if let Some(role) = role {
            self.put("GRANTED BY");
            self.role(role);
        }
    }

    pub(super) fn grant_role(&mut self, grant: &GrantRole) {
        self.put(if grant.revoke { "REVOKE" } else { "GRANT" });
        self.put_if(grant.option_for, "ADMIN OPTION FOR");
        self.list(&grant.roles, Self::privilege);
        self.roles(if grant.revoke { "FROM" } else { "TO" }, &grant.grantees);
        self.put_if(grant.with_admin_option, "WITH ADMIN OPTION");
        self.granted_by(grant.granted_by.as_ref());
        self.cascade(grant.cascade);
    }

    pub(super) fn alter_default_privileges(&mut self, alter: &AlterDefaultPrivileges) {
        self.put("ALTER DEFAULT PRIVILEGES");
        for of in &alter.of {
            match of {
                DefaultsOf::Schemas(names) => {
                    self.put("IN SCHEMA");
                    self.list(names, Self::name);
                }
                DefaultsOf::Roles(roles) => self.roles("FOR ROLE", roles),
            }
        }
        self.grant(&alter.grant);
    }
}
