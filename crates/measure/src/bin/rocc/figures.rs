//! The figures of the rocc benchmark: their cells, and their charts.
//!
//! Where the source varies the number of ranges over ten million rows, this benchmark
//! keeps the number of keys per range, so that scans cover as many ranges as in the
//! source (table 3.2).

use coeval_occ::Validator;
use coeval_workload::loads::hybrid;

use super::Arguments;
use super::engines::{Engines, Load, Setup};
use super::turn::Turn;

/// Defaults of the figures: keys of a range, slots of its ring, keys of a scan, and skew.
const KEYS: u64 = 610;
const SLOTS: usize = 5_000;
const SCAN: u64 = 100;
const LOW: f64 = 0.7;
/// Number of keys in a range of TPC-C.
const CUSTOMERS: u64 = 600;

/// Skews of the source, with their names.
const SKEWS: [(f64, &str); 4] = [
    (0.0, "none"),
    (LOW, "low"),
    (0.88, "medium"),
    (1.04, "high"),
];

/// One point of a figure, with the parameters that yield it.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Name of the point's line.
    pub series: String,
    pub x: f64,
    pub setup: Setup,
    pub load: Load,
    pub workers: usize,
}

/// One chart of a figure.
pub struct Panel {
    /// Letter of the chart, such as `a` in 3.6a.
    pub letter: &'static str,
    pub y: &'static str,
    pub value: fn(&Turn) -> f64,
    /// Line whose value at the same x all values are divided by.
    pub relative_to: Option<&'static str>,
}

/// A figure of the source.
pub struct Figure {
    pub number: &'static str,
    pub title: &'static str,
    pub x: &'static str,
    pub logarithmic: bool,
    pub cells: Vec<Cell>,
    pub panels: Vec<Panel>,
}

const fn panel(letter: &'static str, y: &'static str, value: fn(&Turn) -> f64) -> Panel {
    Panel {
        letter,
        y,
        value,
        relative_to: None,
    }
}

const SCANNED: &str = "million keys scanned in a second of processor time";
const LATENCY: &str = "milliseconds of a transaction with a scan, waiting for its turns included";
const VALIDATED: &str = "transactions that a commit with scans looked at";
const UNDONE: &str = "of a hundred attempts at a scan undone";

/// Those of the source's validators that are implemented.
fn validators(names: &[&str]) -> Vec<Validator> {
    let all = coeval_measure::validators::ALL.iter().copied();
    all.filter(|validator| names.contains(&validator.name()))
        .collect()
}

/// Name of a validator's line.
fn line(validator: Validator) -> String {
    validator.name().to_uppercase()
}

const fn setup(validator: Validator) -> Setup {
    Setup {
        validator,
        keys_of_range: KEYS,
        slots: SLOTS,
    }
}

fn ycsb(scan: u64, theta: f64) -> Load {
    Load::Hybrid(hybrid::Settings {
        scan,
        theta,
        ..hybrid::Settings::default()
    })
}

/// YCSB A: five operations by key, half of them writes, and no scans.
fn ycsb_a(theta: f64) -> Load {
    Load::Hybrid(hybrid::Settings {
        bulk_percent: 0,
        theta,
        ..hybrid::Settings::default()
    })
}

impl Figure {
    /// Adds cells of hybrid YCSB or TPC-C under several validators, one line each.
    fn rivals(
        &mut self,
        names: &[&str],
        points: &[f64],
        point: impl Fn(f64) -> (Load, usize),
    ) -> &mut Self {
        for &x in points {
            for validator in validators(names) {
                let (load, workers) = point(x);
                let keys_of_range = match load {
                    Load::Hybrid(_) => KEYS,
                    Load::Rewards(_) => CUSTOMERS,
                };
                self.cells.push(Cell {
                    series: line(validator),
                    x,
                    setup: Setup {
                        keys_of_range,
                        ..setup(validator)
                    },
                    load,
                    workers,
                });
            }
        }
        self
    }

    /// Measures the figure, round after round, and checks the engines afterwards.
    pub async fn measure(
        &self,
        arguments: &Arguments,
        engines: &mut Engines,
    ) -> Result<Vec<Turn>, String> {
        let wanted: Vec<_> = self
            .cells
            .iter()
            .map(|cell| (cell.setup, cell.load))
            .collect();
        engines.prepare(&wanted, arguments).await?;
        let mut turns = Vec::new();
        for round in 1..=arguments.rounds {
            let mut cells: Vec<&Cell> = self.cells.iter().collect();
            if round % 2 == 0 {
                cells.reverse();
            }
            for cell in cells {
                let (report, before, after) = engines
                    .turn(
                        cell.setup,
                        &cell.load,
                        cell.workers,
                        round as u64,
                        arguments,
                    )
                    .await?;
                let counted = [&before, &after];
                turns.push(Turn::new(cell, round, arguments, &report, counted));
            }
        }
        engines.check().await?;
        Ok(turns)
    }
}

fn figure(number: &'static str, title: &'static str, x: &'static str) -> Figure {
    Figure {
        number,
        title,
        x,
        logarithmic: false,
        cells: Vec::new(),
        panels: Vec::new(),
    }
}

/// All figures. Figures that share engines are consecutive.
pub fn all(arguments: &Arguments) -> Vec<Figure> {
    let mut all = rivals(arguments);
    all.extend(ranges(arguments));
    all
}

const THREE: [&str; 3] = ["rv", "lrv", "gwv"];

fn rivals(arguments: &Arguments) -> Vec<Figure> {
    let workers = arguments.workers;
    let warehouses = arguments.warehouses as usize;
    let lengths = [10.0, 100.0, 300.0, 500.0, 1_000.0, 1_500.0];
    let mut hybrid = figure("3.6", "Hybrid YCSB", "keys of a scan");
    hybrid.rivals(&THREE, &lengths, |scan| (ycsb(scan as u64, LOW), workers));
    hybrid.panels = vec![
        panel("a", SCANNED, Turn::scanned),
        panel("b", LATENCY, Turn::latency),
    ];
    let mut cores = figure("3.8", "Hybrid YCSB, scans of 100 keys", "workers");
    let counts = [4.0, 8.0, 16.0, 24.0, 32.0, 40.0];
    cores.rivals(&THREE, &counts, |count| (ycsb(SCAN, LOW), count as usize));
    cores.panels = vec![
        panel("a", SCANNED, Turn::scanned),
        panel("b", UNDONE, Turn::undone),
        panel("c", VALIDATED, Turn::validated),
    ];
    let mut skew = figure("3.10", "Hybrid YCSB, scans of 100 keys", "skew");
    let thetas = SKEWS.map(|(theta, _)| theta);
    skew.rivals(&THREE, &thetas, |theta| (ycsb(SCAN, theta), workers));
    skew.panels = vec![
        panel("a", SCANNED, Turn::scanned),
        panel("b", VALIDATED, Turn::validated),
    ];
    let mut timestamps = figure("3.14", "Hybrid YCSB beside MVRCC", "keys of a scan");
    timestamps.rivals(&["rv", "mvrcc"], &lengths[1..], |scan| {
        (ycsb(scan as u64, LOW), workers)
    });
    timestamps.panels = vec![
        panel("a", SCANNED, Turn::scanned),
        panel("b", UNDONE, Turn::undone),
    ];
    let mut tpcc = figure("3.7", "Modified TPC-C", "keys of a scan");
    let lengths = [100.0, 500.0, 1_000.0, 2_000.0, 3_000.0];
    tpcc.rivals(&THREE, &lengths, |scan| {
        (Load::Rewards(scan as u32), warehouses)
    });
    tpcc.panels = vec![
        panel("a", SCANNED, Turn::scanned),
        panel("b", LATENCY, Turn::latency),
    ];
    let mut tpcc_cores = figure("3.9", "Modified TPC-C, scans of 3,000 keys", "workers");
    let counts: Vec<f64> = (0..)
        .map(|power| 1_usize << power)
        .take_while(|count| *count <= warehouses)
        .map(|count| count as f64)
        .collect();
    tpcc_cores.rivals(&THREE, &counts, |count| {
        (Load::Rewards(3_000), count as usize)
    });
    tpcc_cores.panels = vec![
        panel("a", SCANNED, Turn::scanned),
        panel("b", UNDONE, Turn::undone),
        panel("c", VALIDATED, Turn::validated),
    ];
    vec![hybrid, timestamps, cores, skew, tpcc, tpcc_cores]
}

/// Keys per range in table 3.2: those of ten million rows in 1, 16, 4,096, 16,384 and
/// 262,144 ranges, limited to the number of rows.
fn sizes(records: u64) -> Vec<u64> {
    [10_000_000, 625_000, 2_441, KEYS, 38]
        .map(|keys| keys.min(records))
        .into()
}

fn ranges(arguments: &Arguments) -> Vec<Figure> {
    let workers = arguments.workers;
    let sizes = sizes(arguments.records);
    let count = |keys: u64| arguments.records.div_ceil(keys) as f64;
    let of = |keys_of_range, slots| Setup {
        keys_of_range,
        slots,
        ..setup(Validator::Ranges)
    };
    let cell = |series: String, x: f64, setup: Setup, load: Load| Cell {
        series,
        x,
        setup,
        load,
        workers,
    };
    let scanned = || vec![panel("", SCANNED, Turn::scanned)];

    let mut lengths = figure(
        "3.11a",
        "Hybrid YCSB by the number of ranges",
        "ranges at most",
    );
    let mut skews = figure(
        "3.11b",
        "Hybrid YCSB by the number of ranges",
        "ranges at most",
    );
    for &keys in &sizes {
        for scan in [100, 300, 1_000] {
            let series = format!("{scan} keys");
            let load = ycsb(scan, LOW);
            lengths
                .cells
                .push(cell(series, count(keys), of(keys, SLOTS), load));
        }
        for (theta, name) in SKEWS {
            let load = ycsb(SCAN, theta);
            let series = format!("skew: {name}");
            skews
                .cells
                .push(cell(series, count(keys), of(keys, SLOTS), load));
        }
    }
    let mut registering = figure("3.13a", "YCSB A, five operations", "ranges at most");
    for &keys in &sizes {
        for validator in validators(&["rv", "lrv"]) {
            let setup = match validator {
                Validator::Ranges => of(keys, SLOTS),
                _ => setup(validator),
            };
            let series = line(validator);
            registering
                .cells
                .push(cell(series, count(keys), setup, ycsb_a(LOW)));
        }
    }
    let mut registering_skew = figure("3.13b", "YCSB A, five operations", "skew");
    for (theta, _) in SKEWS {
        for validator in validators(&["rv", "lrv"]) {
            let series = line(validator);
            registering_skew
                .cells
                .push(cell(series, theta, setup(validator), ycsb_a(theta)));
        }
    }
    let mut rings = figure("3.12a", "Hybrid YCSB by the slots of a ring", "slots");
    let mut rings_skew = figure("3.12b", "Hybrid YCSB by the slots of a ring", "slots");
    for &slots in &arguments.slots {
        for keys in [sizes[1], sizes[2], sizes[3]] {
            let series = format!("{} ranges", count(keys));
            rings
                .cells
                .push(cell(series, slots as f64, of(keys, slots), ycsb(SCAN, LOW)));
        }
        for (theta, name) in SKEWS {
            let series = format!("skew: {name}");
            let load = ycsb(SCAN, theta);
            rings_skew
                .cells
                .push(cell(series, slots as f64, of(KEYS, slots), load));
        }
    }
    for by_number in [&mut lengths, &mut skews, &mut rings, &mut rings_skew] {
        by_number.panels = scanned();
        by_number.logarithmic = true;
    }
    for registering in [&mut registering, &mut registering_skew] {
        // Re-reading (LRV) registers nothing, and without scans it does no other work
        // either.
        registering.panels = vec![
            Panel {
                relative_to: Some("LRV"),
                ..panel(
                    "",
                    "transactions, as a part of those without registration",
                    Turn::transactions,
                )
            },
            panel(
                "-slots",
                "slots taken by a transaction",
                Turn::registrations,
            ),
        ];
    }
    registering.logarithmic = true;
    vec![
        lengths,
        skews,
        registering,
        registering_skew,
        rings,
        rings_skew,
    ]
}
