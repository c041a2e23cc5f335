//! The cost model of the simulator: CPU and disk times of each kind of work, measured on
//! a real machine.
//!
//! The command `calibrate` measures the costs, and stores them as a file of lines, name
//! and nanoseconds; [`Costs::recorded`] are those of `bench/record/calibration/costs`.
//! With them, work takes as long on a simulated machine as on the measured one
//! ([`crate::throughput`]).
//!
//! Some costs are measured directly:
//!
//! | cost | of | measured as the CPU time of |
//! | --- | --- | --- |
//! | `receive`, `send` | one receive or send | a task that echoes 100 bytes to 16 peers; half of each echo, without the poll |
//! | `poll` | one poll of a task | two tasks that yield to each other |
//! | `read` | looking up a row by its key | YCSB C in the process, transactions of 1 and of 17 reads |
//! | `disk` | making 4096 bytes durable | the median of 200 waits, which cost no CPU |
//!
//! The others are solved for: the CPU time of a real server, or of its clients, is
//! compared with a simulation of the same statements at the known costs ([`crate::probe`]
//! lists the statements). If a transaction takes 40 µs on the machine and 34 µs in the
//! simulation, where its two writes cost nothing, a write costs 3 µs. Each cost depends
//! on the others, so `calibrate` iterates until they converge.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use coeval_env::sim::{Cpu, Prices};

/// Costs of work on a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// CPU time of each kind of work.
    pub prices: Prices,
    /// How long an fsync waits for the disk.
    pub disk: Duration,
}

/// Error of a cost file: a malformed line, or the name of a missing cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "costs: {}", self.0)
    }
}

impl std::error::Error for Unreadable {}

/// Recorded costs of the measured machine.
const RECORDED: &str = include_str!("../../../bench/record/calibration/costs");

impl Costs {
    /// The costs recorded in the repository.
    ///
    /// # Panics
    /// Never: a test of this crate parses the record.
    #[must_use]
    pub fn recorded() -> Self {
        RECORDED.parse().expect("a record that can be read")
    }

    /// A simulated CPU with `cores` cores of these costs.
    #[must_use]
    pub const fn cpu(&self, cores: usize) -> Cpu {
        Cpu {
            cores,
            prices: self.prices,
        }
    }

    const fn lines(&mut self) -> [(&'static str, &mut Duration); 14] {
        let prices = &mut self.prices;
        [
            ("receive", &mut prices.receive),
            ("send", &mut prices.send),
            ("copy", &mut prices.copy),
            ("poll", &mut prices.poll),
            ("wake", &mut prices.wake),
            ("ask", &mut prices.ask),
            ("plan", &mut prices.plan),
            ("execute", &mut prices.execute),
            ("transaction", &mut prices.transaction),
            ("read", &mut prices.read),
            ("row", &mut prices.row),
            ("write", &mut prices.write),
            ("sync", &mut prices.sync),
            ("disk", &mut self.disk),
        ]
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, cost) in self.clone().lines() {
            writeln!(formatter, "{name} {}", cost.as_nanos())?;
        }
        Ok(())
    }
}

impl FromStr for Costs {
    type Err = Unreadable;

    /// Parses lines of name and nanoseconds; `#` begins a comment.
    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let mut costs = Self::default();
        let mut missing: Vec<&str> = costs.lines().map(|(name, _)| name).to_vec();
        for line in text.lines() {
            let told = line.split('#').next().unwrap_or_default().trim();
            if told.is_empty() {
                continue;
            }
            let no_cost = || Unreadable(format!("{line:?} is no name and nanoseconds"));
            let (name, nanoseconds) = told.split_once(' ').ok_or_else(no_cost)?;
            let nanoseconds = nanoseconds.trim().parse().map_err(|_| no_cost())?;
            let mut lines = costs.lines().into_iter();
            let (_, cost) = lines
                .find(|(known, _)| *known == name)
                .ok_or_else(no_cost)?;
            *cost = Duration::from_nanos(nanoseconds);
            missing.retain(|other| *other != name);
        }
        match missing.first() {
            None => Ok(costs),
            Some(name) => Err(Unreadable(format!("{name} is missing"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let costs = Costs::recorded();
        assert!(costs.prices.read > Duration::ZERO);
        assert_eq!(costs.to_string().parse(), Ok(costs));
        let short = costs.to_string().replace("plan", "# plan");
        let error = short.parse::<Costs>().unwrap_err();
        assert_eq!(error.to_string(), "costs: plan is missing");
        assert!("read fast".parse::<Costs>().is_err());
        assert!("reed 5".parse::<Costs>().is_err());
    }
}
