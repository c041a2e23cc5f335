//! The command line that repeats a run: its formatter and its parser.
//!
//! ```text
//! cargo run -p coeval-sim -- run --seed 7 --scenario occ/bank/serializable/power \
//!     --mode safety --length-ms 1250 --faults=0,3
//! ```
//!
//! [`Options::command`] prints what [`Arguments`] parse, and parsing it yields the same
//! [`Options`]; a line of `seeds.txt` has the same arguments.

use std::time::Duration;

use coeval_measure::validators;
use coeval_occ::Validator;
use coeval_types::planted::Bug;

use crate::{Mode, Options, Scenario};

/// Command-line arguments that select a run.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Seed that decides everything else.
    #[arg(long)]
    pub seed: u64,
    /// Scenario as engine/workload/level/faults, such as occ/bank/serializable/power.
    #[arg(long)]
    pub scenario: Scenario,
    /// How long clients run, in milliseconds of virtual time.
    #[arg(long)]
    pub length_ms: Option<u64>,
    /// Restricts the plan to these faults, by number.
    #[arg(long, value_delimiter = ',')]
    pub faults: Option<Vec<usize>>,
    /// Omits all faults of the plan.
    #[arg(long, conflicts_with = "faults")]
    pub no_faults: bool,
    /// Requirement after the faults: safety or liveness.
    #[arg(long, value_parser = mode)]
    pub mode: Option<Mode>,
    /// A known bug to inject; needs the feature planted.
    #[arg(long, value_parser = bug)]
    pub plant: Option<Bug>,
    /// How an occ engine validates scans: rv, lrv, gwv or mvrcc.
    #[arg(long, value_parser = validator, default_value = "rv")]
    pub validator: Validator,
}

fn mode(text: &str) -> Result<Mode, String> {
    [Mode::Safety, Mode::Liveness]
        .into_iter()
        .find(|mode| mode.name() == text)
        .ok_or_else(|| "safety or liveness".to_owned())
}

fn bug(text: &str) -> Result<Bug, String> {
    let known = Bug::ALL.iter().find(|bug| bug.name() == text);
    known.copied().ok_or_else(|| {
        let names: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

fn validator(text: &str) -> Result<Validator, String> {
    validators::named(text).ok_or_else(|| {
        let names: Vec<&str> = validators::ALL.iter().map(|one| one.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

impl From<Arguments> for Options {
    fn from(arguments: Arguments) -> Self {
        let mut options = Self::new(arguments.scenario, arguments.seed);
        if let Some(length) = arguments.length_ms {
            options.length = Duration::from_millis(length);
        }
        options.mode = arguments.mode.unwrap_or(options.mode);
        options.faults = match arguments.no_faults {
            true => Some(Vec::new()),
            false => arguments.faults,
        };
        options.bug = arguments.plant;
        options.validator = arguments.validator;
        options
    }
}

impl Options {
    /// The command that repeats the run.
    #[must_use]
    pub fn command(&self) -> String {
        let features = match self.bug {
            Some(_) => " --features planted",
            None => "",
        };
        format!(
            "cargo run -p coeval-sim{features} -- run {}",
            self.arguments()
        )
    }

    /// The arguments that select the run, as in a line of `seeds.txt`.
    #[must_use]
    pub fn arguments(&self) -> String {
        let mut arguments = format!(
            "--seed {} --scenario {} --mode {} --length-ms {}",
            self.seed,
            self.scenario,
            self.mode.name(),
            self.length.as_millis()
        );
        match self.faults.as_deref() {
            None => {}
            Some([]) => arguments.push_str(" --no-faults"),
            Some(only) => {
                let numbers: Vec<String> = only.iter().map(usize::to_string).collect();
                arguments.push_str(&format!(" --faults={}", numbers.join(",")));
            }
        }
        if let Some(bug) = self.bug {
            arguments.push_str(&format!(" --plant {bug}"));
        }
        if self.validator != Validator::default() {
            arguments.push_str(&format!(" --validator {}", self.validator.name()));
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: Arguments,
    }

    #[test]
    fn what_is_printed_is_read() {
        let scenario = "occ/bank/serializable/power".parse().unwrap();
        for faults in [None, Some(vec![]), Some(vec![3]), Some(vec![0, 2, 11])] {
            for mode in [Mode::Safety, Mode::Liveness] {
                for (bug, &validator) in [None, Some(Bug::LoseUpdate)].iter().zip(validators::ALL) {
                    let options = Options {
                        faults: faults.clone(),
                        mode,
                        bug: *bug,
                        validator,
                        length: Duration::from_millis(1250),
                        ..Options::new(scenario, 7)
                    };
                    let arguments = options.arguments();
                    let words = ["run"].into_iter().chain(arguments.split(' '));
                    let line =
                        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
                    assert_eq!(Options::from(line.run), options, "{arguments}");
                    assert!(options.command().ends_with(&format!(" -- run {arguments}")));
                }
            }
        }
    }

    #[test]
    fn faults_are_some_or_none() {
        let base = [
            "run",
            "--seed",
            "1",
            "--scenario",
            "occ/bank/serializable/power",
        ];
        for wrong in [
            &["--faults=", "--no-faults"][..],
            &["--faults=1", "--no-faults"],
        ] {
            assert!(Line::try_parse_from(base.iter().chain(wrong)).is_err());
        }
    }
}
