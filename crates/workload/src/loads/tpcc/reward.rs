//! TPC-C reward transaction, the bulk transaction of the modified TPC-C (ROCC §3.5.2):
//! among many customers of a district, the one who has paid most is given money.
//!
//! The transaction scans a range of customer numbers in a random district of its home
//! warehouse, and updates three rows: the customer's balance gets [`REWARD`], which is
//! deducted from warehouse and district. So it conflicts with payments of customers that
//! it has scanned, also with those made at other warehouses.
//!
//! The document defines neither the amount of the reward nor the updates of warehouse and
//! district. Here the money is deducted from their year to date, as if a payment had been
//! reversed, and it is recorded nowhere else. So condition 12 yields a customer's
//! rewards: the excess of balance and payments over deliveries. Once that is deducted
//! again ([`take_back`]), the twelve conditions have to hold, and the number of rewards
//! has to match the acknowledged ones.

use crate::chance::Chance;
use crate::store::{Cells, Failure, Row, Scan, Session, Value};

use super::conditions::Warehouse;
use super::random::uniform;
use super::schema::{CUSTOMER, DISTRICT, WAREHOUSE, c, d, w};
use super::{DISTRICTS, Tpcc, missing};

/// The amount of a reward, in cents.
pub(super) const REWARD: i64 = 5_000;

/// Parameters of a reward.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    warehouse: i64,
    district: i64,
    /// First and last customer number of the scan.
    from: i64,
    to: i64,
}

impl Tpcc {
    pub(super) fn draw_reward(&self, home: i64, chance: &mut Chance) -> Request {
        let customers = i64::from(self.scale.customers);
        let looked_at = self
            .rewards
            .map_or(1, |rewards| i64::from(rewards.customers));
        let from = uniform(chance, 1, customers - looked_at + 1);
        Request {
            warehouse: home,
            district: uniform(chance, 1, DISTRICTS),
            from,
            to: from + looked_at - 1,
        }
    }

    pub(super) async fn reward(
        &self,
        request: &Request,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let &Request {
            warehouse,
            district,
            from,
            to,
        } = request;
        let prefix = [Value::Integer(warehouse), Value::Integer(district)];
        let range = Scan {
            from: Some(from),
            to: Some(to),
            ..Scan::of(CUSTOMER, &prefix)
        };
        // Of two customers who have paid the same, the first is chosen.
        let mut best = None;
        let count = session
            .scan(&range, &mut |row| {
                let paid = row.integer(c::YTD_PAYMENT);
                if best.is_none_or(|(most, _)| paid > most) {
                    best = Some((paid, row.integer(c::ID)));
                }
            })
            .await?;
        let (paid, customer) = best.ok_or_else(|| missing("customer", &[from]))?;
        if count as i64 != to - from + 1 {
            return Err(Failure::Wrong(format!(
                "{count} customers are numbered from {from} to {to}"
            )));
        }
        let mut row = Row::default();
        if !session.lock(WAREHOUSE, &[warehouse], &mut row).await? {
            return Err(missing("warehouse", &[warehouse]));
        }
        let table = &self.tables[WAREHOUSE];
        row.set_integer(table, w::YTD, row.integer(w::YTD) - REWARD);
        session.update(WAREHOUSE, &row, &[w::YTD]).await?;
        let key = [warehouse, district];
        if !session.lock(DISTRICT, &key, &mut row).await? {
            return Err(missing("district", &key));
        }
        let table = &self.tables[DISTRICT];
        row.set_integer(table, d::YTD, row.integer(d::YTD) - REWARD);
        session.update(DISTRICT, &row, &[d::YTD]).await?;
        let key = [warehouse, district, customer];
        if !session.lock(CUSTOMER, &key, &mut row).await? {
            return Err(missing("customer", &key));
        }
        std::hint::black_box(paid);
        let table = &self.tables[CUSTOMER];
        row.set_integer(table, c::BALANCE, row.integer(c::BALANCE) + REWARD);
        session.update(CUSTOMER, &row, &[c::BALANCE]).await
    }
}

/// Deducts the rewards from the customers of a warehouse, so that the conditions of the
/// standard can be checked; reports each customer whose excess is not a whole number of
/// rewards.
pub(super) fn take_back(warehouse: &mut Warehouse) -> Vec<String> {
    let mut wrong = Vec::new();
    for district in &mut warehouse.districts {
        for (number, customer) in (1..).zip(&mut district.customers) {
            let given = customer.balance + customer.paid - customer.delivered;
            if given < 0 || given % REWARD != 0 {
                let (at, of) = (warehouse.id, district.id);
                wrong.push(format!(
                    "customer {number} of warehouse {at}, district {of} has {given} cents more \
                     than was paid and delivered, which are no rewards"
                ));
            }
            customer.balance -= given;
            customer.rewards = given / REWARD;
            district.ytd += given;
            warehouse.ytd += given;
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::tpcc::Scale;
    use crate::loads::tpcc::conditions::{Customer, District};

    #[test]
    fn scans_are_as_long_as_they_should_be() {
        let tpcc = Tpcc::new(Scale::standard(2), 1).with_rewards(700);
        let mut chance = Chance::new(2);
        for _ in 0..1_000 {
            let request = tpcc.draw_reward(2, &mut chance);
            assert_eq!(request.to - request.from + 1, 700);
            assert!(request.from >= 1 && request.to <= 3_000);
        }
        let all = Tpcc::new(Scale::standard(2), 1).with_rewards(9_000);
        let request = all.draw_reward(1, &mut chance);
        assert_eq!((request.from, request.to), (1, 3_000));
    }

    #[test]
    fn rewards_are_taken_back_and_nothing_else_is_one() {
        let warehouse = |balance| Warehouse {
            ytd: 30 - 2 * REWARD,
            districts: vec![District {
                ytd: 30 - 2 * REWARD,
                customers: vec![Customer {
                    balance,
                    paid: 30,
                    delivered: 100,
                    ..Customer::default()
                }],
                ..District::default()
            }],
            ..Warehouse::default()
        };
        let mut rewarded = warehouse(70 + 2 * REWARD);
        assert!(take_back(&mut rewarded).is_empty());
        assert_eq!((rewarded.ytd, rewarded.districts[0].ytd), (30, 30));
        let customer = &rewarded.districts[0].customers[0];
        assert_eq!((customer.balance, customer.rewards), (70, 2));
        assert_eq!(take_back(&mut warehouse(71 + REWARD)).len(), 1);
        assert_eq!(take_back(&mut warehouse(70 - REWARD)).len(), 1);
    }
}
