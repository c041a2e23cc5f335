//! Read performance of versions: figures 2.4 and 2.5.

use std::fmt::Write as _;
use std::io;

use coeval_measure::comparators::{Ems, HyperStyle, PureN2o, PureO2n, VersionStorage};
use coeval_measure::{Chance, Output, Stopwatch, processor_time, row_of, tag_of};
use coeval_memory::epoch::Domain;
use coeval_types::{Timestamp, TransactionId};
use coeval_workload::plot::{Axis, Chart, Series};

use super::Arguments;

/// Number of versions of each record: the initial one and three updates.
pub const VERSIONS: u16 = 4;
/// Number of reads under one guard.
const UNDER_A_GUARD: usize = 16;
const BYTES: usize = 10;

/// Which version is read, and whether records are being updated concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    newest: bool,
    updating: bool,
}

impl Case {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::of(true, false), "newest", "reads-newest"),
        (
            Self::of(true, true),
            "newest, being updated",
            "reads-newest-updating",
        ),
        (Self::of(false, false), "oldest", "reads-oldest"),
        (
            Self::of(false, true),
            "oldest, being updated",
            "reads-oldest-updating",
        ),
    ];

    const fn of(newest: bool, updating: bool) -> Self {
        Self { newest, updating }
    }

    fn snapshot(self) -> Timestamp {
        Timestamp::from_bits(if self.newest { u64::from(VERSIONS) } else { 1 })
    }

    fn version(self) -> u16 {
        if self.newest { VERSIONS } else { 1 }
    }
}

/// Result of one turn.
struct Turn {
    storage: &'static str,
    case: Case,
    threads: usize,
    round: usize,
    reads: usize,
    seconds: f64,
    processor: f64,
    jumps: u64,
}

impl Turn {
    fn millions(&self) -> f64 {
        self.reads as f64 / self.seconds / 1e6
    }

    fn nanoseconds(&self) -> f64 {
        self.processor * 1e9 / self.reads as f64
    }
}

/// A storage of `records` records with [`VERSIONS`] versions each.
fn filled<S: VersionStorage>(records: usize) -> S {
    let storage = S::filled(records, &|record| row_of(record, 1, BYTES));
    let domain = Domain::new();
    for version in 2..=VERSIONS {
        for record in 0..records {
            let writer = TransactionId(u64::from(version));
            let guard = domain.pin();
            assert!(storage.update(record, writer, row_of(record, version, BYTES), &guard));
            storage.commit(record, writer, Timestamp::from_bits(u64::from(version)));
        }
    }
    storage
}

/// Performs one thread's reads; returns their CPU time, and the number of versions
/// traversed.
fn read_all<S: VersionStorage>(
    storage: &S,
    (records, reads): (usize, usize),
    case: Case,
    seed: u64,
) -> (f64, u64) {
    let (domain, mut chance) = (Domain::new(), Chance::new(seed));
    let before = processor_time();
    let mut jumps = 0;
    let mut left = reads;
    while left > 0 {
        let guard = domain.pin();
        for _ in 0..left.min(UNDER_A_GUARD) {
            let record = chance.below(records);
            let version = storage.read(record, case.snapshot(), &guard);
            let version = version.expect("it has been committed");
            let row = version.row().expect("nothing was deleted");
            assert_eq!(tag_of(row), (record, case.version()), "what was read");
            jumps += u64::from(version.jumps());
        }
        left = left.saturating_sub(UNDER_A_GUARD);
    }
    ((processor_time() - before).as_secs_f64(), jumps)
}

fn turn<S: VersionStorage>(
    storage: &S,
    arguments: &Arguments,
    case: Case,
    threads: usize,
    round: usize,
) -> Turn {
    let size = (arguments.records, arguments.reads);
    let watch = Stopwatch::start();
    let done = coeval_env::scatter(threads, |thread| {
        let seed = (round * 64 + thread + 1) as u64;
        read_all(storage, size, case, seed)
    });
    Turn {
        storage: S::NAME,
        case,
        threads,
        round,
        reads: arguments.reads * threads,
        seconds: watch.elapsed().as_secs_f64(),
        processor: done.iter().map(|(processor, _)| processor).sum(),
        jumps: done.iter().map(|(_, jumps)| jumps).sum(),
    }
}

/// Measures all storages in all cases and prints medians.
pub fn measure(arguments: &Arguments, output: &mut Output) -> io::Result<()> {
    let n2o: PureN2o = filled(arguments.records);
    let o2n: PureO2n = filled(arguments.records);
    let hyper: HyperStyle = filled(arguments.records);
    let ems: Ems = filled(arguments.records);
    let mut turns = Vec::new();
    for updating in [false, true] {
        if updating {
            let domain = Domain::new();
            for record in 0..arguments.records {
                let (guard, writer) = (domain.pin(), TransactionId(100));
                let value = || row_of(record, VERSIONS + 1, BYTES);
                assert!(n2o.update(record, writer, value(), &guard));
                assert!(o2n.update(record, writer, value(), &guard));
                assert!(hyper.update(record, writer, value(), &guard));
                assert!(ems.update(record, writer, value(), &guard));
            }
        }
        for newest in [true, false] {
            let case = Case { newest, updating };
            for &threads in &arguments.threads {
                // Round 0 warms caches and does not count. The order of the storages
                // alternates.
                for round in 0..=arguments.rounds {
                    let mut storages: [&dyn Fn() -> Turn; 4] = [
                        &|| turn(&n2o, arguments, case, threads, round),
                        &|| turn(&o2n, arguments, case, threads, round),
                        &|| turn(&hyper, arguments, case, threads, round),
                        &|| turn(&ems, arguments, case, threads, round),
                    ];
                    if round % 2 == 1 {
                        storages.reverse();
                    }
                    let each = storages.map(|turn| turn());
                    if round > 0 {
                        turns.extend(each);
                    }
                }
            }
        }
    }
    output.file("ems-reads.csv", csv(&turns).as_bytes())?;
    report(arguments, &turns, output)
}

fn csv(turns: &[Turn]) -> String {
    let mut csv = String::from(
        "storage,newest,updating,threads,round,reads,seconds,processor_seconds,jumps\n",
    );
    for turn in turns {
        let _ = writeln!(
            csv,
            "{},{},{},{},{},{},{:.6},{:.6},{}",
            turn.storage,
            turn.case.newest,
            turn.case.updating,
            turn.threads,
            turn.round,
            turn.reads,
            turn.seconds,
            turn.processor,
            turn.jumps
        );
    }
    csv
}

const STORAGES: [&str; 4] = [PureN2o::NAME, PureO2n::NAME, HyperStyle::NAME, Ems::NAME];

fn median(
    turns: &[Turn],
    (storage, case, threads): (&str, Case, usize),
    value: fn(&Turn) -> f64,
) -> f64 {
    let mut values: Vec<f64> = turns
        .iter()
        .filter(|turn| turn.storage == storage && turn.case == case && turn.threads == threads)
        .map(value)
        .collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn report(arguments: &Arguments, turns: &[Turn], output: &mut Output) -> io::Result<()> {
    for (case, what, file) in Case::ALL {
        output.say(&format!(
            "\n{what}: million reads a second (nanoseconds of processor time for each)"
        ));
        let mut head = format!("{:>8}", "threads");
        for storage in STORAGES {
            let _ = write!(head, " {storage:>18}");
        }
        output.say(&format!("{head} {:>10}", "EMS/HyPer"));
        let mut series: Vec<Series> = STORAGES
            .iter()
            .map(|&name| Series {
                name: name.to_owned(),
                points: Vec::new(),
            })
            .collect();
        for &threads in &arguments.threads {
            let mut line = format!("{threads:>8}");
            for (series, storage) in series.iter_mut().zip(STORAGES) {
                let millions = median(turns, (storage, case, threads), Turn::millions);
                let each = median(turns, (storage, case, threads), Turn::nanoseconds);
                let _ = write!(line, " {:>18}", format!("{millions:.2} ({each:.0})"));
                series.points.push((threads as f64, millions));
            }
            let of = |storage| median(turns, (storage, case, threads), Turn::nanoseconds);
            let ratio = of(HyperStyle::NAME) / of(Ems::NAME);
            output.say(&format!("{line} {ratio:>10.2}"));
        }
        let mut line = format!("{:>8}", "jumps");
        for storage in STORAGES {
            let jumps = |turn: &Turn| turn.jumps as f64 / turn.reads as f64;
            let passed = median(turns, (storage, case, arguments.threads[0]), jumps);
            let expected = expected_jumps(storage, case);
            assert_eq!(passed, expected, "jumps of {storage}, {what}: table 2.1");
            let _ = write!(line, " {passed:>18}");
        }
        output.say(&line);
        let axis = |name: &str| Axis {
            name: name.to_owned(),
            logarithmic: false,
        };
        let chart = Chart {
            title: format!("Reading a record's version: {what}"),
            x: axis("threads"),
            y: axis("million reads per second"),
            series,
        };
        output.chart(&format!("ems-{file}"), &chart)?;
    }
    Ok(())
}

/// Number of versions traversed according to table 2.1.
fn expected_jumps(storage: &str, case: Case) -> f64 {
    let versions = f64::from(VERSIONS);
    let updating = f64::from(u8::from(case.updating));
    match (storage, case.newest) {
        ("pure N2O", true) => 1.0 + updating,
        ("pure N2O", false) => versions + updating,
        ("pure O2N", true) => versions,
        ("pure O2N", false) => 1.0,
        ("HyPer style", true) => updating,
        ("HyPer style", false) => versions - 1.0 + updating,
        (_, true) => 0.0,
        (_, false) => 1.0,
    }
}
