//! Up to which order each district has delivered, as far as clients were told.
//!
//! New orders are a queue: deliveries delete its first, and while somebody reads at an old
//! snapshot, as a checkpoint does, what was deleted stays where every look for the first one
//! passes it. A delivery that was told where the last one ended begins behind that, as those of
//! the published benchmarks of Silo and ERMIA do, with whose processor time for each
//! transaction ours is compared.
//!
//! The answer is the same: an order has its number from a row of its district that the
//! transaction writes, so whoever sees an order sees all before it, and delivers the first that
//! is there. So when the delivery of one has committed, all before it have been.
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

    /// The first order that may still be there.
    pub(super) fn first(&self, warehouse: i64, district: i64) -> i64 {
        self.of(warehouse, district).load(Ordering::Relaxed) + 1
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
    use super::*;

    #[test]
    fn a_place_is_of_its_district_and_goes_on_only() {
        let delivered = Delivered::new(2);
        let mut orders = [0; DISTRICTS as usize];
        (orders[0], orders[9]) = (2_101, 2_107);
        delivered.add(2, &orders);
        orders[9] = 2_105;
        delivered.add(2, &orders);
        assert_eq!(delivered.first(2, 1), 2_102);
        assert_eq!(delivered.first(2, 10), 2_108);
        assert_eq!(delivered.first(2, 9), 1);
        assert_eq!(delivered.first(1, 10), 1);
        delivered.begin();
        assert_eq!(delivered.first(2, 10), 1);
    }
}
