//! The index benchmark: compares the ordered index with scc's TreeIndex, in one run.
//!
//! ```text
//! bench/index                                      with a record of machine and results
//! cargo run --profile dist -p coeval-measure --bin index -- --help
//! ```
//!
//! There are three shapes of keys: 8 bytes, 24 bytes, and 24 bytes of three columns (64
//! tenants, 1000 groups, an item), all in an order that looks random. Each row is written
//! to the output file as soon as it is measured. Each round does the same on every index
//! with one thread and with two, in alternating order:
//!
//! | operation | what |
//! | --- | --- |
//! | insert | every key once, into an empty index |
//! | get | every key once, in another order |
//! | get_many | the same in groups of 64 (on scc: one by one, since it has no batch lookup) |
//! | scan | 100 entries from a key on, for one key in 50 |
//! | remove | every key once |
//! | load | keys in order into an empty index, by the index's bulk load |
//!
//! # What is checked
//!
//! Every insert and remove must report success; the sum of all record ids looked up must
//! be right; every scan must be in order and have 100 entries unless it reaches the end,
//! and the sum over all scans must be the same for every index; an index must be empty
//! after all keys were removed. Otherwise the program panics.
//!
//! # What makes it unfair
//!
//! `scc` has the keys that the engine once passed to it: up to 22 bytes inline in the
//! leaf, others boxed. `scc-array` has arrays whose length the compiler knows: its best
//! case, which is impossible for byte strings of any length. Every index pins the epoch
//! for each operation. The results have real time and CPU time: on a machine with other
//! work, compare the CPU time, which is summed over threads.
mod indexes;
mod report;

use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use coeval_measure::{Output, Stopwatch, processor_time};
use coeval_workload::build::Build;

use indexes::{Index, Ours, SccArray, SccBytes};
use report::{Row, Rows};

#[global_allocator]
static ALLOCATOR: coeval_memory::allocator::Allocator = coeval_memory::allocator::NEW;

/// Number of entries in a scan.
const SCAN: usize = 100;
/// Number of keys in a group.
const GROUP: usize = 64;

/// Scatters a number over all bits by a multiplication.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Shape of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    #[value(name = "8")]
    Eight,
    #[value(name = "24")]
    TwentyFour,
    Columns,
}

/// Compares the ordered index with scc's.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of keys.
    #[arg(long, default_value_t = 2_000_000)]
    keys: u64,
    /// Number of rounds for every index.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Shapes of keys: of 8 or 24 bytes, or of 24 in three columns.
    #[arg(long, value_delimiter = ',', default_value = "8,24,columns")]
    shapes: Vec<Shape>,
    /// Folder for the results.
    #[arg(long)]
    output: PathBuf,
    #[command(flatten)]
    build: Build,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Eight => "8",
            Self::TwentyFour => "24",
            Self::Columns => "columns",
        }
    }

    /// Writes the key of a number to `bytes`, which has the key's length.
    #[inline]
    fn write(self, number: u64, bytes: &mut [u8]) {
        let words = match self {
            Self::Eight => [scattered(number), 0, 0],
            Self::TwentyFour => [
                scattered(number),
                scattered(number ^ 0xABCD),
                scattered(number + 99),
            ],
            Self::Columns => {
                let mixed = scattered(number) >> 20;
                [mixed % 64, mixed / 64 % 1000, number]
            }
        };
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
    }
}

/// Parameters of a measurement.
struct Load<const N: usize> {
    shape: Shape,
    keys: u64,
    threads: u64,
    round: usize,
}

impl<const N: usize> Load<N> {
    #[inline]
    fn key(&self, number: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.shape.write(number, &mut bytes);
        bytes
    }

    /// One thread's share of the first `count` numbers in a pseudo-random order. All
    /// numbers occur if the step is coprime to the number of keys, which the sums verify.
    fn numbers(&self, thread: u64, order: u64, count: u64) -> impl Iterator<Item = u64> {
        let (keys, threads) = (self.keys, self.threads);
        let step = 1_000_003 + 2 * order;
        (thread..count)
            .step_by(threads as usize)
            .map(move |at| at * step % keys)
    }

    /// Runs `work` in every thread, and records the time it took. Returns the sum of the
    /// threads' results.
    fn measure<I: Index<N>>(
        &self,
        rows: &mut Rows<'_>,
        operation: &'static str,
        operations: u64,
        work: impl Fn(u64) -> u64 + Sync,
    ) -> u64 {
        let started = Stopwatch::start();
        let parts = coeval_env::scatter(self.threads as usize, |thread| {
            let before = processor_time();
            let sum = work(thread as u64);
            (sum, (processor_time() - before).as_secs_f64())
        });
        let seconds = started.elapsed().as_secs_f64();
        let sum = parts
            .iter()
            .fold(0u64, |sum, part| sum.wrapping_add(part.0));
        rows.push(Row {
            keys: self.shape.name(),
            threads: self.threads,
            operation,
            index: I::NAME,
            round: self.round,
            operations,
            seconds,
            processor: parts.iter().map(|part| part.1).sum(),
            bytes: None,
            checksum: sum,
        });
        sum
    }

    /// Performs all operations on one kind of index.
    fn run<I: Index<N>>(&self, rows: &mut Rows<'_>) {
        let all = self.keys * (self.keys - 1) / 2;
        let bytes_before = report::allocated();
        let index = I::new();
        let inserted = self.measure::<I>(rows, "insert", self.keys, |thread| {
            self.numbers(thread, 0, self.keys)
                .map(|number| u64::from(index.insert(&self.key(number), number)))
                .sum()
        });
        assert_eq!(inserted, self.keys, "every key was new");
        rows.set_bytes((report::allocated() - bytes_before) as f64 / self.keys as f64);

        let sum = self.measure::<I>(rows, "get", self.keys, |thread| {
            self.numbers(thread, 7, self.keys)
                .map(|number| index.get(&self.key(number)).expect("the key is there"))
                .sum()
        });
        assert_eq!(sum, all, "every key had its RID");

        let sum = self.measure::<I>(rows, "get_many", self.keys, |thread| {
            let mut sum = 0u64;
            let mut group = Vec::with_capacity(GROUP);
            for number in self.numbers(thread, 7, self.keys) {
                group.push(self.key(number));
                if group.len() == GROUP {
                    sum = sum.wrapping_add(index.get_many(&group));
                    group.clear();
                }
            }
            sum.wrapping_add(index.get_many(&group))
        });
        assert_eq!(sum, all, "every key had its RID");

        let scans = self.keys / 50;
        let sum = self.measure::<I>(rows, "scan", scans, |thread| {
            self.numbers(thread, 9, scans).fold(0u64, |sum, number| {
                sum.wrapping_add(self.scan(&index, &self.key(number)))
            })
        });
        rows.same_for_every_index(sum);

        let removed = self.measure::<I>(rows, "remove", self.keys, |thread| {
            self.numbers(thread, 3, self.keys)
                .map(|number| u64::from(index.remove(&self.key(number), number)))
                .sum()
        });
        assert_eq!(removed, self.keys, "every key was there");
        assert_eq!(self.scan(&index, &[0; N]), 0, "nothing is left");
        drop(index);

        if self.threads == 1 {
            self.load::<I>(rows);
        }
    }

    fn load<I: Index<N>>(&self, rows: &mut Rows<'_>) {
        let mut sorted: Vec<_> = (0..self.keys)
            .map(|number| (self.key(number), number))
            .collect();
        sorted.sort_unstable();
        let bytes_before = report::allocated();
        let loaded = std::sync::Mutex::new(None);
        self.measure::<I>(rows, "load", self.keys, |_| {
            *loaded.lock().expect("one thread") = Some(I::load(&sorted));
            0
        });
        rows.set_bytes((report::allocated() - bytes_before) as f64 / self.keys as f64);
        let index = loaded.into_inner().expect("one thread").expect("loaded");
        let mut expected = sorted.iter();
        index.scan(&[0; N], usize::MAX, |key, rid| {
            let (its_key, number) = expected.next().expect("no more than was loaded");
            assert!(
                key == its_key && rid == *number,
                "what was loaded, in order"
            );
        });
        assert!(expected.next().is_none(), "all that was loaded");
    }

    /// The sum of the record ids of a scan from a key on. Checks the order.
    #[inline]
    fn scan<I: Index<N>>(&self, index: &I, from: &[u8; N]) -> u64 {
        let (mut sum, mut count, mut last) = (0u64, 0u64, 0u64);
        index.scan(from, SCAN, |key, rid| {
            let head = key.first_chunk().expect("keys have eight bytes");
            let head = u64::from_be_bytes(*head);
            assert!(head >= last, "a scan goes up");
            last = head;
            count += 1;
            sum = sum.wrapping_add(rid);
        });
        black_box(sum.wrapping_add(count))
    }
}

fn run<const N: usize>(shape: Shape, keys: u64, rounds: usize, rows: &mut Rows<'_>) {
    for round in 0..rounds {
        for threads in [1, 2] {
            let load = Load::<N> {
                shape,
                keys,
                threads,
                round,
            };
            let mut turns: [fn(&Load<N>, &mut Rows<'_>); 3] = [
                Load::run::<Ours>,
                Load::run::<SccBytes>,
                Load::run::<SccArray<N>>,
            ];
            turns.rotate_left((round + threads as usize) % 3);
            rows.begin_comparison();
            for turn in turns {
                turn(&load, rows);
            }
        }
    }
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("index: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> std::io::Result<()> {
    coeval_memory::allocator::start();
    let mut output = Output::new(&arguments.output, arguments.build)?;
    let mut rows = Rows::new(&output);
    let (keys, rounds) = (arguments.keys, arguments.rounds);
    for &shape in &arguments.shapes {
        match shape {
            Shape::Eight => run::<8>(shape, keys, rounds, &mut rows),
            Shape::TwentyFour | Shape::Columns => run::<24>(shape, keys, rounds, &mut rows),
        }
    }
    let report = rows.finish()?;
    for line in report.table {
        output.say(&line);
    }
    for (name, chart) in &report.charts {
        output.chart(name, chart)?;
    }
    output.finish("index.txt")
}
