//! TPC-C scale check: verifies that tables filled by an earlier run have this run's
//! scale.

use crate::loads::sized;
use crate::store::{Failure, Scan, Session, Value};

use super::Tpcc;
use super::schema::{CUSTOMER, ITEM, WAREHOUSE};

impl Tpcc {
    /// Counts the rows whose number depends on the scale.
    pub(super) async fn measure(&self, session: &mut Session) -> Result<(), Failure> {
        // All districts have the same number of customers.
        let district = [Value::Integer(1), Value::Integer(1)];
        for (table, prefix, what, wanted) in [
            (WAREHOUSE, &[][..], "warehouses", self.scale.warehouses),
            (ITEM, &[], "items", self.scale.items),
            (
                CUSTOMER,
                &district,
                "customers of a district",
                self.scale.customers,
            ),
        ] {
            let found = session.scan(&Scan::of(table, prefix), &mut |_| {}).await?;
            sized(&self.tables[table], what, found as u64, wanted.into())?;
        }
        Ok(())
    }
}
