//! What work costs on a machine, as it was measured there.
//!
//! The command `calibrate` measures, and keeps what it finds as a file of lines, name and
//! nanoseconds; [`Costs::recorded`] are those of `bench/record/calibration/costs`. With
//! them a simulated machine takes as long as a real one ([`crate::throughput`]).
//!
//! Some are measured by themselves:
//!
//! | cost | of | measured as the processor time of |
//! | --- | --- | --- |
//! | `receive`, `send` | bytes that come or go at once | a task that echoes 100 bytes for 16 others over loopback; half of each echo, without the turn |
//! | `poll` | a task's turn | two tasks that yield to each other |
//! | `read` | looking for a row by its key | YCSB C in the process, transactions of 1 and of 17 reads |
//! | `disk` | making 4096 bytes durable | the median of 200 waits, which cost no processor |
//!
//! The others are what is left of a real server's processor time, or its clients', when
//! the same statements are simulated at the costs that are known ([`crate::probe`] lists
//! the statements): if a transaction takes 40 µs on the machine and 34 µs in the
//! simulation, where it writes twice for nothing, a write costs 3 µs. Each depends on
//! the others, so that is done over and over until nothing moves.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use coeval_env::sim::{Cpu, Prices};

/// What work costs on a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// What tasks do.
    pub prices: Prices,
    /// How long a sync waits for the disk.
    pub disk: Duration,
}

/// A line that says no cost, or one that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "costs: {}", self.0)
    }
}

impl std::error::Error for Unreadable {}

/// What the measured machine's costs are.
const RECORDED: &str = include_str!("../../../bench/record/calibration/costs");

impl Costs {
    /// Those on record.
    ///
    /// # Panics
    /// Never: a test of this crate reads them.
    #[must_use]
    pub fn recorded() -> Self {
        RECORDED.parse().expect("a record that can be read")
    }

    /// A machine of so many such cores.
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

    /// Lines of name and nanoseconds; a `#` begins a remark.
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
