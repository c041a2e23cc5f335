//! The workloads.
//!
//! | workload | is for | at its end |
//! | --- | --- | --- |
//! | [`ycsb`] | reads and writes by key, and short scans | every row is whole, every insert is there |
//! | [`hybrid`] | short transactions, and bulk ones with long scans | every row is whole, and all count the writes that were acknowledged |
//! | [`bank`] | transfers, and sums of everything beside them | no money has come or gone |
//! | [`ledger`] | transfers, each with a trace of its own | nothing is lost, invented or torn |
//! | [`list_append`] | histories that show their own version order | every list has each element once |
//! | [`rw_register`] | histories of single values | every value has been written |
//! | [`smallbank`] | short transactions on hot customers | each account holds what it was told |
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

/// What to do about tables of another size.
const ANEW: &str = "tell it of as many as there are, or have its tables filled anew";

/// That a table from a run before has as many rows as this workload is made for.
fn sized(table: &Table, what: &str, found: u64, wanted: u64) -> Result<(), Failure> {
    if found == wanted {
        return Ok(());
    }
    let name = &table.name;
    Err(Failure::Wrong(format!(
        "{name} has {found} {what}, and the workload was told of {wanted}: {ANEW}"
    )))
}
