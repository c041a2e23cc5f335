//! Statements that control transactions, from their trees.

use coeval_sql_syntax::tree::{self, Transaction, TransactionMode};
use coeval_txn::Isolation;

use super::command::{Command, Modes};
use super::lower::Lower;
use crate::catalog::fold;
use crate::error::Result;

pub(super) fn transaction(lower: &Lower<'_>, command: Transaction) -> Result<Command> {
    Ok(match command {
        Transaction::Begin(list) => Command::Begin {
            modes: modes(&list),
            tag: "BEGIN",
        },
        Transaction::Start(list) => Command::Begin {
            modes: modes(&list),
            tag: "START TRANSACTION",
        },
        Transaction::Commit { chain } => Command::Commit { chain },
        Transaction::Rollback { chain } => Command::Rollback { chain },
        Transaction::Savepoint(name) => Command::Savepoint(fold(&name)),
        Transaction::Release(name) => Command::Release(fold(&name)),
        Transaction::RollbackTo(name) => Command::RollbackTo(fold(&name)),
        Transaction::Prepare(_) => return Err(lower.unsupported("PREPARE TRANSACTION")),
        Transaction::CommitPrepared(_) | Transaction::RollbackPrepared(_) => {
            return Err(lower.unsupported("two-phase commit"));
        }
    })
}

/// The modes of a transaction; of two of a kind the last one counts.
pub(super) fn modes(list: &[TransactionMode]) -> Modes {
    let mut modes = Modes::default();
    for mode in list {
        match mode {
            TransactionMode::Isolation(level) => {
                modes.uncommitted = *level == tree::Isolation::ReadUncommitted;
                modes.isolation = Some(match level {
                    tree::Isolation::Serializable => Isolation::Serializable,
                    tree::Isolation::RepeatableRead => Isolation::SnapshotIsolation,
                    tree::Isolation::ReadCommitted | tree::Isolation::ReadUncommitted => {
                        Isolation::ReadCommitted
                    }
                });
            }
            TransactionMode::ReadOnly(read_only) => modes.read_only = Some(*read_only),
            TransactionMode::Deferrable(deferrable) => modes.deferrable = Some(*deferrable),
        }
    }
    modes
}
