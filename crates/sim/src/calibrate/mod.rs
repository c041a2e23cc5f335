//! The commands `calibrate` and `throughput`: they measure the costs of work on this
//! machine, and compare a real server with a simulated one.
#![expect(
    clippy::disallowed_methods,
    reason = "reads and writes files of costs and charts, and says what machine it is on"
)]

mod measure;
mod solve;

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coeval_sim::costs::Costs;
use coeval_sim::throughput::{Demand, Load, Placement, Taken, simulate};
use coeval_workload::build::Build;
use coeval_workload::plot::{Axis, Chart, Series};

use measure::{driven, parts, probed, runtime};
use solve::{probes, solve};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(clap::Args)]
pub(crate) struct CalibrateArguments {
    /// File that receives the costs.
    #[arg(long, default_value = "bench/record/calibration/costs")]
    file: PathBuf,
    /// Duration of each measurement, in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
}

#[derive(clap::Args)]
pub(crate) struct ThroughputArguments {
    /// Only loads whose names contain this text: ycsb-c, ycsb-a, smallbank, tpcc.
    #[arg(long, default_value = "")]
    only: String,
    /// Numbers of clients to measure, one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    clients: Vec<usize>,
    /// Numbers of cores of the server's machine.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    cores: Vec<usize>,
    /// Length of each simulation, in milliseconds of virtual time.
    #[arg(long, default_value_t = 500)]
    length_ms: u64,
    /// File of costs to use instead of the recorded one.
    #[arg(long)]
    costs: Option<PathBuf>,
    /// Also measures a real server on this machine for this many seconds each, beside a
    /// simulated one that shares as many cores with its clients.
    #[arg(long)]
    real: Option<u64>,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
    /// Draws a chart of the results with the most clients into files of this name, `.svg`
    /// and `.png`.
    #[arg(long)]
    chart: Option<PathBuf>,
}

/// Measures all costs, and writes them to the file.
pub(crate) fn calibrate(arguments: &CalibrateArguments) -> Result<bool> {
    let length = Duration::from_secs(arguments.seconds.max(1));
    let binary = arguments.build.coeval(arguments.binary.clone())?;
    let mut costs = parts(length)?;
    let measured = runtime(2)?.block_on(probed(&binary, &probes(), length))?;
    solve(&mut costs, &measured)?;
    if let Some(folder) = arguments.file.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut text = format!(
        "# What work costs, in nanoseconds: cargo run --profile dist -p coeval-sim -- calibrate\n\
         # on {}\n{costs}",
        machine()
    );
    text += "# By transactions that took, of the server and of the clients, in microseconds:\n";
    for (probe, taken) in probes().iter().zip(&measured) {
        let (server, clients) = (micros(taken.server), micros(taken.clients));
        writeln!(text, "# {probe}: {server:.1} {clients:.1}")?;
    }
    fs::write(&arguments.file, &text)?;
    print!("{text}");
    Ok(true)
}

/// Prints a table of simulated throughput, or of simulated beside measured throughput.
pub(crate) fn throughput(arguments: &ThroughputArguments) -> Result<bool> {
    let costs = match &arguments.costs {
        Some(file) => fs::read_to_string(file)?.parse()?,
        None => Costs::recorded(),
    };
    let loads = Load::ALL
        .into_iter()
        .filter(|load| load.name().contains(&arguments.only));
    match arguments.real {
        Some(seconds) => {
            let binary = arguments.build.coeval(arguments.binary.clone())?;
            let real = Duration::from_secs(seconds.max(1));
            beside(arguments, &costs, loads, (&binary, real))?;
        }
        None => alone(arguments, &costs, loads)?,
    }
    Ok(true)
}

fn demand(load: Load, clients: usize, length: Duration) -> Demand {
    Demand {
        load,
        clients,
        length,
    }
}

/// Compares real and simulated servers that share this machine's cores with their
/// clients.
fn beside(
    arguments: &ThroughputArguments,
    costs: &Costs,
    loads: impl Iterator<Item = Load>,
    (binary, real): (&Path, Duration),
) -> Result<()> {
    let cores = cores();
    println!(
        "{:<10} {:>7}  {:>11} {:>11} {:>6}  {:>12} {:>11} {:>6}  {:>9} {:>9}",
        "load",
        "clients",
        "simulated/s",
        "measured/s",
        "ratio",
        "simulated µs",
        "measured µs",
        "ratio",
        "server µs",
        "client µs",
    );
    for load in loads {
        for &clients in &arguments.clients {
            let virtually = Duration::from_millis(arguments.length_ms.max(1));
            let place = Placement::Together { cores };
            let drawn = simulate(costs, place, demand(load, clients, virtually))?;
            let (per_second, taken) =
                runtime(2)?.block_on(driven(binary, demand(load, clients, real)))?;
            let Taken {
                server,
                clients: asking,
            } = taken;
            let both = micros(server + asking);
            println!(
                "{:<10} {clients:>7}  {:>11.0} {per_second:>11.0} {:>6.2}  {:>12.1} {both:>11.1} \
                 {:>6.2}  {:>9.1} {:>9.1}",
                load.name(),
                drawn.per_second,
                drawn.per_second / per_second,
                micros(drawn.processor),
                micros(drawn.processor) / both,
                micros(server),
                micros(asking),
            );
        }
    }
    Ok(())
}

/// Simulates servers on machines of any size, with clients on machines of their own.
fn alone(
    arguments: &ThroughputArguments,
    costs: &Costs,
    loads: impl Iterator<Item = Load>,
) -> Result<()> {
    println!(
        "{:<10} {:>7} {:>5} {:>12} {:>9} {:>5}",
        "load", "clients", "cores", "simulated/s", "server µs", "busy"
    );
    let most = arguments.clients.iter().copied().max();
    let mut series = Vec::new();
    for load in loads {
        for &clients in &arguments.clients {
            let mut points = Vec::new();
            for &cores in &arguments.cores {
                let length = Duration::from_millis(arguments.length_ms.max(1));
                let place = Placement::Apart { cores };
                let drawn = simulate(costs, place, demand(load, clients, length))?;
                println!(
                    "{:<10} {clients:>7} {cores:>5} {:>12.0} {:>9.1} {:>4.0}%",
                    load.name(),
                    drawn.per_second,
                    micros(drawn.processor),
                    100.0 * drawn.per_second * drawn.processor.as_secs_f64() / cores as f64,
                );
                points.push((cores as f64, drawn.per_second));
            }
            if Some(clients) == most {
                let name = load.name().to_owned();
                series.push(Series { name, points });
            }
        }
    }
    if let Some(file) = &arguments.chart {
        let axis = |name: &str| Axis {
            name: name.to_owned(),
            logarithmic: false,
        };
        let mut title = "Simulated throughput of one server".to_owned();
        if let Some(clients) = most {
            let _ = write!(title, ", {clients} clients elsewhere");
        }
        let chart = Chart {
            title,
            x: axis("cores of the server"),
            y: axis("transactions per second"),
            series,
        };
        fs::write(file.with_extension("svg"), chart.svg())?;
        fs::write(file.with_extension("png"), chart.png()?)?;
    }
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Model name of the CPU, and number of cores.
fn machine() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = about.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    format!("{} × {}", cores(), name.unwrap_or_default())
}
