//! Consistency conditions of TPC-C (clauses 3.3.2.1 to 3.3.2.12), checked on the contents
//! of one warehouse.
//!
//! | condition | says |
//! | --- | --- |
//! | 1 | a warehouse's year to date is the sum of its districts' |
//! | 2 | a district's next order follows its last, and its last new order |
//! | 3 | new orders of a district have no gaps |
//! | 4 | line counts of a district's orders add up to its lines |
//! | 5 | an order has no carrier if and only if it is a new order |
//! | 6 | an order's line count is the number of its lines |
//! | 7 | a line has no delivery date if and only if its order has no carrier |
//! | 8 | a warehouse's year to date is the sum of its history |
//! | 9 | a district's year to date is the sum of its history |
//! | 10 | a customer's balance is what was delivered less what was paid |
//! | 11 | orders less new orders are those delivered |
//! | 12 | balance and payments together are what was delivered |
//!
//! For condition 11 the standard says 2,100, which holds until the first delivery. Here
//! it is the number of orders delivered initially plus all deliveries that customers have
//! counted since, which holds at any time.

/// State of a customer, as the check has read it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Customer {
    /// Column C_BALANCE, in cents.
    pub balance: i64,
    /// Column C_YTD_PAYMENT, in cents.
    pub paid: i64,
    /// Column C_DELIVERY_CNT.
    pub deliveries: i64,
    /// Sum of the customer's payments in HISTORY.
    pub history: i64,
    /// Sum of the order lines delivered to the customer.
    pub delivered: i64,
    /// Rewards, already deducted from the balance again.
    pub rewards: i64,
}

/// State of an order, as the check has read it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Order {
    /// Column O_ID.
    pub id: i64,
    /// Column O_C_ID.
    pub customer: i64,
    /// Whether O_CARRIER_ID is not null.
    pub has_carrier: bool,
    /// Column O_OL_CNT.
    pub counted: i64,
    /// Number of order lines in the table.
    pub lines: i64,
    /// Number of order lines without a delivery date.
    pub undated: i64,
}

/// State of a district, as the check has read it.
#[derive(Clone, Debug, Default)]
pub struct District {
    /// Column D_ID.
    pub id: i64,
    /// Column D_YTD, in cents.
    pub ytd: i64,
    /// Column D_NEXT_O_ID.
    pub next_order: i64,
    /// Sum of the district's payments in HISTORY.
    pub history: i64,
    /// Orders, sorted by number.
    pub orders: Vec<Order>,
    /// Numbers of the new orders, sorted.
    pub new_orders: Vec<i64>,
    /// Customers, sorted by number, from 1.
    pub customers: Vec<Customer>,
    /// Number of order lines whose order does not exist.
    pub stray_lines: i64,
}

/// State of a warehouse, as the check has read it.
#[derive(Clone, Debug, Default)]
pub struct Warehouse {
    /// Column W_ID.
    pub id: i64,
    /// Column W_YTD, in cents.
    pub ytd: i64,
    /// Sum of the warehouse's payments in HISTORY.
    pub history: i64,
    /// State of the warehouse's ten districts.
    pub districts: Vec<District>,
}

/// Collects a message for each violated condition: which one, where, and how.
#[derive(Debug)]
struct Complaints {
    warehouse: i64,
    all: Vec<String>,
}

impl Complaints {
    fn equal(&mut self, condition: u32, place: &str, is: i64, expected: i64) {
        if is != expected {
            let warehouse = self.warehouse;
            self.all.push(format!(
                "condition 3.3.2.{condition} at warehouse {warehouse}{place}: {is} is not {expected}"
            ));
        }
    }
}

/// Violated conditions of a warehouse in which `delivered` orders per district had been
/// delivered initially.
#[must_use]
pub fn judge(warehouse: &Warehouse, delivered: i64) -> Vec<String> {
    let mut complaints = Complaints {
        warehouse: warehouse.id,
        all: Vec::new(),
    };
    let districts = warehouse.districts.iter();
    let sum = districts.map(|district| district.ytd).sum();
    complaints.equal(1, "", warehouse.ytd, sum);
    complaints.equal(8, "", warehouse.ytd, warehouse.history);
    for district in &warehouse.districts {
        judge_district(district, delivered, &mut complaints);
    }
    complaints.all
}

fn judge_district(district: &District, delivered: i64, complaints: &mut Complaints) {
    let place = format!(", district {}", district.id);
    let District {
        orders, new_orders, ..
    } = district;
    let last = orders.iter().map(|order| order.id).max().unwrap_or(0);
    complaints.equal(2, &place, district.next_order - 1, last);
    if let (Some(first), Some(newest)) = (new_orders.iter().min(), new_orders.iter().max()) {
        complaints.equal(2, &place, *newest, last);
        complaints.equal(3, &place, newest - first + 1, new_orders.len() as i64);
    }
    let counted = orders.iter().map(|order| order.counted).sum();
    let lines: i64 = orders.iter().map(|order| order.lines).sum();
    complaints.equal(4, &place, lines + district.stray_lines, counted);
    complaints.equal(9, &place, district.ytd, district.history);
    let deliveries: i64 = district
        .customers
        .iter()
        .map(|customer| customer.deliveries)
        .sum();
    let done = orders.len() as i64 - new_orders.len() as i64;
    complaints.equal(11, &place, done, delivered + deliveries);
    let mut waiting = new_orders.iter().copied().peekable();
    for order in orders {
        let place = format!("{place}, order {}", order.id);
        while waiting.peek().is_some_and(|&new| new < order.id) {
            waiting.next();
            // A new-order row whose order does not exist.
            complaints.equal(5, &place, 0, 1);
        }
        let is_new = waiting.next_if_eq(&order.id).is_some();
        complaints.equal(5, &place, i64::from(!order.has_carrier), i64::from(is_new));
        complaints.equal(6, &place, order.lines, order.counted);
        let undated = if order.has_carrier { 0 } else { order.lines };
        complaints.equal(7, &place, order.undated, undated);
    }
    for (number, customer) in (1..).zip(&district.customers) {
        let place = format!("{place}, customer {number}");
        let due = customer.delivered - customer.history;
        complaints.equal(10, &place, customer.balance, due);
        let both = customer.balance + customer.paid;
        complaints.equal(12, &place, both, customer.delivered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warehouse with one district, which has an order delivered initially, one
    /// delivered since, and a new one.
    fn sound() -> Warehouse {
        let order = |id, has_carrier| Order {
            id,
            customer: 1,
            has_carrier,
            counted: 5,
            lines: 5,
            undated: if has_carrier { 0 } else { 5 },
        };
        let customer = Customer {
            balance: 70,
            paid: 30,
            deliveries: 1,
            history: 30,
            delivered: 100,
            rewards: 0,
        };
        Warehouse {
            id: 1,
            ytd: 30,
            history: 30,
            districts: vec![District {
                id: 1,
                ytd: 30,
                next_order: 4,
                history: 30,
                orders: vec![order(1, true), order(2, true), order(3, false)],
                new_orders: vec![3],
                customers: vec![customer],
                stray_lines: 0,
            }],
        }
    }

    fn broken(condition: u32, damage: impl Fn(&mut Warehouse, &mut District)) {
        let mut warehouse = sound();
        let mut district = warehouse.districts.remove(0);
        damage(&mut warehouse, &mut district);
        warehouse.districts.push(district);
        let found = judge(&warehouse, 1);
        let name = format!("condition 3.3.2.{condition} ");
        assert!(
            found.iter().any(|complaint| complaint.starts_with(&name)),
            "{name}: {found:?}"
        );
    }

    #[test]
    fn what_is_sound_passes() {
        assert_eq!(judge(&sound(), 1), Vec::<String>::new());
    }

    #[test]
    fn each_condition_sees_its_damage() {
        broken(1, |warehouse, _| warehouse.ytd += 1);
        broken(2, |_, district| district.next_order += 1);
        broken(2, |_, district| district.new_orders[0] = 2);
        broken(3, |_, district| district.new_orders = vec![1, 3]);
        broken(4, |_, district| district.stray_lines = 1);
        broken(5, |_, district| district.orders[2].has_carrier = true);
        broken(5, |_, district| district.new_orders.insert(0, 1));
        broken(6, |_, district| district.orders[0].lines -= 1);
        broken(7, |_, district| district.orders[1].undated = 1);
        broken(7, |_, district| district.orders[2].undated = 0);
        broken(8, |warehouse, _| warehouse.history -= 1);
        broken(9, |_, district| district.history -= 1);
        broken(10, |_, district| district.customers[0].history += 1);
        broken(11, |_, district| district.customers[0].deliveries += 1);
        broken(12, |_, district| district.customers[0].paid += 1);
    }
}
