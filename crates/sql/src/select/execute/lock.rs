//! The row-locking operator (FOR UPDATE, FOR SHARE and their like): locks rows before it returns
//! them.
//!
//! If another transaction has changed a row meanwhile, the operator returns the newest
//! version, provided it still satisfies the conditions; it leaves out a deleted row.

use std::task::{Context, Poll};

use coeval_txn::{Isolation, LockWait, LockedRow, TableLock};
use coeval_types::Rid;

use super::{Pulled, Row, State, row_or_return};
use crate::expression::{EvaluationContext, is_true};
use crate::select::plan::{Lock, LockTarget};
use crate::{Result, Value};

/// Maximum number of times that the operator restarts the scan because a row was
/// deleted meanwhile.
const MAX_LOOKS: u32 = 100;

/// State of the row-locking operator.
#[derive(Debug)]
pub(in crate::select) struct LockState {
    input: State,
    tables_locked: usize,
    /// Current row, and the number of its targets already locked.
    row: Row,
    locked: Option<usize>,
    /// Whether another transaction has changed a target of the current row.
    changed: bool,
    driving: Row,
    opened: bool,
    /// Whether the operator has returned a row, so that it cannot restart.
    shown: bool,
    looks: u32,
}

impl LockState {
    pub(super) fn new(lock: &Lock) -> Self {
        Self {
            input: State::new(&lock.input),
            tables_locked: 0,
            row: Row::new(),
            locked: None,
            changed: false,
            driving: Row::new(),
            opened: false,
            shown: false,
            looks: 0,
        }
    }

    pub(super) fn input(&self) -> &State {
        &self.input
    }

    pub(super) fn open(
        &mut self,
        _lock: &Lock,
        _context: &mut EvaluationContext<'_>,
        driving: &[Value],
    ) -> Result<()> {
        // The operator opens the input after it has locked the tables.
        self.driving = driving.to_vec();
        self.opened = false;
        self.locked = None;
        self.shown = false;
        self.looks = 0;
        Ok(())
    }

    pub(super) fn next(
        &mut self,
        lock: &Lock,
        context: &mut EvaluationContext<'_>,
        row: &mut Row,
    ) -> Result<Pulled> {
        let waker = context.waker.clone();
        let mut task = Context::from_waker(&waker);
        while let Some(target) = lock.targets.get(self.tables_locked) {
            let table = &target.table;
            match context.reads()?.poll_lock_table(
                table.storage,
                TableLock::RowShare,
                LockWait::Wait,
                table.schema_version,
                &mut task,
            ) {
                Poll::Pending => return Ok(Pulled::Pending),
                Poll::Ready(result) => result?,
            }
            self.tables_locked += 1;
        }
        loop {
            if !self.opened {
                self.input.open(&lock.input, context, &self.driving)?;
                self.opened = true;
            }
            let Some(next) = self.locked else {
                row_or_return!(self.input.next(&lock.input, context, &mut self.row)?);
                self.locked = Some(0);
                self.changed = false;
                continue;
            };
            let Some(target) = lock.targets.get(next) else {
                self.locked = None;
                if self.changed
                    && let Some(condition) = &lock.condition
                    && !is_true(&condition.evaluate(context, &self.row)?)
                {
                    continue;
                }
                std::mem::swap(row, &mut self.row);
                self.shown = true;
                return Ok(Pulled::Row);
            };
            match self.lock(target, context, &mut task)? {
                None => return Ok(Pulled::Pending),
                Some(LockedRow::Unchanged) => self.locked = Some(next + 1),
                Some(LockedRow::Changed) => {
                    self.changed = true;
                    self.locked = Some(next + 1);
                }
                Some(LockedRow::Gone) => {
                    self.locked = None;
                    self.look_again(context)?;
                }
                Some(LockedRow::Skipped) => self.locked = None,
            }
        }
    }

    /// Handles a row deleted after the scan found it. An update of its primary key
    /// would look the same, because it makes a new record; so as long as the operator
    /// has returned no row, it restarts the scan with a new snapshot.
    fn look_again(&mut self, context: &mut EvaluationContext<'_>) -> Result<()> {
        let reads = context.reads()?;
        if self.shown || self.looks == MAX_LOOKS || reads.isolation() != Isolation::ReadCommitted {
            return Ok(());
        }
        self.looks += 1;
        reads.begin_statement()?;
        self.opened = false;
        Ok(())
    }

    /// Locks one target of the current row, and adopts the target's newest version.
    fn lock(
        &mut self,
        target: &LockTarget,
        context: &mut EvaluationContext<'_>,
        task: &mut Context<'_>,
    ) -> Result<Option<LockedRow>> {
        let Some(Value::Int8(record)) = self.row.get(target.record) else {
            // The null-extended side of an outer join has no row to lock.
            return Ok(Some(LockedRow::Unchanged));
        };
        let rid = Rid(*record as u64);
        let mut newest = Ok(Row::new());
        let polled = context.reads()?.poll_lock_row(
            target.table.storage,
            rid,
            target.mode,
            target.wait,
            &mut |_, version| {
                let mut values = Row::new();
                newest = target.reader.read(version, &mut values).map(|()| values);
            },
            task,
        );
        let Poll::Ready(locked) = polled else {
            return Ok(None);
        };
        let locked = locked?;
        if locked == LockedRow::Changed {
            let newest = newest?;
            for (slot, value) in self.row[target.offset..].iter_mut().zip(newest) {
                *slot = value;
            }
        }
        Ok(Some(locked))
    }
}
