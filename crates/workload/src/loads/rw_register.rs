//! Read-write register workload: transactions that write unique values and read them.
//!
//! Unlike list-append, where a read shows the order of all writes, here a judge has to
//! infer which value replaced which. In return a write is blind, as most writes of
//! applications are, and an update can be lost without a trace in any list.
//!
//! A value identifies the register it was written to (it is a unique number times the
//! number of registers, plus the register's own number), so a read of a value from
//! another register is detected at once, without a history.

use std::collections::BTreeMap;

use coeval_check::history::{Operation, Register};
use serde_json::json;

use super::ANEW;
use super::steps::{self, KeyOperation};
use crate::store::{Cells, ColumnKind, Failure, Loader, Maker, Row, Scan, Session, Table};
use crate::workload::{Client, Nature, Parameters, Workload};

/// The read-write register workload.
#[derive(Debug)]
pub struct RwRegister {
    keys: u64,
    operations: u64,
    table: Table,
}

impl RwRegister {
    /// A workload with `keys` registers, in transactions of up to `operations`
    /// operations; each at least 1.
    #[must_use]
    pub fn new(keys: u64, operations: u64) -> Self {
        let columns = [("key", ColumnKind::Bigint), ("value", ColumnKind::Bigint)];
        Self {
            keys: keys.max(1),
            operations: operations.max(1),
            table: Table::new("rw_register", 1, &columns),
        }
    }

    /// Violation shown by a register's value, if any.
    fn judge(&self, key: u64, value: i64) -> Option<String> {
        let written = value > 0 && value.unsigned_abs() % self.keys == key;
        (!written).then(|| format!("register {key} has {value}, which was not written to it"))
    }
}

impl Workload for RwRegister {
    type Request = Vec<KeyOperation>;
    type Effect = ();

    fn name(&self) -> &'static str {
        "rw-register"
    }

    fn tables(&self) -> Vec<Table> {
        vec![self.table.clone()]
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["write", "read"]
    }

    fn parameters(&self) -> Parameters {
        Parameters::from([
            ("keys".to_owned(), json!(self.keys)),
            ("operations".to_owned(), json!(self.operations)),
        ])
    }

    async fn load(&self, _part: u64, _loader: &mut Loader) -> Result<(), Failure> {
        Ok(())
    }

    async fn resume(&self, session: &mut Session) -> Result<u64, Failure> {
        let (mut greatest, mut other) = (0, None);
        session
            .scan(&Scan::of(0, &[]), &mut |row| {
                let (key, value) = (row.integer(0).cast_unsigned(), row.integer(1));
                greatest = greatest.max(value.unsigned_abs() / self.keys);
                if key >= self.keys || self.judge(key, value).is_some() {
                    other = Some((key, value));
                }
            })
            .await?;
        match other {
            None => Ok(greatest),
            Some((key, value)) => Err(Failure::Wrong(format!(
                "{} is not filled with {} registers, but with another number: register {key} \
                 has {value}: {ANEW}",
                self.table.name, self.keys
            ))),
        }
    }

    fn draw(&self, client: &mut Client) -> Vec<KeyOperation> {
        steps::draw(&mut client.chance, self.operations, |chance| {
            chance.within(0..self.keys)
        })
    }

    fn nature(&self, request: &Vec<KeyOperation>) -> Nature {
        steps::nature(request)
    }

    async fn run(
        &self,
        request: &Vec<KeyOperation>,
        client: &mut Client,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let (mut maker, mut row) = (Maker::new(), Row::default());
        for &step in request {
            match step {
                KeyOperation::Read(key) => {
                    let found = session.get(0, &[key.cast_signed()], &mut row).await?;
                    let value = found.then(|| row.integer(1));
                    if let Some(wrong) = value.and_then(|value| self.judge(key, value)) {
                        return Err(Failure::Wrong(wrong));
                    }
                    session.note(|| Operation::Read {
                        key,
                        value: Some(value.map_or(Register::Absent, Register::Value)),
                    });
                }
                KeyOperation::Write(key) => {
                    let value = (client.unique() * self.keys + key).cast_signed();
                    // The write is recorded before it is tried: an attempt that fails may
                    // have succeeded in the database.
                    session.note(|| Operation::Write { key, value });
                    maker.integer(&self.table, key.cast_signed());
                    maker.integer(&self.table, value).finish(&mut row);
                    if !session.put(0, &row, &[1]).await? {
                        // Another client may write the register for the first time
                        // concurrently.
                        let inserted = session.insert(0, &row).await;
                        inserted.map_err(Failure::or_retry_duplicate)?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn check(&self, session: &mut Session) -> Result<Vec<String>, Failure> {
        let mut wrong = Vec::new();
        let mut values = BTreeMap::new();
        session
            .scan(&Scan::of(0, &[]), &mut |row| {
                let (key, value) = (row.integer(0).cast_unsigned(), row.integer(1));
                wrong.extend(self.judge(key, value));
                values.insert(key, value);
            })
            .await?;
        if session.is_recording() {
            for key in 0..self.keys {
                let value = values.get(&key);
                session.note(|| Operation::Read {
                    key,
                    value: Some(value.map_or(Register::Absent, |&value| Register::Value(value))),
                });
            }
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_register_is_seen() {
        let registers = RwRegister::new(10, 4);
        assert_eq!(registers.judge(3, 123), None);
        assert!(registers.judge(4, 123).is_some());
        assert!(registers.judge(0, 0).is_some());
    }
}
