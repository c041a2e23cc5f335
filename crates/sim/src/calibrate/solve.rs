//! Costs such that simulated probes take what real ones took.

use std::time::Duration;

use coeval_sim::costs::Costs;
use coeval_sim::probe::{self, Probe};
use coeval_sim::throughput::{Taken, probed};

use super::Result;

/// Whose processor time tells.
#[derive(Clone, Copy)]
enum Whose {
    Server,
    Clients,
    /// Of a machine on which both are.
    Both,
}

/// A cost, and what tells it.
type Unknown = (fn(&mut Costs) -> &mut Duration, Probe, Whose);

/// In an order in which each depends on those before it most.
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

/// How often all are looked at.
const ROUNDS: usize = 4;
/// What a cost is tried with, to see how often it is met.
const TRIED: Duration = Duration::from_micros(1);
/// Of virtual time.
const LENGTH: Duration = Duration::from_millis(40);

/// The probes that have to be measured, in this order.
pub(super) fn probes() -> Vec<Probe> {
    UNKNOWN.iter().map(|&(_, probe, _)| probe).collect()
}

fn taken(costs: &Costs, probe: Probe, whose: Whose) -> Result<f64> {
    // Many clients keep a real machine awake, whose cores they share; simulated ones have
    // cores of their own. What it is to be woken is for the probe of one client to tell.
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

/// Finds what is not known yet by what [`probes`] took.
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
