//! Printing of what CREATE makes besides tables and routines, and of lists of options.

use super::Printer;
use crate::tree::{
    AlterPolicy, CheckOption, CollationSource, CreateCollation, CreateDomain, CreateExtension,
    CreatePolicy, CreateRole, CreateRule, CreateSchema, CreateSequence, CreateStatistics,
    CreateTrigger, CreateType, CreateView, DatabaseOption, DatabaseValue, Define, Defined, Expr,
    ExtensionOption, ListedOption, OptionValue, RoleOption, RoleWord, RuleEvent, SequenceOption,
    TriggerEvent, TriggerTime,
};

impl Printer {
    /// Words and a list of options in brackets, if there are options.
    pub(super) fn listed(&mut self, words: &str, options: &[ListedOption]) {
        if !options.is_empty() {
            self.put(words);
            self.bracketed(options, Self::listed_option);
        }
    }

    pub(super) fn listed_option(&mut self, option: &ListedOption) {
        if let Some(namespace) = &option.namespace {
            self.name(namespace);
            self.glue(".");
        }
        self.name(&option.name);
        match &option.value {
            OptionValue::Omitted => return,
            _ => self.put("="),
        }
        match &option.value {
            OptionValue::Omitted => {}
            OptionValue::Word(word) => self.put(word),
            OptionValue::Type(kind) => self.type_name(kind),
            OptionValue::Operator(operator) => self.operator(operator),
            OptionValue::Number(number) => self.literal(number),
            OptionValue::String(text) => self.string(text),
        }
    }

    pub(super) fn create_view(&mut self, view: &CreateView) {
        self.put("CREATE");
        self.put_if(view.or_replace, "OR REPLACE");
        self.persistence(view.persistence);
        self.put_if(view.recursive, "RECURSIVE");
        self.put("VIEW");
        self.path(&view.name);
        self.names(&view.columns);
        self.listed("WITH", &view.options);
        self.put("AS");
        self.query(&view.query);
        self.put(match view.check {
            CheckOption::None => "",
            CheckOption::Local => "WITH LOCAL CHECK OPTION",
            CheckOption::Cascaded => "WITH CASCADED CHECK OPTION",
        });
    }

    pub(super) fn create_sequence(&mut self, sequence: &CreateSequence) {
        self.put("CREATE");
        self.persistence(sequence.persistence);
        self.put("SEQUENCE");
        self.put_if(sequence.if_not_exists, "IF NOT EXISTS");
        self.path(&sequence.name);
        self.sequence_options(&sequence.options);
    }

    pub(super) fn sequence_options(&mut self, options: &[SequenceOption]) {
        for option in options {
            self.sequence_option(option);
        }
    }

    pub(super) fn sequence_option(&mut self, option: &SequenceOption) {
        let (words, value) = match option {
            SequenceOption::As(kind) => {
                self.put("AS");
                return self.type_name(kind);
            }
            SequenceOption::OwnedBy(path) => {
                self.put("OWNED BY");
                // NONE is an owner, and no name.
                if path.0.len() == 1 && path.0[0].text == "none" {
                    return self.put("NONE");
                }
                return self.path(path);
            }
            SequenceOption::SequenceName(path) => {
                self.put("SEQUENCE NAME");
                return self.path(path);
            }
            SequenceOption::Cache(value) => ("CACHE", Some(value)),
            SequenceOption::Cycle(true) => ("CYCLE", None),
            SequenceOption::Cycle(false) => ("NO CYCLE", None),
            SequenceOption::Increment(value) => ("INCREMENT BY", Some(value)),
            SequenceOption::Logged(true) => ("LOGGED", None),
            SequenceOption::Logged(false) => ("UNLOGGED", None),
            SequenceOption::MaxValue(None) => ("NO MAXVALUE", None),
            SequenceOption::MaxValue(value) => ("MAXVALUE", value.as_ref()),
            SequenceOption::MinValue(None) => ("NO MINVALUE", None),
            SequenceOption::MinValue(value) => ("MINVALUE", value.as_ref()),
            SequenceOption::Start(value) => ("START WITH", Some(value)),
            SequenceOption::Restart(None) => ("RESTART", None),
            SequenceOption::Restart(value) => ("RESTART WITH", value.as_ref()),
        };
        self.put(words);
        if let Some(value) = value {
            self.literal(value);
        }
    }

    pub(super) fn create_schema(&mut self, schema: &CreateSchema) {
        self.put("CREATE SCHEMA");
        self.put_if(schema.if_not_exists, "IF NOT EXISTS");
        self.named("", schema.name.as_ref());
        if let Some(owner) = &schema.owner {
            self.put("AUTHORIZATION");
            self.role(owner);
        }
        for element in &schema.elements {
            self.statement(element);
        }
    }

    pub(super) fn database_options(&mut self, options: &[DatabaseOption]) {
        for option in options {
            if option.name.text == "connection_limit" {
                self.put("CONNECTION LIMIT");
            } else {
                self.name(&option.name);
            }
            self.put("=");
            match &option.value {
                DatabaseValue::Default => self.put("DEFAULT"),
                DatabaseValue::Number(number) => self.literal(number),
                DatabaseValue::Word(word) => self.string(word),
            }
        }
    }

    pub(super) fn create_domain(&mut self, domain: &CreateDomain) {
        self.put("CREATE DOMAIN");
        self.path(&domain.name);
        self.put("AS");
        self.type_name(&domain.kind);
        self.collation(domain.collation.as_ref());
        for constraint in &domain.constraints {
            self.column_constraint(constraint);
        }
    }

    pub(super) fn create_type(&mut self, kind: &CreateType) {
        self.put("CREATE TYPE");
        match kind {
            CreateType::Shell(name) => self.path(name),
            CreateType::Composite(name, columns) => {
                self.path(name);
                self.put("AS");
                self.column_types(columns);
            }
            CreateType::Enum(name, values) => {
                self.path(name);
                self.put("AS ENUM");
                self.bracketed(values, |printer, value| printer.string(value));
            }
            CreateType::Range(name, options) => {
                self.path(name);
                self.listed("AS RANGE", options);
            }
        }
    }

    pub(super) fn define(&mut self, define: &Define) {
        self.put("CREATE");
        match &define.what {
            Defined::Operator(operator) => {
                self.put("OPERATOR");
                self.bare_operator(operator);
            }
            Defined::Type(name) => {
                self.put("TYPE");
                self.path(name);
            }
            Defined::TextSearchParser(name) => {
                self.put("TEXT SEARCH PARSER");
                self.path(name);
            }
            Defined::TextSearchDictionary(name) => {
                self.put("TEXT SEARCH DICTIONARY");
                self.path(name);
            }
            Defined::TextSearchTemplate(name) => {
                self.put("TEXT SEARCH TEMPLATE");
                self.path(name);
            }
            Defined::TextSearchConfiguration(name) => {
                self.put("TEXT SEARCH CONFIGURATION");
                self.path(name);
            }
        }
        self.listed("", &define.options);
    }

    pub(super) fn create_trigger(&mut self, trigger: &CreateTrigger) {
        self.put("CREATE");
        self.put_if(trigger.or_replace, "OR REPLACE");
        self.put_if(trigger.constraint, "CONSTRAINT");
        self.named("TRIGGER", Some(&trigger.name));
        self.put(match trigger.time {
            TriggerTime::Before => "BEFORE",
            TriggerTime::After => "AFTER",
            TriggerTime::InsteadOf => "INSTEAD OF",
        });
        self.list_with(&trigger.events, " OR", |printer, event| match event {
            TriggerEvent::Insert => printer.put("INSERT"),
            TriggerEvent::Delete => printer.put("DELETE"),
            TriggerEvent::Truncate => printer.put("TRUNCATE"),
            TriggerEvent::Update(columns) => {
                printer.put("UPDATE");
                printer.put_if(!columns.is_empty(), "OF");
                printer.list(columns, Self::name);
            }
        });
        self.put("ON");
        self.path(&trigger.table);
        if let Some(from) = &trigger.from {
            self.put("FROM");
            self.path(from);
        }
        self.attributes(trigger.attributes);
        self.put_if(!trigger.transitions.is_empty(), "REFERENCING");
        for transition in &trigger.transitions {
            self.put(if transition.new { "NEW" } else { "OLD" });
            self.put(if transition.table { "TABLE" } else { "ROW" });
            self.named("AS", Some(&transition.name));
        }
        self.put_if(trigger.for_each_row, "FOR EACH ROW");
        if let Some(when) = &trigger.when {
            self.put("WHEN");
            self.brackets(|printer| printer.expr(when));
        }
        self.put("EXECUTE FUNCTION");
        self.path(&trigger.function);
        self.bracketed(&trigger.arguments, |printer, argument| {
            printer.string(argument)
        });
    }

    fn event(&mut self, event: RuleEvent) {
        self.put(match event {
            RuleEvent::Select => "SELECT",
            RuleEvent::Insert => "INSERT",
            RuleEvent::Update => "UPDATE",
            RuleEvent::Delete => "DELETE",
        });
    }

    pub(super) fn create_rule(&mut self, rule: &CreateRule) {
        self.put("CREATE");
        self.put_if(rule.or_replace, "OR REPLACE");
        self.named("RULE", Some(&rule.name));
        self.put("AS ON");
        self.event(rule.event);
        self.put("TO");
        self.path(&rule.table);
        self.clause("WHERE", rule.filter.as_ref());
        self.put("DO");
        self.put_if(rule.instead, "INSTEAD");
        match &rule.actions[..] {
            [] => self.put("NOTHING"),
            actions => self.brackets(|printer| {
                printer.list_with(actions, ";", |printer, action| printer.statement(action));
            }),
        }
    }

    pub(super) fn create_policy(&mut self, policy: &CreatePolicy) {
        self.named("CREATE POLICY", Some(&policy.name));
        self.put("ON");
        self.path(&policy.table);
        self.put_if(policy.restrictive, "AS RESTRICTIVE");
        if let Some(command) = policy.command {
            self.put("FOR");
            self.event(command);
        }
        self.roles("TO", &policy.roles);
        self.policy_conditions(policy.using.as_ref(), policy.check.as_ref());
    }

    fn policy_conditions(&mut self, using: Option<&Expr>, check: Option<&Expr>) {
        for (words, condition) in [("USING", using), ("WITH CHECK", check)] {
            if let Some(condition) = condition {
                self.put(words);
                self.brackets(|printer| printer.expr(condition));
            }
        }
    }

    pub(super) fn alter_policy(&mut self, policy: &AlterPolicy) {
        self.named("ALTER POLICY", Some(&policy.name));
        self.put("ON");
        self.path(&policy.table);
        self.roles("TO", &policy.roles);
        self.policy_conditions(policy.using.as_ref(), policy.check.as_ref());
    }

    pub(super) fn create_statistics(&mut self, statistics: &CreateStatistics) {
        self.put("CREATE STATISTICS");
        self.put_if(statistics.if_not_exists, "IF NOT EXISTS");
        self.path(&statistics.name);
        self.names(&statistics.kinds);
        self.put("ON");
        self.list(&statistics.items, Self::index_key);
        self.from("FROM", &statistics.from);
    }

    pub(super) fn create_extension(&mut self, extension: &CreateExtension) {
        self.put("CREATE EXTENSION");
        self.put_if(extension.if_not_exists, "IF NOT EXISTS");
        self.name(&extension.name);
        for option in &extension.options {
            match option {
                ExtensionOption::Schema(name) => self.named("SCHEMA", Some(name)),
                ExtensionOption::Version(version) => {
                    self.put("VERSION");
                    self.string(version);
                }
                ExtensionOption::Cascade => self.put("CASCADE"),
            }
        }
    }

    pub(super) fn create_collation(&mut self, collation: &CreateCollation) {
        self.put("CREATE COLLATION");
        self.put_if(collation.if_not_exists, "IF NOT EXISTS");
        self.path(&collation.name);
        match &collation.source {
            CollationSource::From(name) => {
                self.put("FROM");
                self.path(name);
            }
            CollationSource::Options(options) => self.listed("", options),
        }
    }

    pub(super) fn create_role(&mut self, role: &CreateRole) {
        self.put("CREATE");
        let word = match role.word {
            RoleWord::Role => "ROLE",
            RoleWord::User => "USER",
            RoleWord::Group => "GROUP",
        };
        self.named(word, Some(&role.name));
        self.role_options(&role.options);
    }

    pub(super) fn role_options(&mut self, options: &[RoleOption]) {
        for option in options {
            match option {
                RoleOption::Password(password) => {
                    self.put("PASSWORD");
                    self.string_or_null(password.as_deref());
                }
                RoleOption::ConnectionLimit(limit) => {
                    self.put("CONNECTION LIMIT");
                    self.number(limit);
                }
                RoleOption::ValidUntil(time) => {
                    self.put("VALID UNTIL");
                    self.string(time);
                }
                RoleOption::Flag(name) => self.put(&name.text),
                RoleOption::SysId(id) => {
                    self.put("SYSID");
                    self.number(id);
                }
                RoleOption::Members(roles) => self.roles("USER", roles),
                RoleOption::Admin(roles) => self.roles("ADMIN", roles),
                RoleOption::InRole(roles) => self.roles("IN ROLE", roles),
            }
        }
    }
}
