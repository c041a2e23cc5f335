//! Printing of tables, their columns and constraints, and of indexes.

use super::Printer;
use crate::tree::{
    Attributes, ColumnConstraint, ColumnConstraintKind, ColumnDefinition, CreateIndex, CreateTable,
    CreateTableAs, GenericOption, IndexItem, IndexKey, IndexStorage, Key, KeyAction, LikeOption,
    OnCommit, PartitionBound, References, Storage, TableConstraint, TableConstraintKind,
    TableElement, TableShape, TableSource,
};

impl Printer {
    pub(super) fn create_table(&mut self, table: &CreateTable) {
        self.put("CREATE");
        self.persistence(table.persistence);
        self.put_if(table.foreign.is_some(), "FOREIGN");
        self.put("TABLE");
        self.put_if(table.if_not_exists, "IF NOT EXISTS");
        self.path(&table.name);
        match &table.shape {
            TableShape::Columns(elements) => self.bracketed(elements, Self::table_element),
            TableShape::OfType(kind, elements) => {
                self.put("OF");
                self.path(kind);
                self.bracketed_if_any(elements, Self::table_element);
            }
            TableShape::PartitionOf(parent, elements, bound) => {
                self.put("PARTITION OF");
                self.path(parent);
                self.bracketed_if_any(elements, Self::table_element);
                self.partition_bound(bound);
            }
        }
        if !table.inherits.is_empty() {
            self.put("INHERITS");
            self.bracketed(&table.inherits, Self::path);
        }
        if let Some(partition) = &table.partition_by {
            self.named("PARTITION BY", Some(&partition.strategy));
            self.bracketed(&partition.items, Self::index_item);
        }
        self.storage(&table.storage);
        if let Some((server, options)) = &table.foreign {
            self.named("SERVER", Some(server));
            self.generic_options(options);
        }
    }

    fn storage(&mut self, storage: &Storage) {
        self.named("USING", storage.access_method.as_ref());
        self.listed("WITH", &storage.options);
        self.put(match storage.on_commit {
            None => "",
            Some(OnCommit::Drop) => "ON COMMIT DROP",
            Some(OnCommit::DeleteRows) => "ON COMMIT DELETE ROWS",
            Some(OnCommit::PreserveRows) => "ON COMMIT PRESERVE ROWS",
        });
        self.named("TABLESPACE", storage.tablespace.as_ref());
    }

    pub(super) fn generic_options(&mut self, options: &[GenericOption]) {
        if !options.is_empty() {
            self.put("OPTIONS");
            self.bracketed(options, Self::generic_option);
        }
    }

    pub(super) fn generic_option(&mut self, option: &GenericOption) {
        self.name(&option.name);
        self.string(&option.value);
    }

    fn table_element(&mut self, element: &TableElement) {
        match element {
            TableElement::Column(column) => self.column_definition(column),
            TableElement::Constraint(constraint) => self.table_constraint(constraint),
            TableElement::Like(table, options) => {
                self.put("LIKE");
                self.path(table);
                for (option, including) in options {
                    self.put(if *including { "INCLUDING" } else { "EXCLUDING" });
                    self.put(match option {
                        LikeOption::Comments => "COMMENTS",
                        LikeOption::Compression => "COMPRESSION",
                        LikeOption::Constraints => "CONSTRAINTS",
                        LikeOption::Defaults => "DEFAULTS",
                        LikeOption::Identity => "IDENTITY",
                        LikeOption::Generated => "GENERATED",
                        LikeOption::Indexes => "INDEXES",
                        LikeOption::Statistics => "STATISTICS",
                        LikeOption::Storage => "STORAGE",
                        LikeOption::All => "ALL",
                    });
                }
            }
        }
    }

    pub(super) fn column_definition(&mut self, column: &ColumnDefinition) {
        self.name(&column.name);
        if let Some(kind) = &column.kind {
            self.type_name(kind);
        }
        if let Some(compression) = &column.compression {
            self.put("COMPRESSION");
            self.name_or_default(compression);
        }
        self.generic_options(&column.options);
        self.collation(column.collation.as_ref());
        for constraint in &column.constraints {
            self.column_constraint(constraint);
        }
    }

    pub(super) fn name_or_default(&mut self, name: &crate::tree::Name) {
        if name.text == "default" {
            self.put("DEFAULT");
        } else {
            self.name(name);
        }
    }

    pub(super) fn column_constraint(&mut self, constraint: &ColumnConstraint) {
        self.named("CONSTRAINT", constraint.name.as_ref());
        match &constraint.kind {
            ColumnConstraintKind::NotNull => self.put("NOT NULL"),
            ColumnConstraintKind::Null => self.put("NULL"),
            ColumnConstraintKind::Unique {
                nulls_not_distinct,
                index,
            } => {
                self.put("UNIQUE");
                self.put_if(*nulls_not_distinct, "NULLS NOT DISTINCT");
                self.index_storage(index);
            }
            ColumnConstraintKind::PrimaryKey(index) => {
                self.put("PRIMARY KEY");
                self.index_storage(index);
            }
            ColumnConstraintKind::Check {
                condition,
                no_inherit,
            } => {
                self.put("CHECK");
                self.brackets(|printer| printer.expr(condition));
                self.put_if(*no_inherit, "NO INHERIT");
            }
            ColumnConstraintKind::Default(value) => {
                self.put("DEFAULT");
                self.operand(value);
            }
            ColumnConstraintKind::Identity { always, options } => {
                self.generated_when(*always);
                self.put("AS IDENTITY");
                if !options.is_empty() {
                    self.brackets(|printer| printer.sequence_options(options));
                }
            }
            ColumnConstraintKind::Generated(value) => {
                self.put("GENERATED ALWAYS AS");
                self.brackets(|printer| printer.expr(value));
                self.put("STORED");
            }
            ColumnConstraintKind::References(references) => self.references(references),
            ColumnConstraintKind::Deferrable(true) => self.put("DEFERRABLE"),
            ColumnConstraintKind::Deferrable(false) => self.put("NOT DEFERRABLE"),
            ColumnConstraintKind::InitiallyDeferred(true) => self.put("INITIALLY DEFERRED"),
            ColumnConstraintKind::InitiallyDeferred(false) => self.put("INITIALLY IMMEDIATE"),
        }
    }

    pub(super) fn generated_when(&mut self, always: bool) {
        self.put(if always {
            "GENERATED ALWAYS"
        } else {
            "GENERATED BY DEFAULT"
        });
    }

    fn index_storage(&mut self, index: &IndexStorage) {
        self.listed("WITH", &index.options);
        self.named("USING INDEX TABLESPACE", index.tablespace.as_ref());
    }

    fn references(&mut self, references: &References) {
        self.put("REFERENCES");
        self.path(&references.table);
        self.names(&references.columns);
        self.put_if(references.full, "MATCH FULL");
        self.key_action("ON UPDATE", &references.on_update);
        self.key_action("ON DELETE", &references.on_delete);
    }

    fn key_action(&mut self, words: &str, action: &KeyAction) {
        let (name, columns) = match action {
            KeyAction::NoAction => return,
            KeyAction::Restrict => ("RESTRICT", &[][..]),
            KeyAction::Cascade => ("CASCADE", &[][..]),
            KeyAction::SetNull(columns) => ("SET NULL", &columns[..]),
            KeyAction::SetDefault(columns) => ("SET DEFAULT", &columns[..]),
        };
        self.put(words);
        self.put(name);
        self.names(columns);
    }

    pub(super) fn table_constraint(&mut self, constraint: &TableConstraint) {
        self.named("CONSTRAINT", constraint.name.as_ref());
        match &constraint.kind {
            TableConstraintKind::Check(condition) => {
                self.put("CHECK");
                self.brackets(|printer| printer.expr(condition));
            }
            TableConstraintKind::Unique {
                nulls_not_distinct,
                key,
            } => {
                self.put("UNIQUE");
                self.put_if(*nulls_not_distinct, "NULLS NOT DISTINCT");
                self.key(key);
            }
            TableConstraintKind::PrimaryKey(key) => {
                self.put("PRIMARY KEY");
                self.key(key);
            }
            TableConstraintKind::UniqueIndex(name) => self.named("UNIQUE USING INDEX", Some(name)),
            TableConstraintKind::PrimaryKeyIndex(name) => {
                self.named("PRIMARY KEY USING INDEX", Some(name))
            }
            TableConstraintKind::Exclude {
                method,
                items,
                include,
                index,
                filter,
            } => {
                self.put("EXCLUDE");
                self.named("USING", method.as_ref());
                self.bracketed(items, |printer, (item, operator)| {
                    printer.index_item(item);
                    printer.put("WITH");
                    printer.operator(operator);
                });
                self.include(include);
                self.index_storage(index);
                if let Some(filter) = filter {
                    self.put("WHERE");
                    self.brackets(|printer| printer.expr(filter));
                }
            }
            TableConstraintKind::ForeignKey {
                columns,
                references,
            } => {
                self.put("FOREIGN KEY");
                self.names(columns);
                self.references(references);
            }
        }
        self.attributes(constraint.attributes);
    }

    fn include(&mut self, columns: &[crate::tree::Name]) {
        if !columns.is_empty() {
            self.put("INCLUDE");
            self.names(columns);
        }
    }

    fn key(&mut self, key: &Key) {
        self.names(&key.columns);
        self.include(&key.include);
        self.index_storage(&key.index);
    }

    pub(super) fn attributes(&mut self, attributes: Attributes) {
        self.put_if(attributes.not_deferrable, "NOT DEFERRABLE");
        self.put_if(attributes.deferrable, "DEFERRABLE");
        self.put_if(attributes.initially_immediate, "INITIALLY IMMEDIATE");
        self.put_if(attributes.initially_deferred, "INITIALLY DEFERRED");
        self.put_if(attributes.not_valid, "NOT VALID");
        self.put_if(attributes.no_inherit, "NO INHERIT");
    }

    pub(super) fn partition_bound(&mut self, bound: &PartitionBound) {
        match bound {
            PartitionBound::Default => self.put("DEFAULT"),
            PartitionBound::Hash { modulus, remainder } => {
                self.put(&format!(
                    "FOR VALUES WITH (modulus {modulus}, remainder {remainder})"
                ));
            }
            PartitionBound::In(values) => {
                self.put("FOR VALUES IN");
                self.bracketed_exprs(values);
            }
            PartitionBound::Range(from, to) => {
                self.put("FOR VALUES FROM");
                self.bracketed_exprs(from);
                self.put("TO");
                self.bracketed_exprs(to);
            }
        }
    }

    pub(super) fn index_key(&mut self, key: &IndexKey) {
        match key {
            IndexKey::Column(name) => self.name(name),
            IndexKey::Expr(expr) => self.brackets(|printer| printer.expr(expr)),
        }
    }

    pub(super) fn index_item(&mut self, item: &IndexItem) {
        self.index_key(&item.key);
        self.collation(item.collation.as_ref());
        if let Some(class) = &item.class {
            self.path(class);
        }
        self.listed("", &item.class_options);
        match item.descending {
            None => {}
            Some(false) => self.put("ASC"),
            Some(true) => self.put("DESC"),
        }
        self.nulls(item.nulls);
    }

    pub(super) fn create_index(&mut self, index: &CreateIndex) {
        self.put("CREATE");
        self.put_if(index.unique, "UNIQUE");
        self.put("INDEX");
        self.put_if(index.concurrently, "CONCURRENTLY");
        self.put_if(index.if_not_exists, "IF NOT EXISTS");
        self.named("", index.name.as_ref());
        self.put("ON");
        self.relation(&index.table);
        self.named("USING", index.method.as_ref());
        self.bracketed(&index.items, Self::index_item);
        if !index.include.is_empty() {
            self.put("INCLUDE");
            self.bracketed(&index.include, Self::index_item);
        }
        self.put_if(index.nulls_not_distinct, "NULLS NOT DISTINCT");
        self.listed("WITH", &index.options);
        self.named("TABLESPACE", index.tablespace.as_ref());
        self.clause("WHERE", index.filter.as_ref());
    }

    pub(super) fn create_table_as(&mut self, table: &CreateTableAs) {
        self.put("CREATE");
        self.persistence(table.persistence);
        self.put(if table.materialized_view {
            "MATERIALIZED VIEW"
        } else {
            "TABLE"
        });
        self.put_if(table.if_not_exists, "IF NOT EXISTS");
        self.path(&table.name);
        self.names(&table.columns);
        self.storage(&table.storage);
        self.put("AS");
        match &table.source {
            TableSource::Query(query) => self.query(query),
            TableSource::Execute(execute) => self.execute(execute),
        }
        self.put_if(!table.with_data, "WITH NO DATA");
    }
}
