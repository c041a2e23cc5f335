//! Delivery watermarks of TPC-C: for each district, the last order whose delivery was
//! acknowledged, so that the next delivery starts its search there.
//!
//! New orders are a queue: deliveries delete its first entry, and while a reader holds an
//! old snapshot, as a checkpoint does, the deleted entries remain and every search for
//! the first one passes them. A delivery that starts after the last delivered order
//! avoids that, as the published benchmarks of Silo and ERMIA do, to whose CPU time per
//! transaction ours is compared.
//!
//! Only a benchmark enables the watermarks
//! ([`Tpcc::remembering`](super::Tpcc::remembering)). In correctness tests, deliveries
//! search from the start of the queue and pass the deleted entries, so that the search
//! finds an index entry whose row is gone, or is back.
//!
//! The result is the same. An order gets its number from a row of its district that the
//! transaction writes, so a snapshot that contains an order contains all before it, and a
//! delivery takes the first that exists: when the delivery of one order has committed, so
//! have those of all before it. A delivery reads its watermarks before its transaction
//! begins, and all deliveries acknowledged by then are in its snapshot. On a database
//! whose snapshots may be older, a delivery may skip orders that others have delivered
//! since, where it would have conflicted with them.
//!
//! Only committed deliveries advance a watermark, so a watermark can be too low but never
//! too high, unless the database loses an acknowledged commit: then an order is never
//! delivered, and the conditions detect it.

use std::sync::atomic::{AtomicI64, Ordering};

use super::DISTRICTS;

/// The orders that one delivery has taken, by district; 0 for a district without a new
/// order.
pub type Orders = [i64; DISTRICTS as usize];

/// Delivery watermarks of all districts; see the [module](self).
#[derive(Debug)]
pub(super) struct Delivered {
    /// Last delivered order of each district, warehouse by warehouse.
    last: Box<[AtomicI64]>,
}

impl Delivered {
    pub(super) fn new(warehouses: u32) -> Self {
        let districts = i64::from(warehouses) * DISTRICTS;
        Self {
            last: (0..districts).map(|_| AtomicI64::new(0)).collect(),
        }
    }

    fn of(&self, warehouse: i64, district: i64) -> &AtomicI64 {
        let at = (warehouse - 1) * DISTRICTS + district - 1;
        &self.last[usize::try_from(at).expect("numbers begin at 1")]
    }

    /// For each district, the first order that may still be undelivered.
    pub(super) fn first(&self, warehouse: i64) -> Orders {
        let mut first = [1; DISTRICTS as usize];
        for (district, first) in (1..).zip(&mut first) {
            *first += self.of(warehouse, district).load(Ordering::Relaxed);
        }
        first
    }

    /// Advances the watermarks after a delivery of these orders.
    pub(super) fn add(&self, warehouse: i64, orders: &Orders) {
        for (district, &order) in (1..).zip(orders) {
            self.of(warehouse, district)
                .fetch_max(order, Ordering::Relaxed);
        }
    }

    /// Resets the watermarks for newly filled tables.
    pub(super) fn begin(&self) {
        for last in &self.last {
            last.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use coeval_txn::Serial;

    use super::super::{Scale, Tpcc};
    use super::*;
    use crate::driver::{self, Length, Options};
    use crate::store::Database;

    #[test]
    fn a_place_is_of_its_district_and_goes_on_only() {
        let delivered = Delivered::new(2);
        let mut orders = Orders::default();
        (orders[0], orders[9]) = (2_101, 2_107);
        delivered.add(2, &orders);
        orders[9] = 2_105;
        delivered.add(2, &orders);
        assert_eq!(delivered.first(2), [2_102, 1, 1, 1, 1, 1, 1, 1, 1, 2_108]);
        assert_eq!(delivered.first(1), [1; 10]);
        delivered.begin();
        assert_eq!(delivered.first(2), [1; 10]);
    }

    /// Runs transactions on a small warehouse whose deliveries start at `places`; returns
    /// the violations, and the final watermarks.
    async fn after(transactions: u64, places: Orders) -> (Vec<String>, Orders) {
        let scale = Scale {
            warehouses: 1,
            items: 100,
            customers: 20,
        };
        let tpcc = Arc::new(Tpcc::new(scale, 7).remembering());
        let database = Database::in_process(Arc::new(Serial::new()), tpcc.tables.clone());
        let mut found = Vec::new();
        for load in [true, false] {
            let length = Length::Transactions(if load { 1 } else { transactions });
            let options = Options {
                length,
                load,
                ..Options::default()
            };
            let ran = driver::run(&tpcc, &database, &options, &mut |_| {}).await;
            found.extend(ran.unwrap().report.violations);
            let delivered = tpcc.delivered.as_ref().unwrap();
            if load {
                delivered.add(1, &places);
            }
        }
        (found, tpcc.delivered.as_ref().unwrap().first(1))
    }

    #[tokio::test]
    async fn deliveries_that_remember_leave_nothing() {
        let (found, first) = after(600, Orders::default()).await;
        assert_eq!(found, Vec::<String>::new());
        // Fourteen of the twenty orders are delivered initially.
        assert!(first.iter().all(|first| *first > 20), "{first:?}");
    }

    #[tokio::test]
    async fn an_order_that_is_passed_over_is_missed() {
        let mut places = Orders::default();
        // The next order is 15, unless the first transaction was a delivery.
        places[3] = 17;
        let (found, _) = after(600, places).await;
        let is_said = |said: &String| said.contains("condition 3");
        assert!(found.iter().any(is_said), "{found:?}");
    }
}
