//! Faults of disks, links and nodes, chosen by the seed.

use std::time::Duration;

use coeval_env::sim::{Latency, Link, Loss};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::nodes::Cluster;

/// A sequence of faults.
pub struct Plan {
    random: StdRng,
}

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl Plan {
    pub fn new(seed: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed ^ 0xfa_017),
        }
    }

    /// Sets the behaviour of disks and links in this run.
    pub fn begin(&mut self, cluster: &Cluster) {
        let link = Link {
            latency: Latency {
                least: Duration::from_micros(self.random.random_range(50..1000)),
                spread: Duration::from_micros(self.random.random_range(1..2000)),
                ..Latency::default()
            },
            patience: Duration::from_secs(2),
            ..Link::default()
        };
        cluster.world.set_usual_link(link);
        for machine in &cluster.machines {
            let least = Duration::from_micros(self.random.random_range(50..2000));
            cluster.world.set_sync_time(*machine, least..3 * least);
            let losses = [Loss::Random, Loss::Everything, Loss::Nothing];
            let loss = losses[self.random.random_range(0..losses.len())];
            cluster.world.set_loss(*machine, loss);
        }
    }

    fn pick(&mut self, cluster: &Cluster) -> usize {
        match cluster.leader() {
            Some(leader) if self.random.random_bool(0.7) => leader,
            _ => self.random.random_range(0..cluster.machines.len()),
        }
    }

    /// Injects one fault, and ends it.
    pub async fn one(&mut self, cluster: &mut Cluster) {
        let pause = self.random.random_range(50..900);
        cluster.world.wait(milliseconds(pause)).await;
        let lasts = milliseconds(self.random.random_range(10..1500));
        let victim = self.pick(cluster);
        let machines = cluster.machines.clone();
        match self.random.random_range(0..5) {
            0 => {
                cluster.world.crash(machines[victim]);
                cluster.world.wait(lasts).await;
                cluster.restart(victim);
            }
            1 => {
                // Kills the process only: written data stays.
                cluster.world.kill(machines[victim]);
                cluster.world.wait(lasts).await;
                cluster.restart(victim);
            }
            2 => {
                for machine in &machines {
                    cluster.world.crash(*machine);
                }
                for index in 0..machines.len() {
                    cluster.world.wait(lasts / 4).await;
                    cluster.restart(index);
                }
            }
            3 => {
                let others = || {
                    machines
                        .iter()
                        .filter(|machine| **machine != machines[victim])
                };
                for other in others() {
                    cluster.world.block(machines[victim], *other);
                    cluster.world.block(*other, machines[victim]);
                }
                cluster.world.wait(lasts).await;
                for other in others() {
                    cluster.world.unblock(machines[victim], *other);
                    cluster.world.unblock(*other, machines[victim]);
                }
            }
            _ => {
                let other = (victim + 1 + self.random.random_range(0..2)) % machines.len();
                cluster.world.block(machines[victim], machines[other]);
                cluster.world.wait(lasts).await;
                cluster.world.unblock(machines[victim], machines[other]);
            }
        }
    }
}
