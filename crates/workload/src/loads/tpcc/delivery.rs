//! TPC-C delivery transaction (clause 2.7): delivers the oldest new order of each
//! district.

use crate::chance::Chance;
use crate::store::{Cells, Failure, Row, Scan, Session, Value};

use super::delivered::Orders;
use super::random::uniform;
use super::schema::{CUSTOMER, NEW_ORDER, ORDER, ORDER_LINE, c, o, ol};
use super::{Tpcc, missing, now};

/// Parameters of a delivery.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub(super) warehouse: i64,
    carrier: i64,
    /// For each district, a lower bound of the undelivered orders.
    first: Orders,
}

impl Tpcc {
    pub(super) fn draw_delivery(&self, home: i64, chance: &mut Chance) -> Request {
        let delivered = self.delivered.as_ref();
        Request {
            warehouse: home,
            carrier: uniform(chance, 1, 10),
            first: delivered.map_or(Orders::default(), |delivered| delivered.first(home)),
        }
    }

    /// Runs the transaction; returns the orders that it has delivered.
    pub(super) async fn deliver(
        &self,
        request: &Request,
        session: &mut Session,
    ) -> Result<Orders, Failure> {
        let warehouse = request.warehouse;
        let mut delivered = Orders::default();
        for (district, (first, delivered)) in (1..).zip(request.first.iter().zip(&mut delivered)) {
            let place = [warehouse, district, *first];
            if let Some(order) = Self::take_oldest(place, session).await? {
                let key = [warehouse, district, order];
                self.deliver_order(key, request.carrier, session).await?;
                *delivered = order;
            }
        }
        Ok(delivered)
    }

    /// Deletes the oldest new order of a district from `first` on; returns its number, or
    /// `None` if there is no new order.
    async fn take_oldest(place: [i64; 3], session: &mut Session) -> Result<Option<i64>, Failure> {
        let [warehouse, district, first] = place;
        let prefix = [Value::Integer(warehouse), Value::Integer(district)];
        let scan = Scan {
            from: Some(first),
            limit: Some(1),
            ..Scan::of(NEW_ORDER, &prefix)
        };
        let mut row = Row::default();
        loop {
            let mut oldest = None;
            session
                .scan(&scan, &mut |row| oldest = Some(row.integer(o::ID)))
                .await?;
            let Some(order) = oldest else {
                return Ok(None);
            };
            // At READ COMMITTED another delivery may have taken the order concurrently;
            // then the next iteration finds the next one.
            let key = [warehouse, district, order];
            if session.lock(NEW_ORDER, &key, &mut row).await? {
                session.delete(NEW_ORDER, &row).await?;
                return Ok(Some(order));
            }
        }
    }

    async fn deliver_order(
        &self,
        key: [i64; 3],
        carrier: i64,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let [warehouse, district, order] = key;
        let mut row = Row::default();
        if !session.lock(ORDER, &key, &mut row).await? {
            return Err(missing("order", &key));
        }
        let (customer, lines) = (row.integer(o::C_ID), row.integer(o::OL_CNT));
        row.set_integer(&self.tables[ORDER], o::CARRIER_ID, carrier);
        session.update(ORDER, &row, &[o::CARRIER_ID]).await?;
        let mut amount = 0;
        let date = now();
        let keys: Vec<_> = (1..=lines)
            .map(|line| [warehouse, district, order, line])
            .collect();
        let mut rows = vec![Row::default(); keys.len()];
        let missed = session.lock_many(ORDER_LINE, keys.as_flattened(), &mut rows);
        if let Some(at) = missed.await? {
            return Err(missing("order line", &keys[at]));
        }
        for row in &mut rows {
            amount += row.integer(ol::AMOUNT);
            row.set_integer(&self.tables[ORDER_LINE], ol::DELIVERY_D, date);
            session.update(ORDER_LINE, row, &[ol::DELIVERY_D]).await?;
        }
        let key = [warehouse, district, customer];
        if !session.lock(CUSTOMER, &key, &mut row).await? {
            return Err(missing("customer", &key));
        }
        let table = &self.tables[CUSTOMER];
        row.set_integer(table, c::BALANCE, row.integer(c::BALANCE) + amount);
        row.set_integer(table, c::DELIVERY_CNT, row.integer(c::DELIVERY_CNT) + 1);
        let changed = [c::BALANCE, c::DELIVERY_CNT];
        session.update(CUSTOMER, &row, &changed).await
    }
}
