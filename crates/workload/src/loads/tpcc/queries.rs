//! The two read-only transactions of TPC-C: order-status (clause 2.6) and stock-level
//! (clause 2.8).

use std::collections::BTreeSet;

use crate::chance::Chance;
use crate::store::{Cells, Failure, Row, Scan, Session, Value};
use crate::workload::Client;

use super::random::uniform;
use super::schema::{BY_CUSTOMER, CUSTOMER, DISTRICT, ORDER, ORDER_LINE, STOCK, c, d, o, ol, s};
use super::{DISTRICTS, Tpcc, Who, missing};

/// Number of recent orders whose stock is checked.
const ORDERS: i64 = 20;

/// Parameters of order-status: a customer whose last order is read.
#[derive(Clone, Copy, Debug)]
pub struct OrderStatus {
    warehouse: i64,
    district: i64,
    who: Who,
}

/// Parameters of stock-level: a district and a threshold for low stock.
#[derive(Clone, Copy, Debug)]
pub struct StockLevel {
    warehouse: i64,
    district: i64,
    threshold: i64,
}

impl Tpcc {
    pub(super) fn draw_order_status(&self, home: i64, chance: &mut Chance) -> OrderStatus {
        OrderStatus {
            warehouse: home,
            district: uniform(chance, 1, DISTRICTS),
            who: self.who(chance),
        }
    }

    /// Draws a stock-level request. A client always uses the same district.
    pub(super) fn draw_stock_level(home: i64, client: &mut Client) -> StockLevel {
        StockLevel {
            warehouse: home,
            district: (client.number % DISTRICTS.unsigned_abs()).cast_signed() + 1,
            threshold: uniform(&mut client.chance, 10, 20),
        }
    }

    pub(super) async fn order_status(
        &self,
        request: &OrderStatus,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let &OrderStatus {
            warehouse,
            district,
            who,
        } = request;
        let customer = self.find(warehouse, district, who, session).await?;
        let mut row = Row::default();
        let key = [warehouse, district, customer];
        if !session.get(CUSTOMER, &key, &mut row).await? {
            return Err(missing("customer", &key));
        }
        std::hint::black_box(row.integer(c::BALANCE));
        let prefix = key.map(Value::Integer);
        let last = Scan {
            index: Some(BY_CUSTOMER),
            backward: true,
            limit: Some(1),
            ..Scan::of(ORDER, &prefix)
        };
        let mut found = None;
        session
            .scan(&last, &mut |row| {
                found = Some((row.integer(o::ID), row.integer(o::OL_CNT)));
            })
            .await?;
        // Every customer has an initial order.
        let (order, expected) = found.ok_or_else(|| missing("an order of customer", &key))?;
        let prefix = [warehouse, district, order].map(Value::Integer);
        let mut amount = 0;
        let lines = session
            .scan(&Scan::of(ORDER_LINE, &prefix), &mut |row| {
                amount += row.integer(ol::AMOUNT);
            })
            .await?;
        std::hint::black_box(amount);
        if lines as i64 != expected {
            return Err(Failure::Wrong(format!(
                "order {order} of customer {key:?} shows {lines} lines of {expected}"
            )));
        }
        Ok(())
    }

    pub(super) async fn stock_level(
        &self,
        request: &StockLevel,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let &StockLevel {
            warehouse,
            district,
            threshold,
        } = request;
        let mut row = Row::default();
        let key = [warehouse, district];
        if !session.get(DISTRICT, &key, &mut row).await? {
            return Err(missing("district", &key));
        }
        let next = row.integer(d::NEXT_O_ID);
        let prefix = key.map(Value::Integer);
        let recent = Scan {
            from: Some(next - ORDERS),
            to: Some(next - 1),
            ..Scan::of(ORDER_LINE, &prefix)
        };
        let mut items = BTreeSet::new();
        session
            .scan(&recent, &mut |row| {
                items.insert(row.integer(ol::I_ID));
            })
            .await?;
        let keys: Vec<[i64; 2]> = items.into_iter().map(|item| [warehouse, item]).collect();
        let (mut low, mut found) = (0, 0);
        session
            .get_many(STOCK, keys.as_flattened(), &mut |_, row| {
                found += 1;
                low += i64::from(row.integer(s::QUANTITY) < threshold);
            })
            .await?;
        if found != keys.len() {
            return Err(missing("stock of some item in", &key));
        }
        std::hint::black_box(low);
        Ok(())
    }
}
