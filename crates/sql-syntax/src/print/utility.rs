//! Printing of transactions, settings, cursors, COPY and maintenance.

use super::Printer;
use crate::tree::{
    BaseType, Copy, CopyOption, CopySource, CopyValue, Declare, Discard, DoItem, Execute, Expr,
    ExprKind, Fetch, FetchDirection, Isolation, Literal, LockMode, Path, ReindexKind, Setting,
    SettingAction, StatementKind, Transaction, TransactionMode, UtilityOption, UtilityValue,
};

impl Printer {
    pub(super) fn utility(&mut self, statement: &StatementKind) {
        use StatementKind as S;
        match statement {
            S::Transaction(transaction) => self.transaction(transaction),
            S::Set(setting) => self.setting(setting),
            S::Show(name) => {
                self.put("SHOW");
                if name.0.len() == 1 && name.0[0].text == "all" {
                    self.put("ALL");
                } else {
                    self.path(name);
                }
            }
            S::SetConstraints(set) => {
                self.put("SET CONSTRAINTS");
                self.put_if(set.names.is_empty(), "ALL");
                self.list(&set.names, Self::path);
                self.put(if set.deferred {
                    "DEFERRED"
                } else {
                    "IMMEDIATE"
                });
            }
            S::Explain(explain) => {
                self.put("EXPLAIN");
                self.utility_options(&explain.options);
                self.statement(&explain.statement);
            }
            S::Prepare(prepare) => {
                self.named("PREPARE", Some(&prepare.name));
                self.bracketed_if_any(&prepare.types, Self::type_name);
                self.put("AS");
                self.statement(&prepare.statement);
            }
            S::Execute(execute) => self.execute(execute),
            S::Deallocate(name) => self.name_or_all("DEALLOCATE", name.as_ref()),
            S::Declare(declare) => self.declare(declare),
            S::Fetch(fetch) => self.fetch(fetch),
            S::Close(name) => self.name_or_all("CLOSE", name.as_ref()),
            S::Copy(copy) => self.copy(copy),
            S::Lock(lock) => {
                self.put("LOCK TABLE");
                self.list(&lock.tables, Self::relation);
                self.put(match lock.mode {
                    LockMode::AccessShare => "IN ACCESS SHARE MODE",
                    LockMode::RowShare => "IN ROW SHARE MODE",
                    LockMode::RowExclusive => "IN ROW EXCLUSIVE MODE",
                    LockMode::ShareUpdateExclusive => "IN SHARE UPDATE EXCLUSIVE MODE",
                    LockMode::Share => "IN SHARE MODE",
                    LockMode::ShareRowExclusive => "IN SHARE ROW EXCLUSIVE MODE",
                    LockMode::Exclusive => "IN EXCLUSIVE MODE",
                    LockMode::AccessExclusive => "IN ACCESS EXCLUSIVE MODE",
                });
                self.put_if(lock.nowait, "NOWAIT");
            }
            S::Vacuum(vacuum) => {
                self.put(if vacuum.only_analyze {
                    "ANALYZE"
                } else {
                    "VACUUM"
                });
                self.utility_options(&vacuum.options);
                self.list(&vacuum.tables, |printer, (name, columns)| {
                    printer.path(name);
                    printer.names(columns);
                });
            }
            S::Cluster(cluster) => {
                self.put("CLUSTER");
                if cluster.table.is_none() {
                    self.put_if(!cluster.options.is_empty(), "VERBOSE");
                } else {
                    self.utility_options(&cluster.options);
                }
                if let Some(table) = &cluster.table {
                    self.path(table);
                }
                self.named("USING", cluster.index.as_ref());
            }
            S::Reindex(reindex) => {
                self.put("REINDEX");
                self.utility_options(&reindex.options);
                self.put(match reindex.kind {
                    ReindexKind::Index => "INDEX",
                    ReindexKind::Table => "TABLE",
                    ReindexKind::Schema => "SCHEMA",
                    ReindexKind::System => "SYSTEM",
                    ReindexKind::Database => "DATABASE",
                });
                self.put_if(reindex.concurrently, "CONCURRENTLY");
                self.path(&reindex.name);
            }
            S::Discard(what) => self.put(match what {
                Discard::All => "DISCARD ALL",
                Discard::Temporary => "DISCARD TEMPORARY",
                Discard::Plans => "DISCARD PLANS",
                Discard::Sequences => "DISCARD SEQUENCES",
            }),
            S::Checkpoint => self.put("CHECKPOINT"),
            S::Listen(channel) => self.named("LISTEN", Some(channel)),
            S::Unlisten(None) => self.put("UNLISTEN *"),
            S::Unlisten(channel) => self.named("UNLISTEN", channel.as_ref()),
            S::Notify(notify) => {
                self.named("NOTIFY", Some(&notify.channel));
                if let Some(payload) = &notify.payload {
                    self.put(",");
                    self.string(payload);
                }
            }
            S::Load(file) => {
                self.put("LOAD");
                self.string(file);
            }
            S::Do(items) => {
                self.put("DO");
                for item in items {
                    match item {
                        DoItem::Code(code) => self.string(code),
                        DoItem::Language(name) => {
                            self.put("LANGUAGE");
                            self.string(name);
                        }
                    }
                }
            }
            S::Call(call) => {
                self.put("CALL");
                self.call(call);
            }
            other => unreachable!("printed as what it is: {other:?}"),
        }
    }

    fn name_or_all(&mut self, words: &str, name: Option<&crate::tree::Name>) {
        self.put(words);
        match name {
            Some(name) => self.name(name),
            None => self.put("ALL"),
        }
    }

    fn transaction(&mut self, transaction: &Transaction) {
        use Transaction as T;
        match transaction {
            T::Begin(modes) => {
                self.put("BEGIN");
                self.modes(modes);
            }
            T::Start(modes) => {
                self.put("START TRANSACTION");
                self.modes(modes);
            }
            T::Commit { chain } => {
                self.put("COMMIT");
                self.put_if(*chain, "AND CHAIN");
            }
            T::Rollback { chain } => {
                self.put("ROLLBACK");
                self.put_if(*chain, "AND CHAIN");
            }
            T::Savepoint(name) => self.named("SAVEPOINT", Some(name)),
            T::Release(name) => self.named("RELEASE SAVEPOINT", Some(name)),
            T::RollbackTo(name) => self.named("ROLLBACK TO SAVEPOINT", Some(name)),
            T::Prepare(id) => {
                self.put("PREPARE TRANSACTION");
                self.string(id);
            }
            T::CommitPrepared(id) => {
                self.put("COMMIT PREPARED");
                self.string(id);
            }
            T::RollbackPrepared(id) => {
                self.put("ROLLBACK PREPARED");
                self.string(id);
            }
        }
    }

    fn modes(&mut self, modes: &[TransactionMode]) {
        self.list(modes, |printer, mode| {
            printer.put(match mode {
                TransactionMode::Isolation(Isolation::ReadUncommitted) => {
                    "ISOLATION LEVEL READ UNCOMMITTED"
                }
                TransactionMode::Isolation(Isolation::ReadCommitted) => {
                    "ISOLATION LEVEL READ COMMITTED"
                }
                TransactionMode::Isolation(Isolation::RepeatableRead) => {
                    "ISOLATION LEVEL REPEATABLE READ"
                }
                TransactionMode::Isolation(Isolation::Serializable) => {
                    "ISOLATION LEVEL SERIALIZABLE"
                }
                TransactionMode::ReadOnly(true) => "READ ONLY",
                TransactionMode::ReadOnly(false) => "READ WRITE",
                TransactionMode::Deferrable(true) => "DEFERRABLE",
                TransactionMode::Deferrable(false) => "NOT DEFERRABLE",
            });
        });
    }

    pub(super) fn setting(&mut self, setting: &Setting) {
        match &setting.action {
            SettingAction::Reset(name) => {
                self.put("RESET");
                return self.path(name);
            }
            SettingAction::ResetAll => return self.put("RESET ALL"),
            _ => self.put("SET"),
        }
        self.put_if(setting.local, "LOCAL");
        match &setting.action {
            SettingAction::Assign(name, values) => self.assign_setting(name, values),
            SettingAction::Default(name) => {
                self.path(name);
                self.put("TO DEFAULT");
            }
            SettingAction::FromCurrent(name) => {
                self.path(name);
                self.put("FROM CURRENT");
            }
            SettingAction::Transaction(modes) => {
                self.put("TRANSACTION");
                self.modes(modes);
            }
            SettingAction::SessionCharacteristics(modes) => {
                self.put("SESSION CHARACTERISTICS AS TRANSACTION");
                self.modes(modes);
            }
            SettingAction::Snapshot(id) => {
                self.put("TRANSACTION SNAPSHOT");
                self.string(id);
            }
            SettingAction::Reset(_) | SettingAction::ResetAll => {}
        }
    }

    fn assign_setting(&mut self, name: &Path, values: &[Expr]) {
        // An interval may only be the time zone, in its own words.
        if let [
            Expr {
                kind: ExprKind::Cast(cast),
                ..
            },
        ] = values
        {
            self.put("TIME ZONE interval");
            if let BaseType::Interval(_, Some(precision)) = &cast.target.base {
                self.brackets(|printer| printer.number(precision));
                return self.expr(&cast.operand);
            }
            self.expr(&cast.operand);
            let mut fields = Self::default();
            fields.type_name(&cast.target);
            return self.put(fields.out.trim_start_matches("interval").trim_start());
        }
        self.path(name);
        self.put("TO");
        self.list(values, |printer, value| match &value.kind {
            ExprKind::Literal(Literal::String(text)) => printer.string(text),
            _ => printer.expr(value),
        });
    }

    fn utility_options(&mut self, options: &[UtilityOption]) {
        self.bracketed_if_any(options, |printer, option| {
            if option.name.text == "analyze" {
                printer.put("ANALYZE");
            } else {
                printer.name(&option.name);
            }
            match &option.value {
                UtilityValue::Omitted => {}
                UtilityValue::Word(word) => printer.string(word),
                UtilityValue::Number(number) => printer.literal(number),
            }
        });
    }

    pub(super) fn execute(&mut self, execute: &Execute) {
        self.named("EXECUTE", Some(&execute.name));
        self.bracketed_if_any(&execute.arguments, Self::expr);
    }

    fn declare(&mut self, declare: &Declare) {
        self.named("DECLARE", Some(&declare.name));
        self.put_if(declare.binary, "BINARY");
        self.put_if(declare.insensitive, "INSENSITIVE");
        self.put_if(declare.asensitive, "ASENSITIVE");
        self.put_if(declare.scroll, "SCROLL");
        self.put_if(declare.no_scroll, "NO SCROLL");
        self.put("CURSOR");
        self.put_if(declare.hold, "WITH HOLD");
        self.put("FOR");
        self.query(&declare.query);
    }

    fn fetch(&mut self, fetch: &Fetch) {
        self.put(if fetch.only_move { "MOVE" } else { "FETCH" });
        self.put(match fetch.direction {
            FetchDirection::Forward => "FORWARD",
            FetchDirection::Backward => "BACKWARD",
            FetchDirection::Absolute => "ABSOLUTE",
            FetchDirection::Relative => "RELATIVE",
        });
        match &fetch.count {
            Some(count) => self.number(count),
            None => self.put("ALL"),
        }
        self.named("FROM", Some(&fetch.cursor));
    }

    fn copy(&mut self, copy: &Copy) {
        self.put("COPY");
        match &copy.source {
            CopySource::Table(table, columns) => {
                self.path(table);
                self.names(columns);
            }
            CopySource::Query(statement) => self.brackets(|printer| printer.statement(statement)),
        }
        self.put(if copy.from { "FROM" } else { "TO" });
        self.put_if(copy.program, "PROGRAM");
        match &copy.file {
            Some(file) => self.string(file),
            None => self.put(if copy.from { "STDIN" } else { "STDOUT" }),
        }
        let listed = |option: &CopyOption| matches!(option, CopyOption::Listed(..));
        if copy.options.iter().any(listed) {
            self.put("WITH (");
            self.list(&copy.options, Self::copy_option);
            self.put(")");
        } else {
            for option in &copy.options {
                self.copy_option(option);
            }
        }
        self.clause("WHERE", copy.filter.as_ref());
    }

    fn copy_option(&mut self, option: &CopyOption) {
        let (words, text) = match option {
            CopyOption::Listed(name, value) => {
                self.name(name);
                return self.copy_value(value);
            }
            CopyOption::Binary => ("BINARY", None),
            CopyOption::Freeze => ("FREEZE", None),
            CopyOption::Csv => ("CSV", None),
            CopyOption::Header => ("HEADER", None),
            CopyOption::Delimiter(text) => ("DELIMITER", Some(text)),
            CopyOption::Null(text) => ("NULL", Some(text)),
            CopyOption::Quote(text) => ("QUOTE", Some(text)),
            CopyOption::Escape(text) => ("ESCAPE", Some(text)),
            CopyOption::Encoding(text) => ("ENCODING", Some(text)),
            CopyOption::ForceQuote(None) => ("FORCE QUOTE *", None),
            CopyOption::ForceQuote(Some(columns)) => {
                self.put("FORCE QUOTE");
                return self.list(columns, Self::name);
            }
            CopyOption::ForceNotNull(columns) => {
                self.put("FORCE NOT NULL");
                return self.list(columns, Self::name);
            }
            CopyOption::ForceNull(columns) => {
                self.put("FORCE NULL");
                return self.list(columns, Self::name);
            }
        };
        self.put(words);
        if let Some(text) = text {
            self.string(text);
        }
    }

    fn copy_value(&mut self, value: &CopyValue) {
        match value {
            CopyValue::Omitted => {}
            CopyValue::Word(word) => self.string(word),
            CopyValue::Number(number) => self.literal(number),
            CopyValue::Star => self.put("*"),
            CopyValue::List(words) => self.bracketed(words, |printer, word| printer.string(word)),
        }
    }
}
