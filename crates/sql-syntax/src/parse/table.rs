//! CREATE TABLE, its columns and constraints; CREATE TABLE AS.

use super::Parser;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword as K;
use crate::lexer::token::TokenKind;
use crate::tree::{
    Attributes, ColumnConstraint, ColumnConstraintKind, ColumnDefinition, CreateTable,
    CreateTableAs, GenericOption, IndexStorage, Key, KeyAction, LikeOption, Name, OnCommit,
    PartitionBound, PartitionBy, Path, Persistence, References, StatementKind, Storage,
    TableConstraint, TableConstraintKind, TableElement, TableShape, TableSource,
};

impl Parser<'_> {
    /// Behind TABLE.
    pub(super) fn create_table(
        &mut self,
        persistence: Persistence,
        foreign: bool,
    ) -> Parsed<StatementKind> {
        let if_not_exists = self.if_not_exists();
        let name = self.qualified_name()?;
        let is_as = !foreign && self.is_table_as();
        if is_as {
            return self.create_table_as(persistence, if_not_exists, name, false);
        }
        let shape = self.table_shape()?;
        let inherits = if matches!(shape, TableShape::Columns(_)) && self.eat(K::Inherits) {
            self.bracketed_list(Self::qualified_name)?
        } else {
            Vec::new()
        };
        let mut table = CreateTable {
            persistence,
            if_not_exists,
            name,
            shape,
            inherits,
            partition_by: None,
            storage: Storage::default(),
            foreign: None,
        };
        if foreign {
            self.expect(K::Server)?;
            let server = self.column_name()?;
            table.foreign = Some((server, self.generic_options()?));
        } else {
            if self.is(K::Partition) {
                table.partition_by = Some(self.partition_by()?);
            }
            table.storage = self.storage()?;
        }
        Ok(StatementKind::CreateTable(Box::new(table)))
    }

    /// Whether a table's name is followed by what CREATE TABLE AS has and CREATE TABLE has not.
    fn is_table_as(&self) -> bool {
        if self.kind() != TokenKind::Open {
            return self.any(&[K::As, K::Using, K::With, K::Without, K::On, K::Tablespace]);
        }
        let mut ahead = 1;
        loop {
            if !self.is_column_name(ahead) {
                return false;
            }
            match self.peek(ahead + 1).kind {
                TokenKind::Comma => ahead += 2,
                TokenKind::Close => return true,
                _ => return false,
            }
        }
    }

    fn table_shape(&mut self) -> Parsed<TableShape> {
        if self.eat(K::Of) {
            let kind = self.any_name()?;
            return Ok(TableShape::OfType(kind, self.typed_elements()?));
        }
        if self.eat_all(&[K::Partition, K::Of]) {
            let parent = self.qualified_name()?;
            let elements = self.typed_elements()?;
            return Ok(TableShape::PartitionOf(
                parent,
                elements,
                self.partition_bound()?,
            ));
        }
        let elements = self.in_brackets(|parser| {
            if parser.kind() == TokenKind::Close {
                return Ok(Vec::new());
            }
            parser.list(Self::table_element)
        })?;
        Ok(TableShape::Columns(elements))
    }

    fn table_element(&mut self) -> Parsed<TableElement> {
        if self.eat(K::Like) {
            return self.like_clause();
        }
        if self.is_table_constraint() {
            return Ok(TableElement::Constraint(self.table_constraint()?));
        }
        Ok(TableElement::Column(self.column_definition()?))
    }

    /// Elements of a table whose columns have their types from elsewhere.
    fn typed_elements(&mut self) -> Parsed<Vec<TableElement>> {
        if self.kind() != TokenKind::Open {
            return Ok(Vec::new());
        }
        self.bracketed_list(|parser| {
            if parser.is_table_constraint() {
                return Ok(TableElement::Constraint(parser.table_constraint()?));
            }
            let name = parser.column_name()?;
            parser.eat_all(&[K::With, K::Options]);
            let (collation, constraints) = parser.column_constraints()?;
            Ok(TableElement::Column(ColumnDefinition {
                name,
                kind: None,
                compression: None,
                options: Vec::new(),
                collation,
                constraints,
            }))
        })
    }

    fn like_clause(&mut self) -> Parsed<TableElement> {
        let table = self.qualified_name()?;
        let mut options = Vec::new();
        loop {
            let including = self.is(K::Including);
            if !including && !self.is(K::Excluding) {
                return Ok(TableElement::Like(table, options));
            }
            self.bump();
            let option = match self.keyword() {
                K::Comments => LikeOption::Comments,
                K::Compression => LikeOption::Compression,
                K::Constraints => LikeOption::Constraints,
                K::Defaults => LikeOption::Defaults,
                K::Identity => LikeOption::Identity,
                K::Generated => LikeOption::Generated,
                K::Indexes => LikeOption::Indexes,
                K::Statistics => LikeOption::Statistics,
                K::Storage => LikeOption::Storage,
                K::All => LikeOption::All,
                _ => return Err(self.error()),
            };
            self.bump();
            options.push((option, including));
        }
    }

    /// `columnDef`
    pub(super) fn column_definition(&mut self) -> Parsed<ColumnDefinition> {
        let name = self.column_name()?;
        let kind = Some(self.type_name()?);
        let compression = if self.eat(K::Compression) {
            Some(self.column_name_or_default()?)
        } else {
            None
        };
        let options = self.generic_options()?;
        let (collation, constraints) = self.column_constraints()?;
        Ok(ColumnDefinition {
            name,
            kind,
            compression,
            options,
            collation,
            constraints,
        })
    }

    pub(super) fn column_name_or_default(&mut self) -> Parsed<Name> {
        if self.is(K::Default) {
            self.label()
        } else {
            self.column_name()
        }
    }

    /// `create_generic_options`
    pub(super) fn generic_options(&mut self) -> Parsed<Vec<GenericOption>> {
        if !self.eat(K::Options) {
            return Ok(Vec::new());
        }
        self.bracketed_list(Self::generic_option)
    }

    pub(super) fn generic_option(&mut self) -> Parsed<GenericOption> {
        Ok(GenericOption {
            name: self.label()?,
            value: self.string()?,
        })
    }

    /// `ColQualList`
    pub(super) fn column_constraints(&mut self) -> Parsed<(Option<Path>, Vec<ColumnConstraint>)> {
        let mut collation = None;
        let mut constraints = Vec::new();
        loop {
            let at = self.pos();
            if let Some(name) = self.optional_collation()? {
                if collation.replace(name).is_some() {
                    let message = "multiple COLLATE clauses not allowed";
                    return Err(SyntaxError::new(Fault::Syntax, message, at));
                }
                continue;
            }
            let name = if self.eat(K::Constraint) {
                Some(self.column_name()?)
            } else {
                None
            };
            let Some(kind) = self.column_constraint(name.is_some())? else {
                if name.is_some() {
                    return Err(self.error());
                }
                return Ok((collation, constraints));
            };
            constraints.push(ColumnConstraint { at, name, kind });
        }
    }

    fn column_constraint(&mut self, named: bool) -> Parsed<Option<ColumnConstraintKind>> {
        let kind = match self.keyword() {
            K::Not if !named && self.is_at(1, K::Deferrable) => {
                self.bump();
                self.bump();
                ColumnConstraintKind::Deferrable(false)
            }
            K::Not => {
                self.bump();
                self.expect(K::Null)?;
                ColumnConstraintKind::NotNull
            }
            K::Null => {
                self.bump();
                ColumnConstraintKind::Null
            }
            K::Unique => {
                self.bump();
                ColumnConstraintKind::Unique {
                    nulls_not_distinct: self.nulls_not_distinct()?,
                    index: self.index_storage()?,
                }
            }
            K::Primary => {
                self.bump();
                self.expect(K::Key)?;
                ColumnConstraintKind::PrimaryKey(self.index_storage()?)
            }
            K::Check => {
                self.bump();
                let condition = self.in_brackets(Self::expr)?;
                ColumnConstraintKind::Check {
                    condition,
                    no_inherit: self.eat_all(&[K::No, K::Inherit]),
                }
            }
            K::Default => {
                self.bump();
                ColumnConstraintKind::Default(self.restricted_expr()?)
            }
            K::Generated => self.generated()?,
            K::References => {
                self.bump();
                ColumnConstraintKind::References(self.references()?)
            }
            K::Deferrable if !named => {
                self.bump();
                ColumnConstraintKind::Deferrable(true)
            }
            K::Initially if !named => {
                self.bump();
                ColumnConstraintKind::InitiallyDeferred(self.deferred()?)
            }
            _ => return Ok(None),
        };
        Ok(Some(kind))
    }

    /// DEFERRED, or else IMMEDIATE.
    pub(super) fn deferred(&mut self) -> Parsed<bool> {
        let deferred = self.eat(K::Deferred);
        if !deferred {
            self.expect(K::Immediate)?;
        }
        Ok(deferred)
    }

    /// ALWAYS, or else BY DEFAULT.
    pub(super) fn generated_when(&mut self) -> Parsed<bool> {
        let always = self.eat(K::Always);
        if !always {
            self.expect_all(&[K::By, K::Default])?;
        }
        Ok(always)
    }

    fn generated(&mut self) -> Parsed<ColumnConstraintKind> {
        self.bump();
        let at = self.pos();
        let always = self.generated_when()?;
        self.expect(K::As)?;
        if self.eat(K::Identity) {
            return Ok(ColumnConstraintKind::Identity {
                always,
                options: self.bracketed_sequence_options()?,
            });
        }
        let value = self.in_brackets(Self::expr)?;
        self.expect(K::Stored)?;
        if !always {
            let message = "for a generated column, GENERATED ALWAYS must be specified";
            return Err(SyntaxError::new(Fault::Syntax, message, at));
        }
        Ok(ColumnConstraintKind::Generated(value))
    }

    pub(super) fn nulls_not_distinct(&mut self) -> Parsed<bool> {
        if !self.is(K::Nulls) {
            return Ok(false);
        }
        self.bump();
        let not = self.eat(K::Not);
        self.expect(K::Distinct)?;
        Ok(not)
    }

    fn index_storage(&mut self) -> Parsed<IndexStorage> {
        let options = if self.is(K::With) && self.is_kind_at(1, TokenKind::Open) {
            self.bump();
            self.definition()?
        } else {
            Vec::new()
        };
        let tablespace = if self.eat_all(&[K::Using, K::Index, K::Tablespace]) {
            Some(self.column_name()?)
        } else {
            None
        };
        Ok(IndexStorage {
            options,
            tablespace,
        })
    }

    /// What stands behind REFERENCES.
    fn references(&mut self) -> Parsed<References> {
        let table = self.qualified_name()?;
        let columns = self.optional_column_names()?;
        let mut full = false;
        if self.eat(K::Match) {
            let at = self.pos();
            if self.eat(K::Partial) {
                let message = "MATCH PARTIAL not yet implemented";
                return Err(SyntaxError::new(Fault::NotSupported, message, at));
            }
            full = self.eat(K::Full);
            if !full {
                self.expect(K::Simple)?;
            }
        }
        let mut references = References {
            table,
            columns,
            full,
            on_update: KeyAction::NoAction,
            on_delete: KeyAction::NoAction,
        };
        let (mut updates, mut deletes) = (false, false);
        while self.is(K::On) {
            if self.is_at(1, K::Update) && !updates {
                updates = true;
                references.on_update = self.key_action()?;
            } else if self.is_at(1, K::Delete) && !deletes {
                deletes = true;
                references.on_delete = self.key_action()?;
            } else {
                self.bump();
                return Err(self.error());
            }
        }
        Ok(references)
    }

    fn key_action(&mut self) -> Parsed<KeyAction> {
        let at = self.pos();
        self.bump();
        let is_update = self.is(K::Update);
        self.bump();
        let action = match self.keyword() {
            K::No => {
                self.bump();
                self.expect(K::Action)?;
                KeyAction::NoAction
            }
            K::Restrict => {
                self.bump();
                KeyAction::Restrict
            }
            K::Cascade => {
                self.bump();
                KeyAction::Cascade
            }
            _ => {
                self.expect(K::Set)?;
                let null = self.eat(K::Null);
                if !null {
                    self.expect(K::Default)?;
                }
                let columns = self.optional_column_names()?;
                if is_update && !columns.is_empty() {
                    let action = if null { "SET NULL" } else { "SET DEFAULT" };
                    let message = format!(
                        "a column list with {action} is only supported for ON DELETE actions"
                    );
                    return Err(SyntaxError::new(Fault::NotSupported, message, at));
                }
                if null {
                    KeyAction::SetNull(columns)
                } else {
                    KeyAction::SetDefault(columns)
                }
            }
        };
        Ok(action)
    }

    fn is_table_constraint(&self) -> bool {
        self.any(&[K::Constraint, K::Check, K::Unique, K::Primary, K::Foreign])
            || self.is(K::Exclude)
                && (self.is_at(1, K::Using) || self.is_kind_at(1, TokenKind::Open))
    }

    /// `TableConstraint`
    pub(super) fn table_constraint(&mut self) -> Parsed<TableConstraint> {
        let at = self.pos();
        let name = if self.eat(K::Constraint) {
            Some(self.column_name()?)
        } else {
            None
        };
        let word = self.keyword();
        let kind = match word {
            K::Check => {
                self.bump();
                TableConstraintKind::Check(self.in_brackets(Self::expr)?)
            }
            K::Unique => {
                self.bump();
                let nulls_not_distinct = self.nulls_not_distinct()?;
                if !nulls_not_distinct && self.eat_all(&[K::Using, K::Index]) {
                    TableConstraintKind::UniqueIndex(self.column_name()?)
                } else {
                    TableConstraintKind::Unique {
                        nulls_not_distinct,
                        key: self.key()?,
                    }
                }
            }
            K::Primary => {
                self.bump();
                self.expect(K::Key)?;
                if self.eat_all(&[K::Using, K::Index]) {
                    TableConstraintKind::PrimaryKeyIndex(self.column_name()?)
                } else {
                    TableConstraintKind::PrimaryKey(self.key()?)
                }
            }
            K::Exclude => self.exclude()?,
            K::Foreign => {
                self.bump();
                self.expect(K::Key)?;
                let columns = self.column_names()?;
                self.expect(K::References)?;
                TableConstraintKind::ForeignKey {
                    columns,
                    references: self.references()?,
                }
            }
            _ => return Err(self.error()),
        };
        let start = self.pos();
        let attributes = self.attributes()?;
        check_attributes(&kind, attributes, start)?;
        Ok(TableConstraint {
            at,
            name,
            kind,
            attributes,
        })
    }

    fn key(&mut self) -> Parsed<Key> {
        Ok(Key {
            columns: self.column_names()?,
            include: self.include_names()?,
            index: self.index_storage()?,
        })
    }

    fn include_names(&mut self) -> Parsed<Vec<Name>> {
        if self.eat(K::Include) {
            self.column_names()
        } else {
            Ok(Vec::new())
        }
    }

    fn exclude(&mut self) -> Parsed<TableConstraintKind> {
        self.bump();
        let method = if self.eat(K::Using) {
            Some(self.column_name()?)
        } else {
            None
        };
        let items = self.bracketed_list(|parser| {
            let item = parser.index_item()?;
            parser.expect(K::With)?;
            let operator = if parser.eat(K::Operator) {
                parser.in_brackets(Self::any_operator)?
            } else {
                parser.any_operator()?
            };
            Ok((item, operator))
        })?;
        Ok(TableConstraintKind::Exclude {
            method,
            items,
            include: self.include_names()?,
            index: self.index_storage()?,
            filter: if self.eat(K::Where) {
                Some(self.in_brackets(Self::expr)?)
            } else {
                None
            },
        })
    }

    /// `ConstraintAttributeSpec`
    pub(super) fn attributes(&mut self) -> Parsed<Attributes> {
        let mut found = Attributes::default();
        loop {
            let at = self.pos();
            if self.eat_all(&[K::Not, K::Deferrable]) {
                found.not_deferrable = true;
            } else if self.eat(K::Deferrable) {
                found.deferrable = true;
            } else if self.eat(K::Initially) {
                if self.deferred()? {
                    found.initially_deferred = true;
                } else {
                    found.initially_immediate = true;
                }
            } else if self.eat_all(&[K::Not, K::Valid]) {
                found.not_valid = true;
            } else if self.eat_all(&[K::No, K::Inherit]) {
                found.no_inherit = true;
            } else {
                return Ok(found);
            }
            if found.not_deferrable && found.initially_deferred {
                let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
                return Err(SyntaxError::new(Fault::Syntax, message, at));
            }
            let deferrable = found.deferrable && found.not_deferrable;
            if deferrable || found.initially_deferred && found.initially_immediate {
                return Err(SyntaxError::new(
                    Fault::Syntax,
                    "conflicting constraint properties",
                    at,
                ));
            }
        }
    }

    /// `PartitionSpec`
    fn partition_by(&mut self) -> Parsed<PartitionBy> {
        self.expect_all(&[K::Partition, K::By])?;
        let strategy = self.column_name()?;
        let items = self.bracketed_list(|parser| {
            let key = parser.index_key()?;
            parser.partition_item(key)
        })?;
        Ok(PartitionBy { strategy, items })
    }

    /// `PartitionBoundSpec`
    pub(super) fn partition_bound(&mut self) -> Parsed<PartitionBound> {
        if self.eat(K::Default) {
            return Ok(PartitionBound::Default);
        }
        self.expect_all(&[K::For, K::Values])?;
        if self.eat(K::In) {
            return Ok(PartitionBound::In(self.bracketed_list(Self::expr)?));
        }
        if self.eat(K::From) {
            let from = self.bracketed_list(Self::expr)?;
            self.expect(K::To)?;
            return Ok(PartitionBound::Range(
                from,
                self.bracketed_list(Self::expr)?,
            ));
        }
        self.expect(K::With)?;
        self.hash_bound()
    }

    fn hash_bound(&mut self) -> Parsed<PartitionBound> {
        let at = self.pos();
        let refuse = |message: String, at| Err(SyntaxError::new(Fault::Syntax, message, at));
        let parts =
            self.bracketed_list(|parser| Ok((parser.non_reserved()?, parser.integer()?)))?;
        let (mut modulus, mut remainder) = (None, None);
        for (name, value) in parts {
            let part = match name.text.as_str() {
                "modulus" => &mut modulus,
                "remainder" => &mut remainder,
                other => {
                    let message =
                        format!("unrecognized hash partition bound specification \"{other}\"");
                    return refuse(message, name.at);
                }
            };
            if part.replace(value).is_some() {
                let message = format!("{} for hash partition provided more than once", name.text);
                return refuse(message, name.at);
            }
        }
        match (modulus, remainder) {
            (Some(modulus), Some(remainder)) => Ok(PartitionBound::Hash { modulus, remainder }),
            (None, _) => refuse("modulus for hash partition must be specified".into(), at),
            (_, None) => refuse("remainder for hash partition must be specified".into(), at),
        }
    }

    /// USING, WITH, ON COMMIT and TABLESPACE, in this order.
    fn storage(&mut self) -> Parsed<Storage> {
        let access_method = if self.eat(K::Using) {
            Some(self.column_name()?)
        } else {
            None
        };
        let mut storage = Storage {
            access_method,
            ..Storage::default()
        };
        if self.eat(K::With) {
            storage.options = self.listed_options()?;
        } else if self.eat_all(&[K::Without, K::Oids]) {
            // Tables have had no OIDs since PostgreSQL 12.
        }
        if self.is(K::On) {
            self.bump();
            self.expect(K::Commit)?;
            storage.on_commit = Some(if self.eat(K::Drop) {
                OnCommit::Drop
            } else if self.eat(K::Delete) {
                self.expect(K::Rows)?;
                OnCommit::DeleteRows
            } else {
                self.expect_all(&[K::Preserve, K::Rows])?;
                OnCommit::PreserveRows
            });
        }
        if self.eat(K::Tablespace) {
            storage.tablespace = Some(self.column_name()?);
        }
        Ok(storage)
    }

    /// Behind the name of the table.
    pub(super) fn create_table_as(
        &mut self,
        persistence: Persistence,
        if_not_exists: bool,
        name: Path,
        materialized_view: bool,
    ) -> Parsed<StatementKind> {
        let columns = self.optional_column_names()?;
        let storage = self.storage()?;
        self.expect(K::As)?;
        let source = if self.is(K::Execute) && !materialized_view {
            TableSource::Execute(self.execute()?)
        } else {
            TableSource::Query(Box::new(self.query()?))
        };
        Ok(StatementKind::CreateTableAs(Box::new(CreateTableAs {
            materialized_view,
            persistence,
            if_not_exists,
            name,
            columns,
            storage,
            source,
            with_data: self.with_data()?,
        })))
    }

    /// `opt_with_data`
    pub(super) fn with_data(&mut self) -> Parsed<bool> {
        if !self.eat(K::With) {
            return Ok(true);
        }
        let no = self.eat(K::No);
        self.expect(K::Data)?;
        Ok(!no)
    }

    /// Behind MATERIALIZED VIEW.
    pub(super) fn create_materialized_view(
        &mut self,
        persistence: Persistence,
    ) -> Parsed<StatementKind> {
        let if_not_exists = self.if_not_exists();
        let name = self.qualified_name()?;
        self.create_table_as(persistence, if_not_exists, name, true)
    }
}

/// Refuses attributes that a kind of constraint cannot have.
fn check_attributes(kind: &TableConstraintKind, found: Attributes, at: u32) -> Parsed<()> {
    let (name, deferrable, not_valid, no_inherit) = match kind {
        TableConstraintKind::Check(_) => ("CHECK", false, true, true),
        TableConstraintKind::Unique { .. } | TableConstraintKind::UniqueIndex(_) => {
            ("UNIQUE", true, false, false)
        }
        TableConstraintKind::PrimaryKey(_) | TableConstraintKind::PrimaryKeyIndex(_) => {
            ("PRIMARY KEY", true, false, false)
        }
        TableConstraintKind::Exclude { .. } => ("EXCLUDE", true, false, false),
        TableConstraintKind::ForeignKey { .. } => ("FOREIGN KEY", true, true, false),
    };
    let refused = if !deferrable && (found.deferrable || found.initially_deferred) {
        "DEFERRABLE"
    } else if !not_valid && found.not_valid {
        "NOT VALID"
    } else if !no_inherit && found.no_inherit {
        "NO INHERIT"
    } else {
        return Ok(());
    };
    let message = format!("{name} constraints cannot be marked {refused}");
    Err(SyntaxError::new(Fault::NotSupported, message, at))
}
