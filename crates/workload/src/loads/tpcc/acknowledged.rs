//! TPC-C durability check: compares acknowledged transactions with the contents of the
//! tables.
//!
//! The conditions of the standard hold even for a database that has lost its last
//! thousand transactions entirely. This check does not: it counts the orders, payments,
//! deliveries and rewards that were acknowledged, and those of unknown outcome.
//!
//! | acknowledged | must equal |
//! | --- | --- |
//! | new orders | growth of D_NEXT_O_ID, over all districts |
//! | payments | growth of W_YTD, over all warehouses |
//! | deliveries | C_DELIVERY_CNT, over all customers |
//! | rewards | rewards given, over all customers ([`super::reward`]) |

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::workload::Done;

use super::conditions::Warehouse;
use super::delivered::Orders;
use super::{DISTRICTS, PAID, Scale};

/// Acknowledged number of one kind, and the number that may have been applied in
/// addition.
#[derive(Debug, Default)]
struct Count {
    certain: AtomicI64,
    perhaps: AtomicI64,
}

impl Count {
    fn add(&self, amount: i64, done: Done) {
        let count = match done {
            Done::Committed => &self.certain,
            Done::Perhaps => &self.perhaps,
        };
        count.fetch_add(amount, Ordering::AcqRel);
    }

    fn judge(&self, what: &str, found: i64) -> Option<String> {
        let least = self.certain.load(Ordering::Acquire);
        let most = least + self.perhaps.load(Ordering::Acquire);
        (!(least..=most).contains(&found))
            .then(|| format!("{what}: {found} are there, and {least} to {most} were acknowledged"))
    }
}

/// Effect of a committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The transaction counts for nothing here.
    None,
    /// The transaction placed one order.
    Order,
    /// The transaction paid this amount, in cents.
    Payment(i64),
    /// The transaction delivered these orders.
    Deliveries(Orders),
    /// The transaction gave one reward.
    Reward,
}

/// Counts of all acknowledged transactions.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    /// Whether this run filled the tables; otherwise their initial contents are unknown.
    from_the_start: AtomicBool,
    orders: Count,
    payments: Count,
    deliveries: Count,
    rewards: Count,
}

impl Acknowledged {
    /// Notes that this run has filled the tables.
    pub(super) fn begin(&self) {
        self.from_the_start.store(true, Ordering::Release);
    }

    /// Whether this run has filled the tables; otherwise an earlier run may have given
    /// rewards.
    pub(super) fn is_from_the_start(&self) -> bool {
        self.from_the_start.load(Ordering::Acquire)
    }

    pub(super) fn add(&self, effect: Effect, done: Done) {
        match effect {
            Effect::None => {}
            Effect::Order => self.orders.add(1, done),
            Effect::Payment(amount) => self.payments.add(amount, done),
            Effect::Deliveries(orders) => {
                let delivered = orders.iter().filter(|order| **order > 0);
                self.deliveries.add(delivered.count() as i64, done);
            }
            Effect::Reward => self.rewards.add(1, done),
        }
    }

    /// Acknowledged transactions that are missing from the tables, and effects in the
    /// tables that no client requested.
    pub(super) fn judge(&self, warehouses: &[Warehouse], scale: Scale) -> Vec<String> {
        if !self.is_from_the_start() {
            return Vec::new();
        }
        let each = i64::from(scale.customers);
        let districts = || warehouses.iter().flat_map(|warehouse| &warehouse.districts);
        let orders = districts().map(|district| district.next_order - each - 1);
        let paid = warehouses.iter().map(|warehouse| warehouse.ytd);
        let opened = DISTRICTS * each * PAID * warehouses.len() as i64;
        let customers = || districts().flat_map(|district| &district.customers);
        let deliveries = customers().map(|customer| customer.deliveries);
        let rewards = customers().map(|customer| customer.rewards);
        [
            self.orders.judge("new orders", orders.sum()),
            self.payments
                .judge("cents of payments", paid.sum::<i64>() - opened),
            self.deliveries.judge("deliveries", deliveries.sum()),
            self.rewards.judge("rewards", rewards.sum()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::conditions::{Customer, District};
    use super::*;

    #[test]
    fn what_was_acknowledged_has_to_be_there_and_nothing_else() {
        let scale = Scale {
            warehouses: 1,
            items: 100,
            customers: 10,
        };
        let warehouse = |next_order, ytd, deliveries| Warehouse {
            ytd: DISTRICTS * 10 * PAID + ytd,
            districts: vec![District {
                next_order,
                customers: vec![Customer {
                    deliveries,
                    ..Customer::default()
                }],
                ..District::default()
            }],
            ..Warehouse::default()
        };
        let told = Acknowledged::default();
        assert!(told.judge(&[warehouse(99, 99, 99)], scale).is_empty());
        told.begin();
        told.add(Effect::Order, Done::Committed);
        told.add(Effect::Payment(50), Done::Committed);
        let mut orders = Orders::default();
        orders[..3].fill(8);
        told.add(Effect::Deliveries(orders), Done::Committed);
        let wrong =
            |next, ytd, deliveries| told.judge(&[warehouse(next, ytd, deliveries)], scale).len();
        assert_eq!(wrong(12, 50, 3), 0);
        assert_eq!(wrong(11, 50, 3), 1);
        assert_eq!(wrong(13, 50, 3), 1);
        assert_eq!(wrong(12, 49, 3), 1);
        assert_eq!(wrong(12, 50, 2), 1);
        told.add(Effect::Order, Done::Perhaps);
        let wrong = |next| told.judge(&[warehouse(next, 50, 3)], scale).len();
        assert_eq!([wrong(12), wrong(13), wrong(14)], [0, 0, 1]);
    }
}
