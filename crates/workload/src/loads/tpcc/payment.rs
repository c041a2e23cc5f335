//! TPC-C payment transaction (clause 2.5): a customer pays, possibly at another warehouse
//! than their own.

use crate::chance::Chance;
use crate::store::{Cells, Failure, Maker, Row, Scan, Session, Value};

use super::random::{last_name, uniform};
use super::schema::{BY_NAME, CUSTOMER, DISTRICT, HISTORY, WAREHOUSE, c, d, w};
use super::{DISTRICTS, Tpcc, Who, missing, now};

/// Maximum length of a customer's data, in bytes.
const DATA: usize = 500;

/// Parameters of a payment.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    warehouse: i64,
    district: i64,
    customer_warehouse: i64,
    customer_district: i64,
    who: Who,
    pub(super) amount: i64,
}

impl Tpcc {
    pub(super) fn draw_payment(&self, home: i64, chance: &mut Chance) -> Request {
        let district = uniform(chance, 1, DISTRICTS);
        let remote = self.scale.warehouses > 1 && chance.within(0..100) < 15;
        let (customer_warehouse, customer_district) = if remote {
            (self.other(home, chance), uniform(chance, 1, DISTRICTS))
        } else {
            (home, district)
        };
        Request {
            warehouse: home,
            district,
            customer_warehouse,
            customer_district,
            who: self.who(chance),
            amount: uniform(chance, 100, 500_000),
        }
    }

    /// Resolves a customer to a number: of those with a last name the middle one, by
    /// first name, rounded up.
    pub(super) async fn find(
        &self,
        warehouse: i64,
        district: i64,
        who: Who,
        session: &mut Session,
    ) -> Result<i64, Failure> {
        let name = match who {
            Who::Id(customer) => return Ok(customer),
            Who::Name(name) => last_name(name),
        };
        let prefix = [
            Value::Integer(warehouse),
            Value::Integer(district),
            Value::Text(&name),
        ];
        let scan = Scan {
            index: Some(BY_NAME),
            ..Scan::of(CUSTOMER, &prefix)
        };
        let mut customers = Vec::new();
        session
            .scan(&scan, &mut |row| customers.push(row.integer(c::ID)))
            .await?;
        // The ⌈n/2⌉th of n, counted from 1.
        let middle = customers.len().saturating_sub(1) / 2;
        let nobody = || Failure::Wrong(format!("no customer is called {name}"));
        customers.get(middle).copied().ok_or_else(nobody)
    }

    pub(super) async fn payment(
        &self,
        request: &Request,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let &Request {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            who,
            amount,
        } = request;
        let mut row = Row::default();
        if !session.lock(WAREHOUSE, &[warehouse], &mut row).await? {
            return Err(missing("warehouse", &[warehouse]));
        }
        let mut data = row.text(w::NAME).to_owned();
        row.set_integer(
            &self.tables[WAREHOUSE],
            w::YTD,
            row.integer(w::YTD) + amount,
        );
        session.update(WAREHOUSE, &row, &[w::YTD]).await?;
        let key = [warehouse, district];
        if !session.lock(DISTRICT, &key, &mut row).await? {
            return Err(missing("district", &key));
        }
        data.push_str("    ");
        data.push_str(row.text(d::NAME));
        row.set_integer(&self.tables[DISTRICT], d::YTD, row.integer(d::YTD) + amount);
        session.update(DISTRICT, &row, &[d::YTD]).await?;

        let customer = self.find(customer_warehouse, customer_district, who, session);
        let key = [customer_warehouse, customer_district, customer.await?];
        if !session.lock(CUSTOMER, &key, &mut row).await? {
            return Err(missing("customer", &key));
        }
        self.charge(request, key[2], &mut row, session).await?;

        let mut maker = Maker::new();
        let table = &self.tables[HISTORY];
        for cell in [
            key[2],
            customer_district,
            customer_warehouse,
            district,
            warehouse,
            now(),
            amount,
        ] {
            maker.integer(table, cell);
        }
        maker.text(&data).finish(&mut row);
        session.insert(HISTORY, &row).await
    }

    /// Updates the customer's row, which is locked.
    async fn charge(
        &self,
        request: &Request,
        customer: i64,
        row: &mut Row,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let table = &self.tables[CUSTOMER];
        let amount = request.amount;
        row.set_integer(table, c::BALANCE, row.integer(c::BALANCE) - amount);
        row.set_integer(table, c::YTD_PAYMENT, row.integer(c::YTD_PAYMENT) + amount);
        row.set_integer(table, c::PAYMENT_CNT, row.integer(c::PAYMENT_CNT) + 1);
        let changed = [c::BALANCE, c::YTD_PAYMENT, c::PAYMENT_CNT, c::DATA];
        if row.text(c::CREDIT) != "BC" {
            return session.update(CUSTOMER, row, &changed[..3]).await;
        }
        // For a customer with bad credit, the payment is recorded in the customer's data.
        let mut text = format!(
            "{customer} {} {} {} {} {amount}|{}",
            request.customer_district,
            request.customer_warehouse,
            request.district,
            request.warehouse,
            row.text(c::DATA)
        );
        // All characters are single bytes.
        text.truncate(DATA);
        row.set_text(c::DATA, &text);
        session.update(CUSTOMER, row, &changed).await
    }
}
