//! What orders have taken from stock: S_YTD and S_ORDER_CNT against the lines of orders
//! that came after the first ones, whose goods were never taken.
//!
//! No condition of the standard sees an order of one item twice whose second line took
//! nothing; this does.

use crate::store::{Cells, Failure, Scan, Session, Value};

use super::schema::{STOCK, s};

/// Lines of orders, or what was noted of them, and how many pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    lines: i64,
    pieces: i64,
}

/// Both sides, over all warehouses: items come from others, too.
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
    /// A line of a later order.
    pub(super) fn order(&mut self, pieces: i64) {
        self.ordered.add(1, pieces);
    }

    /// Reads what a warehouse has noted.
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
