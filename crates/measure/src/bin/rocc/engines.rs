//! Filled engines of the rocc benchmark, one for each validator, reused across figures
//! because filling one takes longer than a turn.

use std::sync::Arc;
use std::time::Duration;

use coeval_occ::{Engine, Settings, Statistics, Validator};
use coeval_txn::Isolation;
use coeval_workload::driver::{self, Length, Options, Report};
use coeval_workload::loads::hybrid::{self, Hybrid};
use coeval_workload::loads::tpcc::{Scale, Tpcc};
use coeval_workload::store::Database;
use coeval_workload::workload::Workload;

use super::Arguments;

/// Seed of the random number generator.
const SEED: u64 = 1;
/// Limit on ranges, higher than in any figure.
const MAX_RANGES: usize = 1 << 20;
/// Number of rounds of range balancing after the load.
const ROUNDS: usize = 3;

/// Parameters of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    pub validator: Validator,
    /// Approximate number of keys in a logical range.
    pub keys_of_range: u64,
    /// Number of slots in the ring of a range.
    pub slots: usize,
}

/// Workload of an engine.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// Hybrid YCSB with these settings.
    Hybrid(hybrid::Settings),
    /// Modified TPC-C, whose rewards scan this many customers.
    Rewards(u32),
}

impl Load {
    /// Number of keys in a scan of the workload.
    pub fn scan(&self) -> u64 {
        match self {
            Self::Hybrid(settings) => settings.scan,
            Self::Rewards(customers) => u64::from(*customers),
        }
    }

    /// Skew of the keys, for a Zipfian workload.
    pub fn theta(&self) -> Option<f64> {
        match self {
            Self::Hybrid(settings) => Some(settings.theta),
            Self::Rewards(_) => None,
        }
    }

    /// Name of the workload, and the index of its kind of transactions with scans.
    pub fn kind(&self) -> (&'static str, usize) {
        match self {
            Self::Hybrid(_) => ("ycsb", 1),
            Self::Rewards(_) => ("tpcc", 5),
        }
    }
}

/// Rows of an engine, with the workload that loaded them.
enum Rows {
    Hybrid(Hybrid),
    Tpcc(Tpcc),
}

struct Filled {
    setup: Setup,
    engine: Arc<Engine>,
    database: Database,
    rows: Rows,
}

impl Filled {
    fn suits(&self, setup: Setup, load: &Load) -> bool {
        let same_rows = matches!(
            (&self.rows, load),
            (Rows::Hybrid(_), Load::Hybrid(_)) | (Rows::Tpcc(_), Load::Rewards(_))
        );
        same_rows && self.setup == setup
    }

    async fn new(setup: Setup, load: &Load, arguments: &Arguments) -> Result<Self, String> {
        let settings = Settings {
            validator: setup.validator,
            range_slots: setup.slots,
            // Ranges are split as the figure says, whether or not that is beneficial.
            registrations_in_vain: 0,
            records_per_range: setup.keys_of_range,
            ranges_per_index: MAX_RANGES,
            ..Settings::default()
        };
        let engine = Engine::ephemeral(settings).map_err(|error| error.to_string())?;
        let engine = Arc::new(engine);
        let (rows, database);
        match load {
            Load::Hybrid(_) => {
                let workload = Arc::new(Hybrid::new(hybrid::Settings {
                    records: arguments.records,
                    ..hybrid::Settings::default()
                }));
                database = fill(&workload, &engine, arguments).await?;
                rows = Rows::Hybrid(workload.met(hybrid::Settings::default()));
            }
            Load::Rewards(_) => {
                let scale = Scale {
                    items: arguments.items,
                    ..Scale::standard(arguments.warehouses)
                };
                let workload = Arc::new(Tpcc::new(scale, SEED));
                database = fill(&workload, &engine, arguments).await?;
                rows = Rows::Tpcc(workload.with_rewards(1));
            }
        }
        for _ in 0..ROUNDS {
            engine.sweep();
        }
        Ok(Self {
            setup,
            engine,
            database,
            rows,
        })
    }

    /// Runs the workload's final check.
    async fn check(&self) -> Result<(), String> {
        let found = match &self.rows {
            Rows::Hybrid(workload) => driver::check(workload, &self.database).await,
            Rows::Tpcc(workload) => driver::check(workload, &self.database).await,
        };
        let found = found.map_err(|failure| failure.to_string())?;
        match found.first() {
            None => Ok(()),
            Some(first) => Err(format!("under {:?}: {first}", self.setup)),
        }
    }
}

/// Creates and fills the tables of a workload; later sessions are interleaved.
async fn fill<W: Workload>(
    workload: &Arc<W>,
    engine: &Arc<Engine>,
    arguments: &Arguments,
) -> Result<Database, String> {
    let database = Database::in_process(engine.clone(), workload.tables());
    let options = Options {
        threads: arguments.threads,
        length: Length::Transactions(0),
        check: false,
        ..Options::default()
    };
    let filled = driver::run(workload, &database, &options, &mut |_| {}).await;
    filled.map_err(|failure| failure.to_string())?;
    Ok(database.interleaved())
}

/// The engines that exist at the moment, with their data.
#[derive(Default)]
pub struct Engines(Vec<Filled>);

impl Engines {
    /// Drops the engines that no later figure needs, and creates those that are missing.
    pub async fn prepare(
        &mut self,
        wanted: &[(Setup, Load)],
        arguments: &Arguments,
    ) -> Result<(), String> {
        let is_wanted = |filled: &Filled| {
            let suits = |(setup, load): &(Setup, Load)| filled.suits(*setup, load);
            wanted.iter().any(suits)
        };
        self.0.retain(is_wanted);
        for (setup, load) in wanted {
            if !self.0.iter().any(|filled| filled.suits(*setup, load)) {
                self.0.push(Filled::new(*setup, load, arguments).await?);
            }
        }
        Ok(())
    }

    /// Performs one turn; returns the driver's report and the engine's counters before
    /// and after.
    pub async fn turn(
        &self,
        setup: Setup,
        load: &Load,
        workers: usize,
        seed: u64,
        arguments: &Arguments,
    ) -> Result<(Report, Statistics, Statistics), String> {
        let filled = self.0.iter().find(|filled| filled.suits(setup, load));
        let filled = filled.ok_or("an engine is missing")?;
        let options = Options {
            threads: arguments.threads,
            clients: workers,
            isolation: Isolation::Serializable,
            warm_up: Duration::from_millis(100),
            length: Length::Time(Duration::from_secs_f64(arguments.seconds)),
            seed,
            load: false,
            check: false,
            ..Options::default()
        };
        let before = filled.engine.statistics();
        let report = match (&filled.rows, load) {
            (Rows::Hybrid(rows), Load::Hybrid(settings)) => {
                drive(rows.met(*settings), &filled.database, &options).await
            }
            (Rows::Tpcc(rows), Load::Rewards(customers)) => {
                drive(rows.with_rewards(*customers), &filled.database, &options).await
            }
            _ => return Err("an engine has other rows".to_owned()),
        }?;
        if !report.is_sound() {
            let failure = report.violations.first().or(report.first_failure.as_ref());
            return Err(format!("under {setup:?}: {failure:?}"));
        }
        Ok((report, before, filled.engine.statistics()))
    }

    /// Checks the data of all engines.
    pub async fn check(&self) -> Result<(), String> {
        for filled in &self.0 {
            filled.check().await?;
        }
        Ok(())
    }
}

async fn drive<W: Workload>(
    workload: W,
    database: &Database,
    options: &Options,
) -> Result<Report, String> {
    let outcome = driver::run(&Arc::new(workload), database, options, &mut |_| {}).await;
    Ok(outcome.map_err(|failure| failure.to_string())?.report)
}
