//! The workloads: transaction mixes that drivers run, each with a final check of its
//! data.
//!
//! | workload | purpose | final check |
//! | --- | --- | --- |
//! | [`ycsb`] | reads and writes by key, and short scans | every row is whole, every insert is there |
//! | [`hybrid`] | short transactions, and bulk ones with long scans | rows are whole, no write is lost |
//! | [`bank`] | transfers, and sums of all balances beside them | the sum is unchanged |
//! | [`ledger`] | transfers, each with a trace of its own | nothing is lost, invented or torn |
//! | [`list_append`] | histories that show their own version order | every list has each element once |
//! | [`rw_register`] | histories of single values | every value has been written |
//! | [`smallbank`] | short transactions on hot customers | each account holds the sum of its changes |
//! | [`tpcc`] | the whole of TPC-C, and a mix with long scans | the twelve consistency conditions |

pub mod bank;
pub mod hybrid;
pub mod ledger;
pub mod list_append;
pub mod rw_register;
pub mod smallbank;
mod steps;
pub mod tpcc;
pub mod ycsb;

use crate::store::{Failure, Table};

/// Advice of the error for tables of another size.
const ANEW: &str = "configure it for these tables, or fill them anew";

/// Checks that a table of an earlier run has as many rows (or bytes) as this workload is
/// configured for.
fn sized(table: &Table, what: &str, found: u64, wanted: u64) -> Result<(), Failure> {
    if found == wanted {
        return Ok(());
    }
    let name = &table.name;
    Err(Failure::Wrong(format!(
        "{name} has {found} {what}, and the workload was told of {wanted}: {ANEW}"
    )))
}
