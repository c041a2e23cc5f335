//! Up to which order each district has delivered, as far as clients were told.
//!
//! New orders are a queue: deliveries delete its first, and while somebody reads at an old
//! snapshot, as a checkpoint does, what was deleted stays where every look for the first one
//! passes it. A delivery that was told where the last one ended begins behind that, as those of
//! the published benchmarks of Silo and ERMIA do, with whose processor time for each
//! transaction ours is compared.
//!
//! Only a benchmark asks for it ([`Tpcc::remembering`](super::Tpcc::remembering)). Where the
//! database is on trial, deliveries look from the start of the queue and pass what was deleted,
//! so that an entry that leads to a row which is gone, or back, is met.
//!
//! The answer is the same. An order has its number from a row of its district that the
//! transaction writes, so whoever sees an order sees all before it, and delivers the first that
//! is there: when the delivery of one has committed, so have those of all before it. A delivery
//! takes its places before its transaction begins, and what was acknowledged by then is in its
//! snapshot. On a database whose snapshots may be older than that, a delivery may pass orders
//! that others have delivered since, where it would have conflicted with them.
//!
//! Only what has committed for certain counts, so a place can be too far back and never too far
//! on, unless the database loses what it has acknowledged: then an order is left for good, and
//! the conditions miss it.

use std::sync::atomic::{AtomicI64, Ordering};

use super::DISTRICTS;

/// The orders that one delivery has taken, by district; 0 where there was none.
pub type Orders = [i64; DISTRICTS as usize];

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Delivered {
    /// The last one of each district, warehouse by warehouse.
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

    /// The first orders that may still be there.
    pub(super) fn first(&self, warehouse: i64) -> Orders {
        let mut first = [1; DISTRICTS as usize];
        for (district, first) in (1..).zip(&mut first) {
            *first += self.of(warehouse, district).load(Ordering::Relaxed);
        }
        first
    }

    /// These have been delivered.
    pub(super) fn add(&self, warehouse: i64, orders: &Orders) {
        for (district, &order) in (1..).zip(orders) {
            self.of(warehouse, district)
                .fetch_max(order, Ordering::Relaxed);
        }
    }

    /// The tables are new.
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

    /// So many transactions of a small warehouse, whose deliveries begin where these have
    /// been; what is objected to, and how far deliveries have come.
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
        // Fourteen of twenty are delivered to begin with.
        assert!(first.iter().all(|first| *first > 20), "{first:?}");
    }

    #[tokio::test]
    async fn an_order_that_is_passed_over_is_missed() {
        let mut places = Orders::default();
        // The next one is 15, unless the first transaction was a delivery.
        places[3] = 17;
        let (found, _) = after(600, places).await;
        let is_said = |said: &String| said.contains("condition 3");
        assert!(found.iter().any(is_said), "{found:?}");
    }
}
