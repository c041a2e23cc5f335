//! TPC-C new-order transaction (clause 2.4): an order of 5 to 15 items, taken from stock.

use crate::chance::Chance;
use crate::store::{Cells, Failure, Maker, Row, Session};

use super::random::uniform;
use super::schema::{
    CUSTOMER, DISTRICT, ITEM, NEW_ORDER, ORDER, ORDER_LINE, STOCK, WAREHOUSE, c, d, i, s, w,
};
use super::{DISTRICTS, Tpcc, missing, now};

/// Parameters of a new order.
#[derive(Clone, Debug)]
pub struct Request {
    warehouse: i64,
    district: i64,
    customer: i64,
    lines: Vec<Line>,
    /// Whether the last line's item does not exist, so that the order is rolled back.
    fails: bool,
}

/// One line of an order.
#[derive(Clone, Copy, Debug)]
struct Line {
    item: i64,
    supply: i64,
    quantity: i64,
}

impl Tpcc {
    pub(super) fn draw_new_order(&self, home: i64, chance: &mut Chance) -> Request {
        let items = i64::from(self.scale.items);
        let count = uniform(chance, 5, 15);
        let fails = chance.once_in(100);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| Line {
                item: self.constants.item(chance, items),
                supply: if chance.once_in(100) {
                    self.other(home, chance)
                } else {
                    home
                },
                quantity: uniform(chance, 1, 10),
            })
            .collect();
        lines.sort_by_key(|line| (line.supply, line.item));
        if fails && let Some(last) = lines.last_mut() {
            // No item has this number.
            last.item = items + 1;
        }
        Request {
            warehouse: home,
            district: uniform(chance, 1, DISTRICTS),
            customer: self.customer(chance),
            lines,
            fails,
        }
    }

    pub(super) async fn new_order(
        &self,
        request: &Request,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let &Request {
            warehouse,
            district,
            customer,
            ..
        } = request;
        let mut row = Row::default();
        if !session.get(WAREHOUSE, &[warehouse], &mut row).await? {
            return Err(missing("warehouse", &[warehouse]));
        }
        let mut tax = row.integer(w::TAX);
        let key = [warehouse, district];
        if !session.lock(DISTRICT, &key, &mut row).await? {
            return Err(missing("district", &key));
        }
        tax += row.integer(d::TAX);
        let order = row.integer(d::NEXT_O_ID);
        row.set_integer(&self.tables[DISTRICT], d::NEXT_O_ID, order + 1);
        session.update(DISTRICT, &row, &[d::NEXT_O_ID]).await?;
        let key = [warehouse, district, customer];
        if !session.get(CUSTOMER, &key, &mut row).await? {
            return Err(missing("customer", &key));
        }
        let discount = row.integer(c::DISCOUNT);

        let mut maker = Maker::new();
        self.insert_order(request, order, &mut maker, &mut row, session)
            .await?;
        let prices = Self::prices(request, session).await?;
        let mut stock = Stock::lock(request, session).await?;
        let mut total = 0;
        for (number, (line, price)) in (1..).zip(request.lines.iter().zip(prices)) {
            // The missing item is discovered only at its own line, after the work for the
            // other lines.
            let Some(price) = price else {
                return Err(Failure::Rollback);
            };
            let taken = stock.of(line);
            self.take(line, warehouse, taken, session).await?;
            let amount = price * line.quantity;
            total += amount;
            let table = &self.tables[ORDER_LINE];
            for cell in [warehouse, district, order, number, line.item, line.supply] {
                maker.integer(table, cell);
            }
            maker.null().integer(table, line.quantity);
            maker.integer(table, amount);
            let column = s::DIST + usize::try_from(district - 1).unwrap_or(0);
            maker.text(taken.text(column)).finish(&mut row);
            session.insert(ORDER_LINE, &row).await?;
        }
        // The total that the terminal would display: rates are ten-thousandths.
        let charged = total * (10_000 - discount) / 10_000 * (10_000 + tax) / 10_000;
        std::hint::black_box(charged);
        Ok(())
    }

    async fn insert_order(
        &self,
        request: &Request,
        order: i64,
        maker: &mut Maker,
        row: &mut Row,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let &Request {
            warehouse,
            district,
            customer,
            ref lines,
            ..
        } = request;
        let table = &self.tables[ORDER];
        for cell in [warehouse, district, order, customer, now()] {
            maker.integer(table, cell);
        }
        let local = lines.iter().all(|line| line.supply == warehouse);
        maker.null().integer(table, lines.len() as i64);
        maker.integer(table, i64::from(local)).finish(row);
        session.insert(ORDER, row).await?;
        for cell in [warehouse, district, order] {
            maker.integer(&self.tables[NEW_ORDER], cell);
        }
        maker.finish(row);
        session.insert(NEW_ORDER, row).await
    }

    /// The price of each line's item; `None` for an item that does not exist.
    async fn prices(request: &Request, session: &mut Session) -> Result<Vec<Option<i64>>, Failure> {
        let items: Vec<i64> = request.lines.iter().map(|line| line.item).collect();
        let mut prices = vec![None; items.len()];
        session
            .get_many(ITEM, &items, &mut |at, row| {
                prices[at] = Some(row.integer(i::PRICE));
            })
            .await?;
        Ok(prices)
    }

    /// Takes a line's quantity from its stock.
    async fn take(
        &self,
        line: &Line,
        home: i64,
        row: &mut Row,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let table = &self.tables[STOCK];
        let left = row.integer(s::QUANTITY) - line.quantity;
        let filled = if left >= 10 { left } else { left + 91 };
        row.set_integer(table, s::QUANTITY, filled);
        row.set_integer(table, s::YTD, row.integer(s::YTD) + line.quantity);
        row.set_integer(table, s::ORDER_CNT, row.integer(s::ORDER_CNT) + 1);
        let remote = i64::from(line.supply != home);
        row.set_integer(table, s::REMOTE_CNT, row.integer(s::REMOTE_CNT) + remote);
        let changed = [s::QUANTITY, s::YTD, s::ORDER_CNT, s::REMOTE_CNT];
        session.update(STOCK, row, &changed).await
    }
}

/// The locked stock rows of an order's items.
struct Stock {
    /// Warehouse and item of each row, in the order of the lines, without duplicates.
    keys: Vec<[i64; 2]>,
    rows: Vec<Row>,
}

impl Stock {
    /// Locks the rows in the order of the lines, which is the same for all orders. An
    /// item that does not exist is left out.
    async fn lock(request: &Request, session: &mut Session) -> Result<Self, Failure> {
        let mut keys: Vec<[i64; 2]> = request.lines.iter().map(Line::stock).collect();
        // The lines are sorted, except for an item that does not exist.
        keys.dedup();
        keys.truncate(keys.len() - usize::from(request.fails));
        let mut rows = vec![Row::default(); keys.len()];
        let missed = session.lock_many(STOCK, keys.as_flattened(), &mut rows);
        match missed.await? {
            Some(at) => Err(missing("stock", &keys[at])),
            None => Ok(Self { keys, rows }),
        }
    }

    /// The stock row of a line's item, with the transaction's changes so far.
    fn of(&mut self, line: &Line) -> &mut Row {
        let at = self.keys.iter().position(|key| *key == line.stock());
        &mut self.rows[at.expect("locked before")]
    }
}

impl Line {
    /// Primary key of the line's stock row.
    fn stock(&self) -> [i64; 2] {
        [self.supply, self.item]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::tpcc::Scale;

    #[test]
    fn one_in_a_hundred_fails_and_one_line_in_a_hundred_is_remote() {
        let tpcc = Tpcc::new(Scale::standard(4), 1);
        let mut chance = Chance::new(2);
        let (mut failing, mut lines, mut remote) = (0_u32, 0_u32, 0_u32);
        for _ in 0..20_000 {
            let request = tpcc.draw_new_order(2, &mut chance);
            assert!((5..=15).contains(&request.lines.len()));
            let unused = |line: &Line| line.item == 100_001;
            failing += u32::from(request.lines.iter().any(unused));
            assert!(!request.lines[..request.lines.len() - 1].iter().any(unused));
            lines += request.lines.len() as u32;
            remote += request.lines.iter().filter(|line| line.supply != 2).count() as u32;
        }
        assert!((150..250).contains(&failing), "{failing} of 20000");
        let share = f64::from(remote) / f64::from(lines);
        assert!((0.008..0.012).contains(&share), "{share}");
    }
}
