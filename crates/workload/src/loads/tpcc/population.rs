//! TPC-C population: the initial contents of the tables (clause 4.3.3).
//!
//! The first part is the items, each further one a warehouse with all its rows. Each part
//! has a random number generator of its own, so that any number of threads makes the same
//! rows.

use crate::chance::Chance;
use crate::store::{Failure, Loader, Maker, Row};

use super::random::{data, digits, last_name, letters, permutation, uniform, zip};
use super::schema::{
    CUSTOMER, DISTRICT, HISTORY, ITEM, NEW_ORDER, ORDER, ORDER_LINE, STOCK, WAREHOUSE,
};
use super::{DISTRICTS, PAID, Tpcc, now};

/// Generates and loads rows.
struct Put<'p> {
    tpcc: &'p Tpcc,
    loader: &'p mut Loader,
    chance: Chance,
    maker: Maker,
    row: Row,
}

/// A cell of a row to be built.
enum Cell {
    Number(i64),
    Text(String),
    Null,
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

macro_rules! cells {
    ($($cell:expr),* $(,)?) => { [$(Cell::from($cell)),*] };
}

impl Put<'_> {
    async fn row(
        &mut self,
        table: usize,
        cells: impl IntoIterator<Item = Cell>,
    ) -> Result<(), Failure> {
        let definition = &self.tpcc.tables[table];
        for cell in cells {
            match cell {
                Cell::Number(number) => self.maker.integer(definition, number),
                Cell::Text(text) => self.maker.text(&text),
                Cell::Null => self.maker.null(),
            };
        }
        self.maker.finish(&mut self.row);
        self.loader.row(table, &self.row).await
    }

    fn number(&mut self, x: i64, y: i64) -> i64 {
        uniform(&mut self.chance, x, y)
    }

    fn letters(&mut self, x: i64, y: i64) -> String {
        letters(&mut self.chance, x, y)
    }

    /// Two streets, a city, a state and a zip code.
    fn address(&mut self) -> [Cell; 5] {
        cells![
            self.letters(10, 20),
            self.letters(10, 20),
            self.letters(10, 20),
            self.letters(2, 2),
            zip(&mut self.chance),
        ]
    }

    async fn items(&mut self) -> Result<(), Failure> {
        for item in 1..=i64::from(self.tpcc.scale.items) {
            let cells = cells![
                item,
                self.number(1, 10_000),
                self.letters(14, 24),
                self.number(100, 10_000),
                data(&mut self.chance),
            ];
            self.row(ITEM, cells).await?;
        }
        Ok(())
    }

    async fn warehouse(&mut self, warehouse: i64) -> Result<(), Failure> {
        let customers = i64::from(self.tpcc.scale.customers);
        let name = self.letters(6, 10);
        let mut cells = Vec::from(cells![warehouse, name]);
        cells.extend(self.address());
        cells.extend(cells![
            self.number(0, 2_000),
            // The sum of the initial values of the districts.
            DISTRICTS * customers * PAID,
        ]);
        self.row(WAREHOUSE, cells).await?;
        self.stock(warehouse).await?;
        for district in 1..=DISTRICTS {
            let name = self.letters(6, 10);
            let mut cells = Vec::from(cells![warehouse, district, name]);
            cells.extend(self.address());
            cells.extend(cells![
                self.number(0, 2_000),
                customers * PAID,
                customers + 1,
            ]);
            self.row(DISTRICT, cells).await?;
            self.customers(warehouse, district).await?;
            self.orders(warehouse, district).await?;
        }
        Ok(())
    }

    async fn stock(&mut self, warehouse: i64) -> Result<(), Failure> {
        for item in 1..=i64::from(self.tpcc.scale.items) {
            let mut cells = Vec::from(cells![warehouse, item, self.number(10, 100)]);
            for _ in 0..DISTRICTS {
                cells.push(self.letters(24, 24).into());
            }
            cells.extend(cells![0, 0, 0, data(&mut self.chance)]);
            self.row(STOCK, cells).await?;
        }
        Ok(())
    }

    async fn customers(&mut self, warehouse: i64, district: i64) -> Result<(), Failure> {
        let names = self.tpcc.scale.last_names();
        for customer in 1..=i64::from(self.tpcc.scale.customers) {
            // Each name occurs at least once.
            let name = match customer.unsigned_abs() - 1 {
                number if number < names => number,
                _ => self.tpcc.constants.name_at_load(&mut self.chance, names),
            };
            let mut cells = Vec::from(cells![
                warehouse,
                district,
                customer,
                self.letters(8, 16),
                "OE",
                last_name(name),
            ]);
            cells.extend(self.address());
            let credit = if self.chance.once_in(10) { "BC" } else { "GC" };
            cells.extend(cells![
                digits(&mut self.chance, 16),
                now(),
                credit,
                5_000_000,
                self.number(0, 5_000),
                -PAID,
                PAID,
                1,
                0,
                self.letters(300, 500),
            ]);
            self.row(CUSTOMER, cells).await?;
            let cells = cells![
                customer,
                district,
                warehouse,
                district,
                warehouse,
                now(),
                PAID,
                self.letters(12, 24),
            ];
            self.row(HISTORY, cells).await?;
        }
        Ok(())
    }

    async fn orders(&mut self, warehouse: i64, district: i64) -> Result<(), Failure> {
        let scale = self.tpcc.scale;
        let customers = permutation(&mut self.chance, scale.customers.into());
        for (order, customer) in (1..).zip(customers) {
            let entered = now();
            let delivered = order <= scale.delivered();
            let lines = self.number(5, 15);
            let carrier = match delivered {
                true => self.number(1, 10).into(),
                false => Cell::Null,
            };
            let mut cells = Vec::from(cells![warehouse, district, order, customer, entered]);
            cells.push(carrier);
            cells.extend(cells![lines, 1]);
            self.row(ORDER, cells).await?;
            if !delivered {
                let cells = cells![warehouse, district, order];
                self.row(NEW_ORDER, cells).await?;
            }
            for line in 1..=lines {
                let item = self.number(1, scale.items.into());
                let mut cells =
                    Vec::from(cells![warehouse, district, order, line, item, warehouse]);
                let (date, amount) = match delivered {
                    true => (Cell::Number(entered), 0),
                    false => (Cell::Null, self.number(1, 999_999)),
                };
                cells.push(date);
                cells.extend(cells![5, amount, self.letters(24, 24)]);
                self.row(ORDER_LINE, cells).await?;
            }
        }
        Ok(())
    }
}

impl Tpcc {
    /// Loads one part of the rows.
    pub(super) async fn populate(&self, part: u64, loader: &mut Loader) -> Result<(), Failure> {
        let mut put = Put {
            tpcc: self,
            loader,
            chance: Chance::of(self.constants.seed(), part),
            maker: Maker::new(),
            row: Row::default(),
        };
        match part {
            0 => put.items().await,
            warehouse => put.warehouse(warehouse.cast_signed()).await,
        }
    }
}
