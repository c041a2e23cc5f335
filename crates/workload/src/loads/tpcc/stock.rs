//! TPC-C stock check: compares S_YTD and S_ORDER_CNT with the lines of all orders except
//! the initial ones, whose goods were never taken from stock.
//!
//! No condition of the standard detects an order with the same item twice whose second
//! line took nothing; this check does.

use crate::store::{Cells, Failure, Scan, Session, Value};

use super::schema::{STOCK, s};

/// A number of order lines, and of pieces in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    lines: i64,
    pieces: i64,
}

/// Ordered and taken goods, over all warehouses, because a line's item may come from
/// another one.
#[derive(Debug, Default)]
pub(super) struct Books {
    ordered: Taken,
    taken: Taken,
}

impl Taken {
    fn add(&mut self, lines: i64, pieces: i64) {
        self.lines += lines;
        self.pieces += pieces;
    }
}

impl Books {
    /// Adds a line of an order placed after the load.
    pub(super) fn order(&mut self, pieces: i64) {
        self.ordered.add(1, pieces);
    }

    /// Adds the stock columns of a warehouse.
    pub(super) async fn read(
        &mut self,
        warehouse: i64,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let prefix = [Value::Integer(warehouse)];
        session
            .scan(&Scan::of(STOCK, &prefix), &mut |row| {
                self.taken
                    .add(row.integer(s::ORDER_CNT), row.integer(s::YTD));
            })
            .await?;
        Ok(())
    }

    pub(super) fn judge(&self) -> Option<String> {
        let Self { ordered, taken } = self;
        (ordered != taken).then(|| {
            format!(
                "stock: {} pieces of {} lines were taken, and {} pieces of {} lines ordered",
                taken.pieces, taken.lines, ordered.pieces, ordered.lines
            )
        })
    }
}
