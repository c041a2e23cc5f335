//! DDL of sequences: CREATE, ALTER and DROP SEQUENCE, and the sequences of columns.
//!
//! A change of how a sequence counts, or of where it is, gives it a new state: see
//! [`crate::sequence`].

use std::sync::Arc;

use coeval_sql_syntax::tree::{self, Path, Persistence};
use coeval_txn::{Isolation, TableLock};

use super::Change;
use super::sequence_options::Options;
use crate::access::{Owned, Privileges, not_owner};
use crate::catalog::{Content, Object, Relation, Sequence, fold};
use crate::error::{Error, Result, SqlState};
use crate::sequence::{self, Progress, Settled, State};
use crate::value::DataType;

/// A column that a sequence belongs to: the table's OID, and the attribute number.
pub(super) type Column = (u32, i16);

impl Change<'_> {
    /// Executes CREATE SEQUENCE.
    pub(super) async fn create_sequence(
        &mut self,
        create: &tree::CreateSequence,
    ) -> Result<&'static str> {
        match create.persistence {
            Persistence::Permanent => {}
            Persistence::Temporary => {
                return Err(Error::unsupported("CREATE TEMPORARY SEQUENCE"));
            }
            Persistence::Unlogged => return Err(Error::unsupported("CREATE UNLOGGED SEQUENCE")),
        }
        let name = self.name(&create.name)?;
        self.require_schema(Privileges::USAGE.with(Privileges::CREATE))?;
        if !self.check_free(&name.name, create.if_not_exists)? {
            return Ok("CREATE SEQUENCE");
        }
        let options = Options::read(&create.options, false)?;
        let settled = options.create(DataType::Int8)?;
        let owner = self.session.role;
        let owned_by = match options.owned_by {
            Some(path) => self.owning_column(path, owner)?,
            None => None,
        };
        self.make_sequence(name.name, settled, owner, (owned_by, false))
            .await?;
        Ok("CREATE SEQUENCE")
    }

    /// Makes a sequence under a name that is free. Returns its OID.
    pub(super) async fn make_sequence(
        &mut self,
        name: String,
        settled: Settled,
        owner: u32,
        (owned_by, is_identity): (Option<Column>, bool),
    ) -> Result<u32> {
        self.require_objects("a sequence")?;
        // It would outlive its table, which goes with the session.
        let of_table = owned_by.and_then(|(table, _)| self.catalog.table_by_oid(table));
        if of_table.is_some_and(|table| table.is_temporary()) {
            return Err(Error::unsupported("a sequence of a temporary table"));
        }
        let counters = &self.context.store.counters;
        let sequence = Sequence {
            data_type: settled.data_type,
            counting: settled.counting,
            state: counters.version(),
            origin: settled.progress,
            storage: counters.storage(),
            schema_version: self.version,
            owned_by,
            is_identity,
        };
        let oid = counters.oid();
        self.context.engine.attach_storage(sequence.definition())?;
        self.context.storages.note_made(sequence.storage);
        let object = Object {
            oid,
            name,
            owned: Owned::by(owner),
            content: Content::Sequence(sequence),
        };
        self.write_object(object).await?;
        Ok(oid)
    }

    /// The column that OWNED BY names; none for NONE. The table must be the sequence's owner's.
    fn owning_column(&self, path: &Path, owner: u32) -> Result<Option<Column>> {
        let (column, table) = match path.0.as_slice() {
            [none] if none.text == "none" => return Ok(None),
            [] | [_] => {
                return Err(Error::syntax("invalid OWNED BY option")
                    .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
            }
            [table @ .., column] => (column, Path(table.to_vec())),
        };
        let name = self.name(&table)?;
        let unowned = match self.catalog.named(&name) {
            Some(Relation::Index(..)) => Some("indexes"),
            Some(Relation::Object(object)) => match object.content {
                Content::Sequence(_) => Some("sequences"),
                Content::View(_) => Some("views"),
            },
            _ => None,
        };
        if let Some(kind) = unowned {
            return Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("sequence cannot be owned by relation \"{}\"", name.name),
            )
            .with_detail(format!("This operation is not supported for {kind}.")));
        }
        let table = self.table(&table)?;
        if table.is_temporary() {
            return Err(Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "sequence must be in same schema as table it is linked to",
            ));
        }
        if table.owned.owner != owner {
            return Err(Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "sequence must have same owner as table it is linked to",
            ));
        }
        let column = fold(column);
        let found = table.columns.iter().find(|each| each.name == column);
        match found {
            Some(found) => Ok(Some((table.oid, found.attribute))),
            None => Err(Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!(
                    "column \"{column}\" of relation \"{}\" does not exist",
                    table.name
                ),
            )),
        }
    }

    /// The sequence of this name, of which the role is the owner; with IF EXISTS, a notice and
    /// none if there is no relation of this name.
    pub(super) fn owned_sequence(
        &mut self,
        path: &Path,
        if_exists: bool,
        what: &str,
    ) -> Result<Option<Arc<Object>>> {
        let name = self.name(path)?;
        let object = match self.catalog.named(&name) {
            None => {
                let message = format!("{what} \"{}\" does not exist", name.name);
                if !if_exists {
                    let error = Error::new(SqlState::UNDEFINED_TABLE, message);
                    return Err(error);
                }
                let message = format!("{message}, skipping");
                self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                return Ok(None);
            }
            Some(Relation::Object(object)) if matches!(object.content, Content::Sequence(_)) => {
                object
            }
            Some(other) => {
                let error = Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("\"{}\" is not a sequence", name.name),
                );
                return Err(match (what, other) {
                    ("sequence", Relation::Table(_)) => {
                        error.with_hint("Use DROP TABLE to remove a table.")
                    }
                    ("sequence", Relation::Index(..)) => {
                        error.with_hint("Use DROP INDEX to remove an index.")
                    }
                    ("sequence", Relation::Object(_)) => {
                        error.with_hint("Use DROP VIEW to remove a view.")
                    }
                    _ => error,
                });
            }
        };
        let access = self.catalog.access();
        if !access.has_privileges_of(self.session.role, object.owned.owner) {
            return Err(not_owner("sequence", &object.name));
        }
        Ok(Some(object))
    }

    /// Executes ALTER SEQUENCE with options.
    pub(super) async fn alter_sequence(
        &mut self,
        alter: &tree::AlterSequence,
    ) -> Result<&'static str> {
        let found = self.owned_sequence(&alter.name, alter.if_exists, "relation")?;
        if let Some(object) = found {
            let options = Options::read(&alter.options, false)?;
            self.change_sequence(&object, &options).await?;
        }
        Ok("ALTER SEQUENCE")
    }

    /// Changes a sequence as these options say.
    pub(super) async fn change_sequence(
        &mut self,
        object: &Object,
        options: &Options<'_>,
    ) -> Result<()> {
        let sequence = sequence_of(object)?;
        self.lock_sequence(&sequence, TableLock::ShareRowExclusive)
            .await?;
        let mut new = sequence;
        if options.change() {
            let mut old = sequence.settled();
            old.progress = self.progress(object, &sequence)?;
            let settled = options.alter(&old)?;
            new.data_type = settled.data_type;
            new.counting = settled.counting;
            self.renew_state(&mut new, settled.progress).await?;
        }
        if let Some(path) = options.owned_by {
            if let Some((table, _)) = sequence.owned_by
                && sequence.is_identity
            {
                let table = self.catalog.table_by_oid(table);
                let table = table.map_or("", |table| table.name.as_str());
                return Err(Error::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "cannot change ownership of identity sequence",
                )
                .with_detail(format!(
                    "Sequence \"{}\" is linked to table \"{table}\".",
                    object.name
                )));
            }
            new.owned_by = self.owning_column(path, object.owned.owner)?;
        }
        self.replace_sequence(object.clone(), new).await
    }

    /// Where a sequence is that this change has locked.
    fn progress(&self, object: &Object, sequence: &Sequence) -> Result<Progress> {
        let state = State {
            number: sequence.state,
            origin: sequence.origin,
            counting: sequence.counting,
            name: &object.name,
        };
        let sequences = &self.session.around.sequences;
        let (progress, _) = sequences.look(&state, self.context.engine)?;
        Ok(progress)
    }

    /// Gives a sequence a new state, and gives the old one up.
    async fn renew_state(&mut self, sequence: &mut Sequence, progress: Progress) -> Result<()> {
        self.give_up_state(sequence.state).await?;
        sequence.state = self.context.store.counters.version();
        sequence.origin = progress;
        Ok(())
    }

    async fn give_up_state(&mut self, state: u64) -> Result<()> {
        let engine = self.context.engine;
        sequence::delete(engine, &mut *self.context.transaction, state).await?;
        let around = &self.session.around;
        self.context.storages.note_state(around, state);
        Ok(())
    }

    /// Locks a sequence as [`Change::lock`] locks a table.
    async fn lock_sequence(&mut self, sequence: &Sequence, mode: TableLock) -> Result<()> {
        coeval_txn::lock_table(
            &mut *self.context.transaction,
            sequence.storage,
            mode,
            sequence.schema_version,
        )
        .await?;
        if self.context.transaction.isolation() == Isolation::ReadCommitted {
            self.context.transaction.begin_statement()?;
        }
        Ok(())
    }

    /// Writes an object that is locked, with this sequence in it.
    async fn replace_sequence(&mut self, object: Object, mut sequence: Sequence) -> Result<()> {
        sequence.schema_version = self.version;
        self.outdate(sequence.storage)?;
        let content = Content::Sequence(sequence);
        self.write_object(Object { content, ..object }).await?;
        Ok(())
    }

    /// Executes ALTER SEQUENCE … RENAME TO.
    pub(super) async fn rename_sequence(
        &mut self,
        path: &Path,
        if_exists: bool,
        name: &tree::Name,
    ) -> Result<&'static str> {
        if let Some(object) = self.owned_sequence(path, if_exists, "relation")? {
            let name = fold(name);
            self.require_schema(Privileges::CREATE)?;
            self.check_free(&name, false)?;
            self.update_sequence(&object, |object| object.name = name)
                .await?;
        }
        Ok("ALTER SEQUENCE")
    }

    /// Changes what is beside the sequence in its object: its name, its owner, its grants.
    pub(super) async fn update_sequence(
        &mut self,
        object: &Object,
        change: impl FnOnce(&mut Object),
    ) -> Result<()> {
        let sequence = sequence_of(object)?;
        self.lock_sequence(&sequence, TableLock::ShareRowExclusive)
            .await?;
        let mut object = object.clone();
        change(&mut object);
        self.replace_sequence(object, sequence).await
    }

    /// Sets the sequences of a table's columns back to their start: TRUNCATE … RESTART
    /// IDENTITY.
    pub(super) async fn restart_sequences(&mut self, table: u32) -> Result<()> {
        for object in self.sequences_of_table(table) {
            let access = self.catalog.access();
            if !access.has_privileges_of(self.session.role, object.owned.owner) {
                return Err(not_owner("sequence", &object.name));
            }
            let sequence = sequence_of(&object)?;
            self.lock_sequence(&sequence, TableLock::AccessExclusive)
                .await?;
            let mut new = sequence;
            let begin = new.counting.begin();
            self.renew_state(&mut new, begin).await?;
            self.replace_sequence(Object::clone(&object), new).await?;
        }
        Ok(())
    }

    /// The sequences that belong to columns of a table.
    pub(super) fn sequences_of_table(&self, table: u32) -> Vec<Arc<Object>> {
        let all = self.catalog.sequences();
        let own =
            all.filter(|(_, sequence)| sequence.owned_by.is_some_and(|(owner, _)| owner == table));
        own.map(|(object, _)| Arc::clone(object)).collect()
    }

    /// Executes DROP SEQUENCE.
    pub(super) async fn drop_sequences(
        &mut self,
        names: &[Path],
        if_exists: bool,
        cascade: bool,
    ) -> Result<&'static str> {
        for name in names {
            let Some(object) = self.owned_sequence(name, if_exists, "sequence")? else {
                continue;
            };
            let sequence = sequence_of(&object)?;
            if let Some((table, attribute)) = sequence.owned_by
                && sequence.is_identity
            {
                let table = self.catalog.table_by_oid(table).cloned();
                let table = table.ok_or_else(|| Error::internal("a column without its table"))?;
                let column = table.columns.iter();
                let column = column
                    .filter(|column| column.attribute == attribute)
                    .map(|column| column.name.as_str())
                    .next()
                    .unwrap_or_default();
                let column = format!("column {column} of table {}", table.name);
                return Err(Error::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop sequence {} because {column} requires it",
                        object.name
                    ),
                )
                .with_hint(format!("You can drop {column} instead.")));
            }
            let what = format!("sequence {}", object.name);
            self.drop_defaults_of(&[object.oid], None, &what, cascade)
                .await?;
            self.remove_sequence(&object).await?;
        }
        Ok("DROP SEQUENCE")
    }

    /// Drops a sequence on which nothing depends.
    pub(super) async fn remove_sequence(&mut self, object: &Object) -> Result<()> {
        let sequence = sequence_of(object)?;
        self.lock_sequence(&sequence, TableLock::AccessExclusive)
            .await?;
        self.outdate(sequence.storage)?;
        self.give_up_state(sequence.state).await?;
        self.context
            .store
            .delete_described(&mut *self.context.transaction, object.oid)
            .await?;
        self.context.storages.note_replaced(sequence.storage);
        self.keep_object(None, object.oid);
        Ok(())
    }
}

/// The sequence that an object is.
pub(super) fn sequence_of(object: &Object) -> Result<Sequence> {
    match object.content {
        Content::Sequence(sequence) => Ok(sequence),
        Content::View(_) => Err(Error::internal("an object that is no sequence")),
    }
}
