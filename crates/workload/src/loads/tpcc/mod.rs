//! TPC-C workload: the orders, payments and deliveries of a wholesaler with many
//! warehouses.
//!
//! The implementation is complete: five transactions in their mix, non-uniform choice of
//! customers and items (NURand), 1 % of new orders rolled back, remote warehouses,
//! customers by last name. As usual in research there are no keying and thinking times:
//! each client sends one transaction after the other, so that a result is a throughput
//! and no tpmC in the sense of the standard.
//!
//! | kind | of a hundred | reads | writes |
//! | --- | --- | --- | --- |
//! | new-order | 45 | warehouse, customer, 5 to 15 items | district, order, its lines, stock |
//! | payment | 43 | customer by name in 60 % | warehouse, district, customer, history |
//! | order-status | 4 | customer, the last order, its lines | |
//! | delivery | 4 | the oldest new order of ten districts | order, lines, customer |
//! | stock-level | 4 | lines of 20 orders, their stock | |
//!
//! # Where it departs from the standard
//!
//! - Amounts are whole cents and rates ten-thousandths, in integer columns.
//! - A new order locks its stock in the order of warehouse and item (the unused item of
//!   a rollback last), so that two of them wait rather than deadlock.
//! - A delivery is one transaction over its ten districts, run at once and not queued.
//! - In a benchmark a delivery searches for the oldest new order from the last
//!   delivered one on ([`Tpcc::remembering`]).
//! - A client has a share of the warehouses as its homes: those whose number is
//!   congruent to the client's, modulo the number of clients. So with one client for each
//!   warehouse it has one home.
//! - Items and customers can be fewer ([`Scale`]), for tests; the report states their
//!   numbers.
//!
//! At the end the workload checks all twelve consistency conditions of clause 3.3.2
//! ([`conditions`]), that ordered goods were taken from [`stock`], and that acknowledged
//! transactions are in the tables ([`acknowledged`]).
//!
//! # Modified
//!
//! [`Tpcc::with_rewards`] has a sixth kind, [`reward`], which scans hundreds of customers
//! or thousands; of a hundred transactions 40 are new-order, 40 payment, 10 reward, 4
//! order-status, 4 delivery and 2 stock-level (ROCC §3.5.2). With another share of
//! rewards ([`Tpcc::rewarding`]) the other kinds share the rest in the same proportions.
//!
//! Source: TPC Benchmark C, Standard Specification, revision 5.11.

pub mod acknowledged;
pub mod conditions;
pub mod delivered;
mod delivery;
mod look;
mod new_order;
mod payment;
mod population;
mod queries;
mod random;
mod resume;
mod reward;
mod schema;
mod stock;

use std::sync::Arc;

use serde_json::json;

use crate::chance::Chance;
use crate::store::{Failure, Loader, Session, Table, Versions};
use crate::workload::{Client, Done, Nature, Parameters, Workload};

use schema::{CUSTOMER, DISTRICT, STOCK, WAREHOUSE, c, d, s, w};

use acknowledged::{Acknowledged, Effect};
use delivered::Delivered;
use random::Constants;

/// Size of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Number of warehouses, at least 1.
    pub warehouses: u32,
    /// Number of items, 100,000 in the standard, at least 100.
    pub items: u32,
    /// Number of customers, and of initial orders, of each district, 3,000 in the
    /// standard, at least 10.
    pub customers: u32,
}

impl Scale {
    /// The scale of the standard.
    #[must_use]
    pub const fn standard(warehouses: u32) -> Self {
        Self {
            warehouses,
            items: 100_000,
            customers: 3_000,
        }
    }

    fn bounded(self) -> Self {
        Self {
            warehouses: self.warehouses.max(1),
            items: self.items.max(100),
            customers: self.customers.max(10),
        }
    }

    fn is_standard(self) -> bool {
        self == Self::standard(self.warehouses)
    }

    /// Number of a district's initial orders that have been delivered: 2,100 of 3,000.
    pub(crate) fn delivered(self) -> i64 {
        i64::from(self.customers) * 7 / 10
    }

    /// Number of distinct last names: 1,000, or the number of customers if it is smaller.
    fn last_names(self) -> u64 {
        u64::from(self.customers).min(1_000)
    }
}

/// Districts of a warehouse.
const DISTRICTS: i64 = 10;
/// Initial payments of each customer, in cents.
const PAID: i64 = 1_000;

const KINDS: [&str; 6] = [
    "new-order",
    "payment",
    "order-status",
    "delivery",
    "stock-level",
    "reward",
];

/// Shares of the kinds in per cent: of all but the first, the minimum of clause 5.2.3.
const MIX: [u64; 6] = [45, 43, 4, 4, 4, 0];
/// Shares of the kinds other than rewards in the modified TPC-C, out of ninety.
const MODIFIED_MIX: [u64; 5] = [40, 40, 4, 4, 2];

/// The TPC-C workload.
#[derive(Debug)]
pub struct Tpcc {
    scale: Scale,
    constants: Constants,
    tables: Vec<Table>,
    acknowledged: Arc<Acknowledged>,
    /// Delivery watermarks, if they are enabled.
    delivered: Option<Arc<Delivered>>,
    /// Rewards of the modified TPC-C; `None` for the standard mix.
    rewards: Option<Rewards>,
}

/// Parameters of the rewards of the modified TPC-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewards {
    /// Share of transactions that are rewards, in per cent.
    pub percent: u64,
    /// Number of customers that a reward scans, at least 1.
    pub customers: u32,
}

impl Rewards {
    /// Share of rewards in ROCC, in per cent.
    pub const PERCENT: u64 = 10;
}

/// One transaction, with its random choices made.
#[derive(Clone, Debug)]
pub enum Request {
    /// New-order, clause 2.4.
    NewOrder(new_order::Request),
    /// Payment, clause 2.5.
    Payment(payment::Request),
    /// Order-status, clause 2.6.
    OrderStatus(queries::OrderStatus),
    /// Delivery, clause 2.7.
    Delivery(delivery::Request),
    /// Stock-level, clause 2.8.
    StockLevel(queries::StockLevel),
    /// Reward, ROCC §3.5.2.
    Reward(reward::Request),
}

/// How a terminal identifies a customer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    Id(i64),
    /// A last name, by its number.
    Name(u64),
}

impl Tpcc {
    /// A workload of this scale, clamped to its bounds. The seed decides the contents of
    /// the tables.
    #[must_use]
    pub fn new(scale: Scale, seed: u64) -> Self {
        let scale = scale.bounded();
        Self {
            scale,
            constants: Constants::new(&mut Chance::of(seed, u64::MAX)),
            tables: schema::tables(),
            acknowledged: Arc::default(),
            delivered: None,
            rewards: None,
        }
    }

    /// Enables delivery watermarks, as in the benchmarks that ours is compared with
    /// ([`delivered`]).
    #[must_use]
    pub fn remembering(self) -> Self {
        let delivered = Arc::new(Delivered::new(self.scale.warehouses));
        Self {
            delivered: Some(delivered),
            ..self
        }
    }

    /// The modified TPC-C on the same tables, whose rewards scan `customers` customers,
    /// at least one. Both workloads share the counts of acknowledged transactions, so
    /// they can run on one database, one after the other.
    #[must_use]
    pub fn with_rewards(&self, customers: u32) -> Self {
        self.rewarding(Rewards {
            percent: Rewards::PERCENT,
            customers,
        })
    }

    /// The modified TPC-C on the same tables, with another share of rewards.
    #[must_use]
    pub fn rewarding(&self, rewards: Rewards) -> Self {
        let rewards = Rewards {
            percent: rewards.percent.min(100),
            customers: rewards.customers.clamp(1, self.scale.customers),
        };
        Self {
            scale: self.scale,
            constants: self.constants,
            tables: self.tables.clone(),
            acknowledged: Arc::clone(&self.acknowledged),
            delivered: self.delivered.clone(),
            rewards: Some(rewards),
        }
    }

    /// Proportions in which kinds are drawn.
    fn mix(&self) -> [u64; 6] {
        let Some(Rewards { percent, .. }) = self.rewards else {
            return MIX;
        };
        let others: u64 = MODIFIED_MIX.iter().sum();
        let mut mix = [others * percent; 6];
        for (share, of_others) in mix.iter_mut().zip(MODIFIED_MIX) {
            *share = of_others * (100 - percent);
        }
        mix
    }

    fn draw_kind(&self, chance: &mut Chance) -> usize {
        let mix = self.mix();
        let mut left = chance.within(0..mix.iter().sum());
        let mut kind = 0;
        while left >= mix[kind] {
            left -= mix[kind];
            kind += 1;
        }
        kind
    }

    /// A random home warehouse of a client.
    fn home(&self, client: &mut Client) -> i64 {
        let warehouses = u64::from(self.scale.warehouses);
        let first = client.number % warehouses;
        let homes = (warehouses - first).div_ceil(client.of.max(1)).max(1);
        let home = first + client.chance.within(0..homes) * client.of;
        home.min(warehouses - 1).cast_signed() + 1
    }

    /// A random warehouse other than this one, if there is one.
    fn other(&self, warehouse: i64, chance: &mut Chance) -> i64 {
        let warehouses = i64::from(self.scale.warehouses);
        if warehouses == 1 {
            return warehouse;
        }
        let step = random::uniform(chance, 1, warehouses - 1);
        (warehouse - 1 + step) % warehouses + 1
    }

    fn customer(&self, chance: &mut Chance) -> i64 {
        let customers = i64::from(self.scale.customers);
        self.constants.customer(chance, customers)
    }

    /// A random customer, by last name in 60 per cent of the cases.
    fn who(&self, chance: &mut Chance) -> Who {
        if chance.within(0..100) < 60 {
            Who::Name(self.constants.name(chance, self.scale.last_names()))
        } else {
            Who::Id(self.customer(chance))
        }
    }
}

impl Workload for Tpcc {
    type Request = Request;
    type Effect = Effect;

    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn tables(&self) -> Vec<Table> {
        self.tables.clone()
    }

    fn versions(&self) -> Vec<Versions> {
        let customers = i64::from(self.scale.customers);
        let versions = |table, column, first| Versions {
            table,
            column,
            first,
        };
        let mut all = vec![
            versions(DISTRICT, d::NEXT_O_ID, customers + 1),
            versions(CUSTOMER, c::PAYMENT_CNT, 1),
            versions(CUSTOMER, c::DELIVERY_CNT, 0),
            versions(STOCK, s::ORDER_CNT, 0),
        ];
        // Rewards decrease these columns, so with them a value may recur.
        if self.rewards.is_none() {
            all.push(versions(WAREHOUSE, w::YTD, DISTRICTS * customers * PAID));
            all.push(versions(DISTRICT, d::YTD, customers * PAID));
        }
        all
    }

    fn kinds(&self) -> &'static [&'static str] {
        match self.rewards {
            None => &KINDS[..5],
            Some(_) => &KINDS,
        }
    }

    fn parameters(&self) -> Parameters {
        let scale = self.scale;
        let mut parameters = Parameters::from([
            ("warehouses".to_owned(), json!(scale.warehouses)),
            ("items".to_owned(), json!(scale.items)),
            ("customers_per_district".to_owned(), json!(scale.customers)),
            ("scaled_down".to_owned(), json!(!scale.is_standard())),
        ]);
        if let Some(rewards) = self.rewards {
            parameters.insert("reward_percent".to_owned(), json!(rewards.percent));
            parameters.insert("rewarded_of".to_owned(), json!(rewards.customers));
        }
        parameters
    }

    fn parts(&self) -> u64 {
        u64::from(self.scale.warehouses) + 1
    }

    async fn load(&self, part: u64, loader: &mut Loader) -> Result<(), Failure> {
        self.acknowledged.begin();
        if let Some(delivered) = &self.delivered {
            delivered.begin();
        }
        self.populate(part, loader).await
    }

    async fn resume(&self, session: &mut Session) -> Result<u64, Failure> {
        self.measure(session).await?;
        Ok(0)
    }

    fn draw(&self, client: &mut Client) -> Request {
        let home = self.home(client);
        let kind = self.draw_kind(&mut client.chance);
        match kind {
            0 => Request::NewOrder(self.draw_new_order(home, &mut client.chance)),
            1 => Request::Payment(self.draw_payment(home, &mut client.chance)),
            2 => Request::OrderStatus(self.draw_order_status(home, &mut client.chance)),
            3 => Request::Delivery(self.draw_delivery(home, &mut client.chance)),
            4 => Request::StockLevel(Self::draw_stock_level(home, client)),
            _ => Request::Reward(self.draw_reward(home, &mut client.chance)),
        }
    }

    fn nature(&self, request: &Request) -> Nature {
        let (kind, read_only) = match request {
            Request::NewOrder(_) => (0, false),
            Request::Payment(_) => (1, false),
            Request::OrderStatus(_) => (2, true),
            Request::Delivery(_) => (3, false),
            Request::StockLevel(_) => (4, true),
            Request::Reward(_) => (5, false),
        };
        Nature {
            kind,
            read_only,
            single: false,
        }
    }

    async fn run(
        &self,
        request: &Request,
        _client: &mut Client,
        session: &mut Session,
    ) -> Result<Effect, Failure> {
        match request {
            Request::NewOrder(request) => {
                self.new_order(request, session).await?;
                Ok(Effect::Order)
            }
            Request::Payment(request) => {
                self.payment(request, session).await?;
                Ok(Effect::Payment(request.amount))
            }
            Request::OrderStatus(request) => {
                self.order_status(request, session).await?;
                Ok(Effect::None)
            }
            Request::Delivery(request) => {
                let orders = self.deliver(request, session).await?;
                Ok(Effect::Deliveries(orders))
            }
            Request::StockLevel(request) => {
                self.stock_level(request, session).await?;
                Ok(Effect::None)
            }
            Request::Reward(request) => {
                self.reward(request, session).await?;
                Ok(Effect::Reward)
            }
        }
    }

    fn ended(&self, request: &Request, effect: Option<Effect>, done: Done) {
        if let (Request::Delivery(request), Some(Effect::Deliveries(orders)), Done::Committed) =
            (request, effect, done)
            && let Some(delivered) = &self.delivered
        {
            delivered.add(request.warehouse, &orders);
        }
        self.acknowledged.add(effect.unwrap_or(Effect::None), done);
    }

    async fn check(&self, session: &mut Session) -> Result<Vec<String>, Failure> {
        self.look(session).await
    }
}

/// Error for a row that must exist but does not.
fn missing(what: &str, key: &[i64]) -> Failure {
    Failure::Wrong(format!("{what} {key:?} is missing"))
}

/// The wall-clock time in microseconds since the Unix epoch, for dates in rows.
fn now() -> i64 {
    i64::try_from(coeval_env::wall_clock().as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_warehouse_is_a_home_and_only_its_clients() {
        for (warehouses, clients) in [(1, 4), (4, 4), (10, 3), (3, 10)] {
            let tpcc = Tpcc::new(Scale::standard(warehouses), 1);
            let mut homes = std::collections::BTreeSet::new();
            for number in 0..clients {
                let mut client = Client::new(number, clients, 1);
                for _ in 0..200 {
                    let home = tpcc.home(&mut client);
                    let warehouses = u64::from(warehouses);
                    let index = home.unsigned_abs() - 1;
                    assert!(index < warehouses);
                    if clients <= warehouses {
                        assert_eq!(index % clients, number);
                    } else {
                        assert_eq!(index, number % warehouses);
                    }
                    homes.insert(home);
                }
            }
            assert_eq!(homes.len(), warehouses as usize);
        }
    }

    #[test]
    fn the_mix_is_what_it_says() {
        let standard = Tpcc::new(Scale::standard(1), 1);
        let rewarding = |percent| {
            standard.rewarding(Rewards {
                percent,
                customers: 100,
            })
        };
        for (tpcc, mix) in [
            (&standard, [45, 43, 4, 4, 4, 0]),
            (&standard.with_rewards(100), [40, 40, 4, 4, 2, 10]),
            (&rewarding(55), [20, 20, 2, 2, 1, 55]),
            (&rewarding(100), [0, 0, 0, 0, 0, 100]),
        ] {
            let mut chance = Chance::new(3);
            let mut counts = [0_u64; 6];
            for _ in 0..100_000 {
                counts[tpcc.draw_kind(&mut chance)] += 1;
            }
            for (count, share) in counts.iter().zip(mix) {
                assert!(count.abs_diff(share * 1_000) < 500, "{counts:?}");
            }
        }
    }
}
