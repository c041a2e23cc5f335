//! The sort operator: collects all rows, then returns them in order.

use std::cmp::Ordering;

use super::{Pulled, Row, State, count, row_bytes, spend_kept};
use crate::expression::{EvaluationContext, Expression, metered};
use crate::select::plan::Sort;
use crate::value::KeyOrder;
use crate::{Result, Value};

/// State of the sort operator.
#[derive(Debug)]
pub(in crate::select) struct SortState {
    input: State,
    /// Sort keys and rows; sorted after the input's last row.
    rows: Vec<(Row, Row)>,
    sorted: Option<std::vec::IntoIter<(Row, Row)>>,
    /// Maximum number of rows that the operators above will read (top-N sort).
    wanted: Option<usize>,
    bytes: usize,
}

/// Compares two values in the order of a key column.
pub(super) fn compare(left: &Value, right: &Value, order: KeyOrder) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if order.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if order.nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if order.descending => right.order(left),
        (false, false) => left.order(right),
    }
}

fn compare_keys(left: &[Value], right: &[Value], keys: &[(Expression, KeyOrder)]) -> Ordering {
    left.iter()
        .zip(right)
        .zip(keys)
        .map(|((left, right), (_, order))| compare(left, right, *order))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Number of rows above which sorting runs as blocking work, so that other tasks of the
/// thread need not wait.
const SORTED_IN_A_STEP: usize = 8192;

fn in_order(
    rows: Vec<(Row, Row)>,
    sort: &Sort,
    context: &mut EvaluationContext<'_>,
) -> Result<Vec<(Row, Row)>> {
    let compare =
        |left: &(Row, Row), right: &(Row, Row)| compare_keys(&left.0, &right.0, &sort.keys);
    if rows.len() <= SORTED_IN_A_STEP {
        return metered::sort(rows, context, &compare);
    }
    coeval_env::block_in_place(|| metered::sort(rows, context, &compare))
}

impl SortState {
    pub(super) fn new(sort: &Sort) -> Self {
        Self {
            input: State::new(&sort.input),
            rows: Vec::new(),
            sorted: None,
            wanted: None,
            bytes: 0,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes + self.input.held_bytes()
    }

    pub(super) fn open(
        &mut self,
        sort: &Sort,
        context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        context.memory.give_back(self.bytes);
        self.bytes = 0;
        self.rows.clear();
        self.sorted = None;
        self.wanted = None;
        if let Some((limit, offset)) = &sort.fetch {
            let limit = count(Some(limit), context, "LIMIT")?;
            let offset = count(offset.as_ref(), context, "OFFSET")?.unwrap_or(0);
            self.wanted = limit
                .and_then(|limit| limit.checked_add(offset))
                .and_then(|wanted| usize::try_from(wanted).ok());
        }
        self.input.open(&sort.input, context, driving)
    }

    pub(super) fn next(
        &mut self,
        sort: &Sort,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        if let Some(sorted) = &mut self.sorted {
            if spend_kept(context)? {
                return Ok(Pulled::Pause);
            }
            return Ok(match sorted.next() {
                Some((_, next)) => {
                    *row = next;
                    Pulled::Row
                }
                None => Pulled::Done,
            });
        }
        loop {
            match self.input.next(&sort.input, context, row)? {
                Pulled::Row => {
                    let mut key = Row::with_capacity(sort.keys.len());
                    for (expression, _) in &sort.keys {
                        key.push(expression.evaluate(context, row)?);
                    }
                    let own = std::mem::take(row);
                    let bytes = row_bytes(&own) + row_bytes(&key);
                    context.memory.take(bytes)?;
                    self.bytes += bytes;
                    self.rows.push((key, own));
                    self.keep_wanted(sort, context)?;
                }
                Pulled::Done => break,
                other => return Ok(other),
            }
        }
        let rows = std::mem::take(&mut self.rows);
        let rows = in_order(rows, sort, context)?;
        self.sorted = Some(rows.into_iter());
        self.next(sort, context, row)
    }

    /// For a top-N sort, drops rows that can no longer be among the first `wanted`
    /// ones. It does so only when the buffer has doubled.
    fn keep_wanted(&mut self, sort: &Sort, context: &mut EvaluationContext<'_>) -> Result<()> {
        let Some(wanted) = self.wanted else {
            return Ok(());
        };
        if self.rows.len() < wanted.saturating_mul(2).saturating_add(256) {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        self.rows = in_order(rows, sort, context)?;
        self.rows.truncate(wanted);
        let kept: usize = self
            .rows
            .iter()
            .map(|(key, row)| row_bytes(key) + row_bytes(row))
            .sum();
        context.memory.give_back(self.bytes.saturating_sub(kept));
        self.bytes = kept;
        Ok(())
    }
}
