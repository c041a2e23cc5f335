//! Printing of a statement of any kind: leads to the printer of that kind.

use super::Printer;
use crate::tree::StatementKind;

impl Printer {
    pub(super) fn statement(&mut self, statement: &StatementKind) {
        use StatementKind as S;
        match statement {
            S::Query(query) => self.query(query),
            S::Insert(insert) => self.insert(insert),
            S::Update(update) => self.update(update),
            S::Delete(delete) => self.delete(delete),
            S::Merge(merge) => self.merge(merge),
            S::CreateTable(table) => self.create_table(table),
            S::CreateTableAs(table) => self.create_table_as(table),
            S::CreateIndex(index) => self.create_index(index),
            S::CreateView(view) => self.create_view(view),
            S::CreateSequence(sequence) => self.create_sequence(sequence),
            S::CreateSchema(schema) => self.create_schema(schema),
            S::CreateDatabase(database) => {
                self.named("CREATE DATABASE", Some(&database.name));
                self.database_options(&database.options);
            }
            S::CreateDomain(domain) => self.create_domain(domain),
            S::CreateType(kind) => self.create_type(kind),
            S::CreateRoutine(routine) => self.create_routine(routine),
            S::CreateAggregate(aggregate) => self.create_aggregate(aggregate),
            S::CreateTrigger(trigger) => self.create_trigger(trigger),
            S::CreateRule(rule) => self.create_rule(rule),
            S::CreatePolicy(policy) => self.create_policy(policy),
            S::CreateStatistics(statistics) => self.create_statistics(statistics),
            S::CreateExtension(extension) => self.create_extension(extension),
            S::CreateRole(role) => self.create_role(role),
            S::CreateCast(cast) => self.create_cast(cast),
            S::CreateCollation(collation) => self.create_collation(collation),
            S::Define(define) => self.define(define),
            S::RefreshView(refresh) => {
                self.put("REFRESH MATERIALIZED VIEW");
                self.put_if(refresh.concurrently, "CONCURRENTLY");
                self.path(&refresh.name);
                self.put_if(!refresh.with_data, "WITH NO DATA");
            }
            S::AlterTable(alter) => self.alter_table(alter),
            S::AlterObject(alter) => self.alter_object(alter),
            S::AlterSequence(alter) => self.alter_sequence(alter),
            S::AlterDomain(alter) => self.alter_domain(alter),
            S::AlterEnum(alter) => self.alter_enum(alter),
            S::AlterComposite(alter) => self.alter_composite(alter),
            S::AlterRole(alter) => self.alter_role(alter),
            S::AlterRoleSetting(alter) => self.alter_role_setting(alter),
            S::AlterGroup(alter) => {
                self.put("ALTER GROUP");
                self.role(&alter.role);
                self.roles(
                    if alter.add { "ADD USER" } else { "DROP USER" },
                    &alter.members,
                );
            }
            S::AlterDatabase(alter) => self.alter_database(alter),
            S::AlterSystem(setting) => {
                self.put("ALTER SYSTEM");
                self.setting(setting);
            }
            S::AlterRoutine(alter) => self.alter_routine(alter),
            S::AlterPolicy(alter) => self.alter_policy(alter),
            S::AlterStatistics(alter) => {
                self.put("ALTER STATISTICS");
                self.put_if(alter.if_exists, "IF EXISTS");
                self.path(&alter.name);
                self.put("SET STATISTICS");
                self.number(&alter.target);
            }
            S::AlterDefaultPrivileges(alter) => self.alter_default_privileges(alter),
            S::Drop(drop) => self.drop(drop),
            S::DropOwned(drop) => {
                self.roles("DROP OWNED BY", &drop.roles);
                self.cascade(drop.cascade);
            }
            S::ReassignOwned(reassign) => {
                self.roles("REASSIGN OWNED BY", &reassign.roles);
                self.put("TO");
                self.role(&reassign.to);
            }
            S::DropRole(drop) => {
                self.put("DROP ROLE");
                self.roles(if drop.if_exists { "IF EXISTS" } else { "" }, &drop.roles);
            }
            S::DropDatabase(drop) => {
                self.put("DROP DATABASE");
                self.put_if(drop.if_exists, "IF EXISTS");
                self.name(&drop.name);
                self.put_if(drop.force, "WITH (FORCE)");
            }
            S::Truncate(truncate) => {
                self.put("TRUNCATE");
                self.list(&truncate.tables, Self::relation);
                self.put_if(truncate.restart_identity, "RESTART IDENTITY");
                self.cascade(truncate.cascade);
            }
            S::Comment(comment) => {
                self.put("COMMENT ON");
                self.object(&comment.object);
                self.put("IS");
                self.string_or_null(comment.text.as_deref());
            }
            S::Grant(grant) => self.grant(grant),
            S::GrantRole(grant) => self.grant_role(grant),
            S::Return(expr) => self.clause("RETURN", Some(expr)),
            S::Unsupported(unsupported) => self.put(&unsupported.text),
            other => self.utility(other),
        }
    }

    pub(super) fn string_or_null(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.string(text),
            None => self.put("NULL"),
        }
    }
}
