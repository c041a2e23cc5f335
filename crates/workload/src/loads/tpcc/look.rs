//! TPC-C check queries: they read the data for the [conditions](super::conditions),
//! warehouse by warehouse, in the single snapshot of the final check.

use std::collections::BTreeMap;

use crate::store::{Cells, Failure, Scan, Session, Value};

use super::Tpcc;
use super::conditions::{Customer, District, Order, Warehouse, judge};
use super::reward::take_back;
use super::schema::{
    CUSTOMER, DISTRICT, HISTORY, NEW_ORDER, ORDER, ORDER_LINE, WAREHOUSE, c, d, h, o, ol, w,
};
use super::stock::Books;

/// Number of violations that are reported; further ones add no information.
const SHOWN: usize = 50;

/// Sums over HISTORY, which has no key and is scanned once.
#[derive(Default)]
struct Payments {
    warehouses: BTreeMap<i64, i64>,
    districts: BTreeMap<(i64, i64), i64>,
    customers: BTreeMap<(i64, i64, i64), i64>,
}

impl Tpcc {
    /// Reads all tables; returns all violated conditions.
    pub(super) async fn look(&self, session: &mut Session) -> Result<Vec<String>, Failure> {
        let mut payments = Payments::default();
        session
            .scan(&Scan::of(HISTORY, &[]), &mut |row| {
                let amount = row.integer(h::AMOUNT);
                let (warehouse, district) = (row.integer(h::W_ID), row.integer(h::D_ID));
                *payments.warehouses.entry(warehouse).or_default() += amount;
                let place = (warehouse, district);
                *payments.districts.entry(place).or_default() += amount;
                let who = (
                    row.integer(h::C_W_ID),
                    row.integer(h::C_D_ID),
                    row.integer(h::C_ID),
                );
                *payments.customers.entry(who).or_default() += amount;
            })
            .await?;
        let (mut complaints, mut warehouses) = (Vec::new(), Vec::new());
        let mut books = Books::default();
        for id in 1..=i64::from(self.scale.warehouses) {
            let mut warehouse = self.gather(id, &payments, &mut books, session).await?;
            books.read(id, session).await?;
            if self.rewards.is_some() || !self.acknowledged.is_from_the_start() {
                complaints.extend(take_back(&mut warehouse));
            }
            if warehouse.districts.len() != 10 {
                let count = warehouse.districts.len();
                complaints.push(format!("warehouse {id} has {count} districts"));
            }
            complaints.extend(judge(&warehouse, self.scale.delivered()));
            complaints.truncate(SHOWN);
            warehouses.push(warehouse);
        }
        complaints.extend(books.judge());
        complaints.extend(self.acknowledged.judge(&warehouses, self.scale));
        Ok(complaints)
    }

    async fn gather(
        &self,
        id: i64,
        payments: &Payments,
        books: &mut Books,
        session: &mut Session,
    ) -> Result<Warehouse, Failure> {
        let prefix = [Value::Integer(id)];
        let first = i64::from(self.scale.customers);
        let mut warehouse = Warehouse {
            id,
            history: payments.warehouses.get(&id).copied().unwrap_or(0),
            ..Warehouse::default()
        };
        session
            .scan(&Scan::of(WAREHOUSE, &prefix), &mut |row| {
                warehouse.ytd = row.integer(w::YTD);
            })
            .await?;
        let mut districts: BTreeMap<i64, District> = BTreeMap::new();
        session
            .scan(&Scan::of(DISTRICT, &prefix), &mut |row| {
                let district = row.integer(d::ID);
                districts.insert(
                    district,
                    District {
                        id: district,
                        ytd: row.integer(d::YTD),
                        next_order: row.integer(d::NEXT_O_ID),
                        history: payments
                            .districts
                            .get(&(id, district))
                            .copied()
                            .unwrap_or(0),
                        ..District::default()
                    },
                );
            })
            .await?;
        session
            .scan(&Scan::of(CUSTOMER, &prefix), &mut |row| {
                let who = (id, row.integer(c::D_ID), row.integer(c::ID));
                if let Some(district) = districts.get_mut(&who.1) {
                    // The scan returns customers in the order of their numbers, from 1.
                    district.customers.push(Customer {
                        balance: row.integer(c::BALANCE),
                        paid: row.integer(c::YTD_PAYMENT),
                        deliveries: row.integer(c::DELIVERY_CNT),
                        history: payments.customers.get(&who).copied().unwrap_or(0),
                        ..Customer::default()
                    });
                }
            })
            .await?;
        session
            .scan(&Scan::of(ORDER, &prefix), &mut |row| {
                if let Some(district) = districts.get_mut(&row.integer(o::D_ID)) {
                    district.orders.push(Order {
                        id: row.integer(o::ID),
                        customer: row.integer(o::C_ID),
                        has_carrier: !row.is_null(o::CARRIER_ID),
                        counted: row.integer(o::OL_CNT),
                        ..Order::default()
                    });
                }
            })
            .await?;
        session
            .scan(&Scan::of(NEW_ORDER, &prefix), &mut |row| {
                if let Some(district) = districts.get_mut(&row.integer(o::D_ID)) {
                    district.new_orders.push(row.integer(o::ID));
                }
            })
            .await?;
        session
            .scan(&Scan::of(ORDER_LINE, &prefix), &mut |row| {
                if let Some(district) = districts.get_mut(&row.integer(o::D_ID)) {
                    let dated = !row.is_null(ol::DELIVERY_D);
                    add_line(district, row.integer(o::ID), dated, row.integer(ol::AMOUNT));
                }
                if row.integer(o::ID) > first {
                    books.order(row.integer(ol::QUANTITY));
                }
            })
            .await?;
        warehouse.districts = districts.into_values().collect();
        Ok(warehouse)
    }
}

/// Adds an order line to its order and, if it was delivered, to its customer.
fn add_line(district: &mut District, order: i64, dated: bool, amount: i64) {
    // Orders are sorted, because a range with a key prefix is scanned in key order.
    let Ok(at) = district
        .orders
        .binary_search_by_key(&order, |order| order.id)
    else {
        district.stray_lines += 1;
        return;
    };
    let order = &mut district.orders[at];
    order.lines += 1;
    if !dated {
        order.undated += 1;
        return;
    }
    let customer = usize::try_from(order.customer - 1).unwrap_or(usize::MAX);
    if let Some(customer) = district.customers.get_mut(customer) {
        customer.delivered += amount;
    }
}
