//! Results of the index benchmark: raw rows, a table of medians, and charts.

use std::fmt::Write as _;
use std::io;

use coeval_measure::Output;
use coeval_workload::plot::{Axis, Chart, Series};

/// One operation on one index in one round.
pub struct Row {
    pub keys: &'static str,
    pub threads: u64,
    pub operation: &'static str,
    pub index: &'static str,
    pub round: usize,
    pub operations: u64,
    pub seconds: f64,
    pub processor: f64,
    pub bytes: Option<f64>,
    pub checksum: u64,
}

impl Row {
    /// Millions of operations per second of real time.
    fn by_clock(&self) -> f64 {
        self.operations as f64 / self.seconds / 1e6
    }

    /// Millions of operations per second of CPU time.
    fn by_processor(&self) -> f64 {
        self.operations as f64 / self.processor / 1e6
    }
}

/// Operations with a chart.
const OPERATIONS: [&str; 5] = ["insert", "get", "get_many", "scan", "remove"];

/// The summary of all rows.
pub struct Report {
    /// Lines of the table of medians.
    pub table: Vec<String>,
    /// Charts with the names of their files.
    pub charts: [(String, Chart); OPERATIONS.len()],
}

/// All rows measured so far, with their output file.
pub struct Rows<'output> {
    rows: Vec<Row>,
    sum: Option<u64>,
    output: &'output Output,
    written: io::Result<()>,
}

impl<'output> Rows<'output> {
    /// An empty set of rows. The output file is kept up to date with every row.
    pub fn new(output: &'output Output) -> Self {
        Self {
            rows: Vec::new(),
            sum: None,
            output,
            written: Ok(()),
        }
    }

    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
        self.write();
    }

    /// Records the bytes per key in the last row.
    pub fn set_bytes(&mut self, bytes: f64) {
        self.rows.last_mut().expect("a row").bytes = Some(bytes);
        self.write();
    }

    /// Starts a comparison of indexes with equal contents.
    pub fn begin_comparison(&mut self) {
        self.sum = None;
    }

    /// # Panics
    /// If another index had another sum.
    pub fn same_for_every_index(&mut self, sum: u64) {
        let expected = *self.sum.get_or_insert(sum);
        assert_eq!(sum, expected, "scans have seen the same");
    }

    fn write(&mut self) {
        let written = self.output.file("index.csv", self.csv().as_bytes());
        if self.written.is_ok() {
            self.written = written;
        }
    }

    fn csv(&self) -> String {
        let mut csv = String::from(
            "keys,threads,operation,index,round,operations,seconds,processor_seconds,\
             bytes_per_key,checksum\n",
        );
        for row in &self.rows {
            let bytes = row.bytes.map(|bytes| format!("{bytes:.1}"));
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{:.6},{:.6},{},{}",
                row.keys,
                row.threads,
                row.operation,
                row.index,
                row.round,
                row.operations,
                row.seconds,
                row.processor,
                bytes.unwrap_or_default(),
                row.checksum
            );
        }
        csv
    }

    fn median(
        &self,
        (keys, threads, operation): (&str, u64, &str),
        index: &str,
        value: impl Fn(&Row) -> f64,
    ) -> f64 {
        let mut values: Vec<f64> = self
            .rows
            .iter()
            .filter(|row| {
                (row.keys, row.threads, row.operation) == (keys, threads, operation)
                    && row.index == index
            })
            .map(value)
            .collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Returns the table and the charts. Fails if the output file could not be written.
    pub fn finish(self) -> io::Result<Report> {
        let charts = OPERATIONS.map(|operation| {
            let name = format!("index-{}", operation.replace('_', "-"));
            (name, self.chart(operation))
        });
        let table = self.table();
        self.written?;
        Ok(Report { table, charts })
    }

    /// A chart of one operation on every index, with every shape of keys.
    fn chart(&self, operation: &'static str) -> Chart {
        let axis = |name: &str| Axis {
            name: name.to_owned(),
            logarithmic: false,
        };
        let mut series: Vec<Series> = Vec::new();
        let mut seen = Vec::new();
        for row in self.rows.iter().filter(|row| row.operation == operation) {
            let what = (row.keys, row.threads, row.index);
            if seen.contains(&what) {
                continue;
            }
            seen.push(what);
            let name = format!("{}, {}", row.index, row.keys);
            let millions =
                self.median((row.keys, row.threads, operation), row.index, Row::by_clock);
            let point = (row.threads as f64, millions);
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series {
                    name,
                    points: vec![point],
                }),
            }
        }
        Chart {
            title: format!("Ordered index: {operation}"),
            x: axis("threads"),
            y: axis("million a second"),
            series,
        }
    }

    /// Medians, and those of the engine's index as multiples of the rivals'.
    fn table(&self) -> Vec<String> {
        let mut table = vec![format!(
            "{:<11}{:>3} {:<9}|{:>8}{:>8}{:>8} |{:>8}{:>8} |{:>8}{:>8} |{:>7}{:>7}{:>7}",
            "keys",
            "thr",
            "what",
            "coeval",
            "scc",
            "array",
            "x scc",
            "x array",
            "x scc",
            "x array",
            "B/key",
            "scc",
            "array"
        )];
        table.push(format!(
            "{:<25}|{:>24} |{:>16} |{:>16} |",
            "", "M/s by the clock", "by the clock", "by processor"
        ));
        let mut seen = Vec::new();
        for row in &self.rows {
            let what = (row.keys, row.threads, row.operation);
            if seen.contains(&what) {
                continue;
            }
            seen.push(what);
            let of = |value: fn(&Row) -> f64| {
                ["coeval", "scc", "scc-array"].map(|index| self.median(what, index, value))
            };
            let (clock, processor) = (of(Row::by_clock), of(Row::by_processor));
            let mut line = format!(
                "{:<11}{:>3} {:<9}|{:>8.3}{:>8.3}{:>8.3} |{:>8.2}{:>8.2} |{:>8.2}{:>8.2} |",
                what.0,
                what.1,
                what.2,
                clock[0],
                clock[1],
                clock[2],
                clock[0] / clock[1],
                clock[0] / clock[2],
                processor[0] / processor[1],
                processor[0] / processor[2]
            );
            let bytes = of(|row| row.bytes.unwrap_or(f64::NAN));
            if !bytes[0].is_nan() {
                let _ = write!(line, "{:>7.1}{:>7.1}{:>7.1}", bytes[0], bytes[1], bytes[2]);
            }
            table.push(line);
        }
        table
    }
}

/// Number of bytes that the process has allocated.
pub fn allocated() -> i64 {
    let bytes = coeval_memory::heap::bytes().expect("the allocator counts");
    i64::try_from(bytes).expect("less than the address space")
}
