//! Memory of versions: figures 2.6 and 2.7.

use std::fmt::Write as _;
use std::io;

use coeval_measure::comparators::{Ems, HyperStyle, PureN2o, PureO2n, VersionStorage};
use coeval_measure::{Chance, Output, row_of, tag_of};
use coeval_memory::epoch::Domain;
use coeval_types::{Timestamp, TransactionId};
use coeval_workload::plot::{Axis, Chart, Series};

use super::Arguments;

/// Number of measurements of a storage during the updates.
const STEPS: usize = 5;

/// Distribution of the updates over the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skew {
    /// Uniform over all records.
    Uniform,
    /// Four of five updates go to the first fifth of the records.
    Hotspot,
}

impl Skew {
    fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Hotspot => "hotspot",
        }
    }

    fn record(self, chance: &mut Chance, records: usize) -> usize {
        let hot = (records / 5).max(1);
        match self {
            Self::Hotspot if chance.below(5) < 4 => chance.below(hot),
            Self::Hotspot if records > hot => hot + chance.below(records - hot),
            Self::Uniform | Self::Hotspot => chance.below(records),
        }
    }
}

/// Memory in bytes after a number of updates.
struct Sample {
    updates: usize,
    bytes: usize,
}

/// Updates a storage, and measures it at the beginning and after each step.
fn grow<S: VersionStorage>(arguments: &Arguments, bytes: usize, skew: Skew) -> Vec<Sample> {
    let records = arguments.records;
    let storage = S::filled(records, &|record| row_of(record, 1, bytes));
    let (domain, mut chance) = (Domain::new(), Chance::new(7));
    let mut versions = vec![1_u16; records];
    let mut samples = vec![Sample {
        updates: 0,
        bytes: storage.bytes(),
    }];
    let writer = TransactionId(1);
    for step in 0..STEPS {
        let from = arguments.updates * step / STEPS;
        let to = arguments.updates * (step + 1) / STEPS;
        for update in from..to {
            let record = skew.record(&mut chance, records);
            versions[record] += 1;
            let value = row_of(record, versions[record], bytes);
            let guard = domain.pin();
            assert!(storage.update(record, writer, value, &guard));
            storage.commit(record, writer, Timestamp::from_bits(update as u64 + 2));
        }
        samples.push(Sample {
            updates: to,
            bytes: storage.bytes(),
        });
    }
    let newest = Timestamp::from_bits(arguments.updates as u64 + 2);
    for (record, &version) in versions.iter().enumerate() {
        let guard = domain.pin();
        for (snapshot, expected) in [(Timestamp::from_bits(1), 1), (newest, version)] {
            let found = storage.read(record, snapshot, &guard);
            let row = found.and_then(|found| found.row()).expect("it is there");
            assert_eq!(tag_of(row), (record, expected), "what was read");
        }
    }
    samples
}

/// Measures all storages, and prints their memory use.
pub fn measure(arguments: &Arguments, output: &mut Output) -> io::Result<()> {
    let mut csv = String::from("storage,value_bytes,distribution,updates,bytes\n");
    for (bytes, figure) in [(10, "2.6"), (100, "2.7")] {
        for skew in [Skew::Uniform, Skew::Hotspot] {
            let grown = [
                (HyperStyle::NAME, grow::<HyperStyle>(arguments, bytes, skew)),
                (Ems::NAME, grow::<Ems>(arguments, bytes, skew)),
                (PureN2o::NAME, grow::<PureN2o>(arguments, bytes, skew)),
                (PureO2n::NAME, grow::<PureO2n>(arguments, bytes, skew)),
            ];
            output.say(&format!(
                "\nmemory, values of {bytes} bytes, {}: MB after so many updates (figure {figure})",
                skew.name()
            ));
            let mut head = format!("{:>10}", "updates");
            for (name, samples) in &grown {
                let _ = write!(head, " {name:>12}");
                for sample in samples {
                    let _ = writeln!(
                        csv,
                        "{name},{bytes},{},{},{}",
                        skew.name(),
                        sample.updates,
                        sample.bytes
                    );
                }
            }
            output.say(&format!("{head} {:>10}", "EMS/HyPer"));
            for step in 0..=STEPS {
                let mut line = format!("{:>10}", grown[0].1[step].updates);
                for (_, samples) in &grown {
                    let _ = write!(line, " {:>12.1}", samples[step].bytes as f64 / 1e6);
                }
                let ratio = grown[1].1[step].bytes as f64 / grown[0].1[step].bytes as f64;
                output.say(&format!("{line} {ratio:>10.3}"));
            }
            let axis = |name: &str| Axis {
                name: name.to_owned(),
                logarithmic: false,
            };
            let chart = Chart {
                title: format!("Memory: values of {bytes} bytes, {} updates", skew.name()),
                x: axis("million updates"),
                y: axis("MB"),
                series: grown
                    .iter()
                    .map(|(name, samples)| Series {
                        name: (*name).to_owned(),
                        points: samples
                            .iter()
                            .map(|sample| (sample.updates as f64 / 1e6, sample.bytes as f64 / 1e6))
                            .collect(),
                    })
                    .collect(),
            };
            output.chart(&format!("ems-memory-{bytes}-{}", skew.name()), &chart)?;
        }
    }
    output.file("ems-memory.csv", csv.as_bytes())
}
