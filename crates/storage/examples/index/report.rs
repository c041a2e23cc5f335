//! What was measured, as rows, and as a table of medians.

use std::fmt::Write as _;

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
    /// Millions of operations in a second of the clock.
    fn by_clock(&self) -> f64 {
        self.operations as f64 / self.seconds / 1e6
    }

    /// Millions of operations in a second of a processor.
    fn by_processor(&self) -> f64 {
        self.operations as f64 / self.processor / 1e6
    }
}

/// All of them.
pub struct Rows {
    rows: Vec<Row>,
    sum: Option<u64>,
    path: Option<String>,
}

impl Rows {
    /// None yet. If there is a path, a file there always has what there is.
    pub fn new(path: Option<String>) -> Self {
        let rows = Self {
            rows: Vec::new(),
            sum: None,
            path,
        };
        rows.write();
        rows
    }

    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
        self.write();
    }

    /// Notes bytes for each key with the last row.
    pub fn set_bytes(&mut self, bytes: f64) {
        self.rows.last_mut().expect("a row").bytes = Some(bytes);
        self.write();
    }

    /// From here on indexes are compared that hold the same.
    pub fn begin_comparison(&mut self) {
        self.sum = None;
    }

    /// # Panics
    /// When another index came to another sum.
    pub fn same_for_every_index(&mut self, sum: u64) {
        let expected = *self.sum.get_or_insert(sum);
        assert_eq!(sum, expected, "scans have seen the same");
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a measurement of one crate on one machine"
    )]
    fn write(&self) {
        let Some(path) = &self.path else {
            return;
        };
        if let Err(error) = std::fs::write(path, self.csv()) {
            eprintln!("{path}: cannot be written: {error}");
            std::process::exit(1);
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

    /// Medians, and ours as multiples of the others'.
    pub fn print(&self) {
        println!(
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
        );
        println!(
            "{:<25}|{:>24} |{:>16} |{:>16} |",
            "", "M/s by the clock", "by the clock", "by processor"
        );
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
            print!(
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
            match bytes[0].is_nan() {
                true => println!(),
                false => println!("{:>7.1}{:>7.1}{:>7.1}", bytes[0], bytes[1], bytes[2]),
            }
        }
    }
}

/// Bytes that the process has allocated.
pub fn allocated() -> i64 {
    let bytes = coeval_memory::heap::bytes().expect("the allocator counts");
    i64::try_from(bytes).expect("less than the address space")
}

/// Time that this thread has had a processor.
#[expect(
    clippy::disallowed_methods,
    reason = "a measurement of one crate on one machine"
)]
pub fn processor_nanoseconds() -> u64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat");
    let first = statistics.ok().and_then(|text| {
        let first = text.split_ascii_whitespace().next()?;
        first.parse().ok()
    });
    first.unwrap_or_default()
}
