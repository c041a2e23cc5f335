//! Execution of COPY FROM STDIN: parses data as they arrive and inserts rows.

use std::sync::Arc;

use coeval_txn::Insert;
use coeval_types::RowRef;

use super::fields::Fields;
use super::lines::{Lines, Record};
use super::{CopyInPlan, CopyPlan};
use crate::catalog::Catalog;
use crate::change::{RowWriter, unique_violation};
use crate::error::{Error, Result, SqlState};
use crate::expression::{EvaluationContext, ROW};
use crate::value::{Encoding, Value};

/// Maximum number of characters of a line in an error message.
const SHOWN: usize = 100;

/// Length of data in bytes of which a line may be long, so that other tasks are handed
/// over before it is parsed.
const PARSED_AT_ONCE: usize = 256 << 10;

/// Number of rows between two checks whether to yield to other tasks.
const ROWS_BETWEEN_YIELDS: u64 = 256;

/// State of a COPY FROM STDIN that waits for data from the client.
#[derive(Debug)]
pub(crate) struct CopyIn {
    plan: Arc<CopyPlan>,
    /// Catalog that the defaults were bound with.
    pub(crate) catalog: Arc<Catalog>,
    lines: Lines,
    fields: Fields,
    writer: RowWriter,
    values: Vec<Value>,
    row: Vec<u8>,
    /// Whether the next record is the first.
    first: bool,
    /// Number of the line being parsed, from 1.
    line: u64,
    /// Whether the end-of-data marker `\.` has been read.
    ended: bool,
    /// Number of rows inserted.
    pub(crate) count: u64,
}

/// Result of parsing a line.
enum Taken {
    Row,
    Nothing,
    Incomplete,
}

impl CopyIn {
    /// Starts a COPY that waits for data; `None` if the plan is COPY TO.
    pub(crate) fn new(plan: &Arc<CopyPlan>, catalog: &Arc<Catalog>) -> Option<Self> {
        let CopyPlan::In(into) = &**plan else {
            return None;
        };
        Some(Self {
            lines: Lines::new(&into.format),
            fields: Fields::default(),
            writer: RowWriter::new(&into.table),
            values: Vec::new(),
            row: Vec::new(),
            first: true,
            line: 0,
            ended: false,
            count: 0,
            plan: Arc::clone(plan),
            catalog: Arc::clone(catalog),
        })
    }

    fn into_plan(plan: &CopyPlan) -> Result<&CopyInPlan> {
        match plan {
            CopyPlan::In(plan) => Ok(plan),
            CopyPlan::Out(_) => Err(Error::internal("data for a COPY TO")),
        }
    }

    /// Number of columns in a line.
    pub(crate) fn columns(&self) -> usize {
        match &*self.plan {
            CopyPlan::In(plan) => plan.columns.len(),
            CopyPlan::Out(_) => 0,
        }
    }

    /// Encoding of the data; `None` for the client's.
    pub(crate) fn encoding(&self) -> Option<Encoding> {
        match &*self.plan {
            CopyPlan::In(plan) => plan.format.encoding,
            CopyPlan::Out(_) => None,
        }
    }

    /// Takes data from the client and inserts all complete rows. `last` means that no
    /// more data will arrive.
    pub(crate) async fn take(
        &mut self,
        data: &[u8],
        last: bool,
        context: &mut EvaluationContext<'_>,
    ) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        self.lines.push(data)?;
        loop {
            let taken = if self.lines.waiting() > PARSED_AT_ONCE {
                context.work(ROW)?;
                coeval_env::block_in_place(|| self.next_row(last, context))?
            } else {
                self.next_row(last, context)?
            };
            match taken {
                Taken::Incomplete => return Ok(()),
                Taken::Nothing => {}
                Taken::Row => self.insert(context).await?,
            }
        }
    }

    /// Parses the next line to a row.
    fn next_row(&mut self, last: bool, context: &mut EvaluationContext<'_>) -> Result<Taken> {
        let plan = Arc::clone(&self.plan);
        let plan = Self::into_plan(&plan)?;
        let table = &plan.table;
        if self.ended {
            return Ok(Taken::Incomplete);
        }
        let at = |number: u64, what: &str| format!("COPY {}, line {number}{what}", table.name);
        let Record {
            bytes: line,
            line: number,
        } = match self.lines.next(last) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(Taken::Incomplete),
            Err(error) => return Err(error.with_context(at(self.lines.line(), ""))),
        };
        let at = |what: &str| at(number, what);
        self.line = number;
        let first = std::mem::take(&mut self.first);
        if line == b"\\." {
            self.ended = true;
            return Ok(Taken::Nothing);
        }
        let shown = || {
            let text = String::from_utf8_lossy(line);
            match text.char_indices().nth(SHOWN) {
                None => at(&format!(": \"{text}\"")),
                Some((end, _)) => at(&format!(": \"{}...\"", &text[..end])),
            }
        };
        self.fields
            .split(line, &plan.format)
            .map_err(|error| error.with_context(shown()))?;
        if first && plan.format.header {
            if plan.format.match_header {
                check_header(&self.fields, plan).map_err(|error| error.with_context(at("")))?;
            }
            return Ok(Taken::Nothing);
        }
        // For a table without columns, each row is an empty line.
        let without_columns = plan.columns.is_empty() && line.is_empty();
        if self.fields.len() > plan.columns.len() && !without_columns {
            return Err(Error::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                "extra data after last expected column",
            )
            .with_context(shown()));
        }
        if self.fields.len() < plan.columns.len() {
            let missing = &table.columns[plan.columns[self.fields.len()]].name;
            return Err(Error::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                format!("missing data for column \"{missing}\""),
            )
            .with_context(shown()));
        }
        self.values.clear();
        self.values.resize(table.columns.len(), Value::Null);
        for (position, &column) in plan.columns.iter().enumerate() {
            let Some(bytes) = self.fields.get(position) else {
                continue;
            };
            let column_definition = &table.columns[column];
            let value = crate::value::utf8(bytes).and_then(|text| {
                Value::parse(text, column_definition.column_type, &context.session.style)
            });
            self.values[column] = value.map_err(|error| {
                let text = String::from_utf8_lossy(bytes);
                let end = text
                    .char_indices()
                    .nth(SHOWN)
                    .map_or(text.len(), |(end, _)| end);
                error.within(at(&format!(
                    ", column {}: \"{}\"",
                    column_definition.name,
                    &text[..end]
                )))
            })?;
        }
        for (column, default) in &plan.defaults {
            self.values[*column] = default
                .evaluate(context, &[])
                .map_err(|error| error.with_context(at("")))?;
        }
        self.row.clear();
        let rules = &plan.rules;
        rules
            .generate(&mut self.values, context)
            .and_then(|()| self.writer.write(table, &self.values, &mut self.row))
            .and_then(|()| rules.check(table, &self.values, context))
            .map_err(|error| error.with_context(shown()))?;
        Ok(Taken::Row)
    }

    async fn insert(&mut self, context: &mut EvaluationContext<'_>) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let table = &Self::into_plan(&plan)?.table;
        let row = RowRef::trusted(&self.row);
        match coeval_txn::insert(context.reads()?, table.storage, row).await? {
            Insert::Inserted(_) => {}
            Insert::Duplicate { index, .. } => {
                let error = match table.index(index) {
                    Some(index) => unique_violation(table, index, row),
                    None => Error::internal("an index that the table does not have"),
                };
                return Err(error.with_context(format!("COPY {}, line {}", table.name, self.line)));
            }
        }
        self.count += 1;
        if self.count.is_multiple_of(ROWS_BETWEEN_YIELDS) {
            context.session.work_meter.tick(&context.session.cancel);
            context.session.work_meter.give_way();
            context.check_canceled()?;
            coeval_env::yield_now().await;
            context.begin_slice();
        }
        Ok(())
    }
}

fn check_header(fields: &Fields, plan: &CopyInPlan) -> Result<()> {
    if fields.len() != plan.columns.len() {
        return Err(Error::new(
            SqlState::BAD_COPY_FILE_FORMAT,
            format!(
                "wrong number of fields in header line: got {}, expected {}",
                fields.len(),
                plan.columns.len()
            ),
        ));
    }
    for (position, &column) in plan.columns.iter().enumerate() {
        let name = &plan.table.columns[column].name;
        let found = fields.get(position).map(String::from_utf8_lossy);
        if found.as_deref() != Some(name.as_str()) {
            return Err(Error::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                format!(
                    "column name mismatch in header line field {}: got {}, expected \"{name}\"",
                    position + 1,
                    found.map_or_else(|| "null value".to_owned(), |text| format!("\"{text}\"")),
                ),
            ));
        }
    }
    Ok(())
}
