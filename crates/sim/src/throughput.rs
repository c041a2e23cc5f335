//! Simulated throughput: how many transactions per second a server would do on a given
//! machine.
//!
//! With the measured [costs](crate::costs) of work, a simulation yields the throughput of
//! a machine, also of one that does not exist. The load, the driver and the server are
//! those that are measured on a real machine, so that both results are comparable.
//!
//! ```text
//!   Placement::Together { cores }   ┌ clients, server ┐     as on a single machine
//!   Placement::Apart { cores }      clients ┆ server        clients cost nothing, links take no time
//! ```

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coeval_env::sim::{Node, World};
use coeval_server::{Settings, Storage};
use coeval_workload::driver::{self, Length};
use coeval_workload::loads::smallbank::SmallBank;
use coeval_workload::loads::tpcc::{Scale, Tpcc};
use coeval_workload::loads::ycsb::{self, Letter, Ycsb};
use coeval_workload::store::{Database, Failure, Pace};
use coeval_workload::workload::Workload;
use tokio_postgres::Config;

use crate::costs::Costs;
use crate::probe::{self, Probe};

/// Workload of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// YCSB C: lookups of one row by key.
    Reads,
    /// YCSB A: lookups of one row by key, and updates of one field.
    Updates,
    /// SmallBank: two to seven statements, three accounts at most.
    SmallBank,
    /// TPC-C: all five transactions, on eight warehouses of a hundredth of the standard's
    /// rows.
    Tpcc,
}

impl Load {
    /// All workloads that can be simulated.
    pub const ALL: [Self; 4] = [Self::Reads, Self::Updates, Self::SmallBank, Self::Tpcc];

    /// Name of the workload.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reads => "ycsb-c",
            Self::Updates => "ycsb-a",
            Self::SmallBank => "smallbank",
            Self::Tpcc => "tpcc",
        }
    }
}

/// Workload and number of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Workload of the clients.
    pub load: Load,
    /// Number of clients, each of which sends its next transaction on receiving the
    /// answer.
    pub clients: usize,
    /// Length of the measurement.
    pub length: Duration,
}

/// Measured throughput of a server.
#[derive(Clone, Copy, Debug)]
pub struct Throughput {
    /// Transactions per second.
    pub per_second: f64,
    /// CPU time of all cores per transaction.
    pub processor: Duration,
}

/// Where the clients run, and the number of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Clients run on the server's machine.
    Together {
        /// Number of cores of that machine.
        cores: usize,
    },
    /// Clients run on machines of their own, on which work takes no time.
    Apart {
        /// Number of cores of the server's machine.
        cores: usize,
    },
}

fn words(error: impl ToString) -> String {
    error.to_string()
}

async fn driven<W: Workload>(
    load: W,
    demand: Demand,
    address: SocketAddr,
    fill: bool,
) -> Result<f64, Failure> {
    let mut config = Config::new();
    config.host(address.ip().to_string()).port(address.port());
    config.user("sim").dbname("sim");
    let database = Database::over_wire(config, load.tables());
    let (database, length) = match fill {
        true => (database.simulated(Pace::default()), Length::Transactions(1)),
        false => (database, Length::Time(demand.length)),
    };
    let options = driver::Options {
        clients: if fill { 1 } else { demand.clients },
        length,
        exact: false,
        load: fill,
        check: false,
        ..driver::Options::default()
    };
    let outcome = driver::run(&Arc::new(load), &database, &options, &mut |_| {}).await?;
    match outcome.report.failed {
        0 => Ok(outcome.report.transactions_per_second),
        _ => {
            let why = outcome.report.first_failure.unwrap_or_default();
            Err(Failure::Wrong(why))
        }
    }
}

impl Demand {
    /// Drives a server, after filling its tables if `fill` is set; returns transactions
    /// per second.
    ///
    /// # Errors
    /// If the driver fails.
    pub async fn drive(self, address: SocketAddr, fill: bool) -> Result<f64, String> {
        let ycsb = |letter| {
            Ycsb::new(ycsb::Settings {
                letter,
                records: 1000,
                theta: 0.0,
                ..ycsb::Settings::default()
            })
        };
        let driven = match self.load {
            Load::Reads => driven(ycsb(Letter::C), self, address, fill).await,
            Load::Updates => driven(ycsb(Letter::A), self, address, fill).await,
            Load::SmallBank => driven(SmallBank::new(2000, 2000, 100), self, address, fill).await,
            Load::Tpcc => {
                let scale = Scale {
                    warehouses: 8,
                    items: 500,
                    customers: 30,
                };
                driven(Tpcc::new(scale, 1), self, address, fill).await
            }
        };
        driven.map_err(words)
    }
}

/// A simulated server, and the machine of its clients.
struct Simulated {
    world: World,
    server: Node,
    clients: Node,
}

const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 5433);

impl Simulated {
    /// Starts a server. Work takes no virtual time yet.
    fn start(costs: &Costs, workers: usize, together: bool) -> Result<Self, String> {
        let world = World::new(1);
        let server = world.node();
        let clients = if together { server } else { world.node() };
        world.set_sync_time(server, costs.disk..costs.disk);
        let settings = Settings {
            listen: ADDRESS.into(),
            data_dir: PathBuf::from("/data"),
            worker_threads: workers,
            recovery_threads: 1,
            memory_limit_megabytes: 256,
            ..Settings::default()
        };
        drop(world.spawn(server, async move {
            let started = coeval_server::Server::start(settings, Storage::Directory).await;
            match started {
                Ok(running) => running.failed().await,
                Err(error) => error.to_string(),
            }
        }));
        let simulated = Self {
            world,
            server,
            clients,
        };
        simulated.by_clients(async {
            for _ in 0..1000 {
                if coeval_env::connect(ADDRESS).await.is_ok() {
                    return Ok(());
                }
                coeval_env::sleep(Duration::from_millis(10)).await;
            }
            Err("the server does not answer".to_owned())
        })?;
        Ok(simulated)
    }

    fn by_clients<T>(
        &self,
        work: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> Result<T, String>
    where
        T: Send + 'static,
    {
        self.world.run(self.clients, work).map_err(words)?
    }
}

/// Simulates a server with these costs.
///
/// # Errors
/// If the server or the driver fails.
pub fn simulate(costs: &Costs, place: Placement, demand: Demand) -> Result<Throughput, String> {
    let (cores, together) = match place {
        Placement::Together { cores } => (cores, true),
        Placement::Apart { cores } => (cores, false),
    };
    let simulated = Simulated::start(costs, cores, together)?;
    simulated.by_clients(demand.drive(ADDRESS, true))?;
    let world = &simulated.world;
    world.set_cpu(simulated.server, Some(costs.cpu(cores)));
    let per_second = simulated.by_clients(demand.drive(ADDRESS, false))?;
    let done = (per_second * demand.length.as_secs_f64()).max(1.0);
    Ok(Throughput {
        per_second,
        processor: world.processor_time(simulated.server).div_f64(done),
    })
}

/// Average CPU time per transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// CPU time of the server.
    pub server: Duration,
    /// CPU time of the clients.
    pub clients: Duration,
}

/// CPU time per transaction of a probe on two cores that server and clients share, or on
/// two cores for each.
///
/// # Errors
/// If the server or a client fails.
pub fn probed(
    costs: &Costs,
    probe: Probe,
    together: bool,
    length: Duration,
) -> Result<Taken, String> {
    let simulated = Simulated::start(costs, 2, together)?;
    let (world, server, clients) = (&simulated.world, simulated.server, simulated.clients);
    simulated.by_clients(probe::fill(ADDRESS))?;
    let probers = simulated.by_clients(probe.connect(ADDRESS))?;
    world.set_cpu(server, Some(costs.cpu(2)));
    if !together {
        world.set_cpu(clients, Some(costs.cpu(2)));
    }
    let done = simulated.by_clients(probe::drive(probers, length))?;
    let each = |node| {
        let count = u32::try_from(done).unwrap_or(u32::MAX);
        world.processor_time(node) / count.max(1)
    };
    Ok(Taken {
        server: each(server),
        clients: match together {
            true => Duration::ZERO,
            false => each(clients),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulated(costs: &Costs, cores: usize, clients: usize, load: Load) -> Throughput {
        let demand = Demand {
            load,
            clients,
            length: Duration::from_millis(50),
        };
        simulate(costs, Placement::Apart { cores }, demand).unwrap()
    }

    #[test]
    fn a_machine_does_what_its_costs_allow() {
        let costs = Costs::recorded();
        let one = simulated(&costs, 1, 4, Load::Reads);
        let busy = one.per_second * one.processor.as_secs_f64();
        assert!((0.95..1.05).contains(&busy), "{busy}");
        let two = simulated(&costs, 2, 4, Load::Reads);
        assert!(two.per_second > 1.8 * one.per_second, "{one:?} {two:?}");
    }

    #[test]
    fn clients_on_the_same_machine_take_their_share() {
        let costs = Costs::recorded();
        let demand = Demand {
            load: Load::Reads,
            clients: 4,
            length: Duration::from_millis(50),
        };
        let together = simulate(&costs, Placement::Together { cores: 2 }, demand).unwrap();
        let apart = simulate(&costs, Placement::Apart { cores: 2 }, demand).unwrap();
        assert!(together.per_second < 0.9 * apart.per_second);
        assert!(together.processor > apart.processor + costs.prices.ask);
    }

    #[test]
    fn who_writes_waits_for_the_disk() {
        let costs = Costs {
            disk: Duration::from_millis(5),
            ..Costs::recorded()
        };
        let one = simulated(&costs, 1, 1, Load::Updates);
        assert!(one.per_second < 450.0, "{one:?}");
    }

    #[test]
    fn a_probe_takes_what_its_work_is_said_to_cost() {
        let mut costs = Costs::recorded();
        // With more work per wake-up, a thread sleeps less often.
        costs.prices.wake = Duration::ZERO;
        let length = Duration::from_millis(20);
        let before = probed(&costs, probe::UPDATES, false, length).unwrap();
        let mut dearer = costs;
        // Much, since which commits share a flush differs between the runs by chance, and with
        // it the work of an update by a few microseconds.
        dearer.prices.write += Duration::from_micros(10);
        let after = probed(&dearer, probe::UPDATES, false, length).unwrap();
        let more = (after.server - before.server).as_nanos();
        assert!((150_000..200_000).contains(&more), "{more}");
    }
}
