//! The calibration solver: finds costs such that simulated probes take as much CPU time
//! as the real ones.

use std::time::Duration;

use coeval_sim::costs::Costs;
use coeval_sim::probe::{self, Probe};
use coeval_sim::throughput::{Taken, probed};

use super::Result;

/// Whose CPU time determines a cost.
#[derive(Clone, Copy)]
enum Whose {
    Server,
    Clients,
    /// Server and clients together, on one machine.
    Both,
}

/// An unknown cost, and the measurement that determines it.
type Unknown = (fn(&mut Costs) -> &mut Duration, Probe, Whose);

/// The unknown costs, ordered such that each depends mostly on those before it.
const UNKNOWN: [Unknown; 9] = [
    (
        |costs| &mut costs.prices.execute,
        probe::SELECTS,
        Whose::Server,
    ),
    (|costs| &mut costs.prices.ask, probe::SELECT, Whose::Clients),
    (
        |costs| &mut costs.prices.transaction,
        probe::SELECT,
        Whose::Server,
    ),
    (|costs| &mut costs.prices.plan, probe::TEXT, Whose::Server),
    (|costs| &mut costs.prices.copy, probe::WIDE, Whose::Server),
    (|costs| &mut costs.prices.row, probe::RANGE, Whose::Server),
    (
        |costs| &mut costs.prices.write,
        probe::UPDATES,
        Whose::Server,
    ),
    (|costs| &mut costs.prices.wake, probe::ALONE, Whose::Server),
    (|costs| &mut costs.prices.sync, probe::UPDATE, Whose::Both),
];

/// Number of iterations over all costs.
const ROUNDS: usize = 4;
/// Trial value of a cost, to find how often a probe incurs it.
const TRIED: Duration = Duration::from_micros(1);
/// Length of a simulation, in virtual time.
const LENGTH: Duration = Duration::from_millis(40);

/// The probes to measure, in the order of the unknown costs.
pub(super) fn probes() -> Vec<Probe> {
    UNKNOWN.iter().map(|&(_, probe, _)| probe).collect()
}

fn taken(costs: &Costs, probe: Probe, whose: Whose) -> Result<f64> {
    // Many clients keep a real machine awake, whose cores they share; simulated clients
    // have cores of their own. The cost of waking a thread follows from the probe with
    // one client.
    let mut costs = *costs;
    let together = matches!(whose, Whose::Both);
    if !together && probe != probe::ALONE {
        costs.prices.wake = Duration::ZERO;
    }
    let taken = probed(&costs, probe, together, LENGTH)?;
    Ok(of(taken, whose))
}

fn of(taken: Taken, whose: Whose) -> f64 {
    match whose {
        Whose::Server => taken.server,
        Whose::Clients => taken.clients,
        Whose::Both => taken.server + taken.clients,
    }
    .as_secs_f64()
}

/// Solves for the unknown costs from the measurements of [`probes`].
pub(super) fn solve(costs: &mut Costs, measured: &[Taken]) -> Result<()> {
    for _ in 0..ROUNDS {
        for (&(cost, probe, whose), &real) in UNKNOWN.iter().zip(measured) {
            *cost(costs) = Duration::ZERO;
            let without = taken(costs, probe, whose)?;
            *cost(costs) = TRIED;
            let with = taken(costs, probe, whose)?;
            let times = (with - without) / TRIED.as_secs_f64();
            let left = of(real, whose) - without;
            *cost(costs) = Duration::from_secs_f64((left / times.max(1e-3)).max(0.0));
        }
    }
    Ok(())
}
