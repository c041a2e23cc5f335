//! Calibration measurements: the CPU time of operations in this process and in a server
//! process.
#![expect(
    clippy::disallowed_methods,
    reason = "measures the real machine: its clock, threads, sockets, files and a server process"
)]

use std::fs;
use std::hint::black_box;
use std::io::{Seek, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coeval_sim::costs::Costs;
use coeval_sim::probe::{self, Probe};
use coeval_sim::throughput::{Demand, Taken};
use coeval_workload::driver::{self, Length};
use coeval_workload::loads::ycsb::{self, Letter, Ycsb};
use coeval_workload::server::{Launch, Server, free_port};
use coeval_workload::store::Database;
use coeval_workload::workload::Workload;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::Result;

/// Number of operations of the longer of two otherwise equal transactions.
const MANY: u32 = 17;
/// Length of a message, in bytes.
const MESSAGE: usize = 100;
/// Number of connections of the echo test.
const CONNECTIONS: usize = 16;
/// Number of fsyncs that are timed.
const SYNCS: usize = 200;

/// Measures the costs that need no server.
pub(super) fn parts(length: Duration) -> Result<Costs> {
    let mut costs = Costs {
        disk: sync()?,
        ..Costs::default()
    };
    let prices = &mut costs.prices;
    prices.poll = runtime(1)?.block_on(turn(length))?;
    let echo = echo(length)?;
    let message = echo.saturating_sub(prices.poll) / 2;
    (prices.receive, prices.send) = (message, message);
    prices.read = runtime(2)?.block_on(read(length))?;
    Ok(costs)
}

pub(super) fn runtime(threads: usize) -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
}

/// CPU time of a process or thread so far, in user and kernel mode, with a resolution of
/// ten milliseconds.
fn processor_time(whose: &str) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{whose}/stat"))?;
    // After the name, which may contain any character, come the state and, eleven fields
    // later, the two times.
    let (_, numbers) = text.rsplit_once(')').ok_or("no name in stat")?;
    let mut ticks = 0;
    for number in numbers.split_whitespace().skip(11).take(2) {
        ticks += number.parse::<u64>()?;
    }
    Ok(Duration::from_millis(10 * ticks))
}

/// Time of an fsync, as the log does it: in a file preallocated with zeros.
fn sync() -> Result<Duration> {
    let folder = tempfile::tempdir()?;
    let mut file = fs::File::create(folder.path().join("log"))?;
    for _ in 0..SYNCS {
        file.write_all(&[0; 4096])?;
    }
    file.sync_all()?;
    file.rewind()?;
    let mut took = Vec::new();
    for _ in 0..SYNCS {
        file.write_all(&[7; 4096])?;
        let began = Instant::now();
        file.sync_data()?;
        took.push(began.elapsed());
    }
    took.sort();
    Ok(took[SYNCS / 2])
}

async fn turn(length: Duration) -> Result<Duration> {
    let before = processor_time("self")?;
    let both = [tokio::spawn(turns(length)), tokio::spawn(turns(length))];
    let mut all = 0;
    for one in both {
        all += one.await?;
    }
    Ok((processor_time("self")? - before) / all)
}

async fn turns(length: Duration) -> u32 {
    let (began, mut turns) = (Instant::now(), 0);
    while began.elapsed() < length {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        turns += 1000;
    }
    turns
}

/// CPU time of the answering thread for one message received and one sent.
fn echo(length: Duration) -> Result<Duration> {
    let (tell, told) = std::sync::mpsc::channel();
    let answering = std::thread::spawn(move || {
        let answered = answer(&tell);
        answered.map_err(|error| error.to_string())
    });
    let address = told.recv()?;
    let asked = runtime(1)?.block_on(async move {
        let ends = Instant::now() + length;
        let asking: Vec<_> = (0..CONNECTIONS)
            .map(|_| tokio::spawn(ask(address, ends)))
            .collect();
        let mut asked = 0;
        for one in asking {
            asked += one.await??;
        }
        Result::Ok(asked)
    })?;
    let taken = answering.join().map_err(|_panic| "the echo has ended")??;
    Ok(taken / asked)
}

async fn ask(address: SocketAddr, ends: Instant) -> std::io::Result<u32> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut bytes, mut times) = ([7; MESSAGE], 0);
    while Instant::now() < ends {
        stream.write_all(black_box(&bytes)).await?;
        stream.read_exact(&mut bytes).await?;
        times += 1;
    }
    Ok(times)
}

/// Echoes until all clients have disconnected; returns the total CPU time of this thread.
fn answer(tell: &std::sync::mpsc::Sender<SocketAddr>) -> Result<Duration> {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    executor.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        tell.send(listener.local_addr()?)?;
        let mut answering = Vec::new();
        for _ in 0..CONNECTIONS {
            let (mut stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            answering.push(tokio::spawn(async move {
                let mut bytes = [0; MESSAGE];
                while stream.read_exact(&mut bytes).await.is_ok()
                    && stream.write_all(&bytes).await.is_ok()
                {}
            }));
        }
        for one in answering {
            one.await?;
        }
        processor_time("thread-self")
    })
}

/// CPU time of the engine for one more read in a transaction.
async fn read(length: Duration) -> Result<Duration> {
    let one = in_process(1, length).await?;
    let many = in_process(MANY, length).await?;
    Ok(many.saturating_sub(one) / (MANY - 1))
}

/// CPU time of a transaction of `operations` YCSB reads in this process.
async fn in_process(operations: u32, length: Duration) -> Result<Duration> {
    let folder = tempfile::tempdir()?;
    let settings = coeval_occ::Settings::default();
    let (engine, _) = coeval_occ::Engine::open(folder.path(), settings).await?;
    let load = Arc::new(Ycsb::new(ycsb::Settings {
        letter: Letter::C,
        records: 1000,
        theta: 0.0,
        operations: operations.into(),
        ..ycsb::Settings::default()
    }));
    let database = Database::in_process(Arc::new(engine), load.tables());
    let options = driver::Options {
        warm_up: length / 10,
        length: Length::Time(length),
        check: false,
        ..driver::Options::default()
    };
    let outcome = driver::run(&load, &database, &options, &mut |_| {}).await?;
    let micros = outcome.report.cpu_microseconds_per_transaction;
    Ok(Duration::from_secs_f64(micros / 1e6))
}

/// A server process with a data directory of its own.
struct Running {
    server: Server,
    process: String,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

async fn start(binary: &Path) -> Result<Running> {
    let folder = tempfile::tempdir()?;
    let launch = Launch::coeval(binary.to_owned(), folder.path(), free_port().await?)?;
    let mut server = launch.start()?;
    drop(server.ready().await?);
    Ok(Running {
        process: server.id().to_string(),
        address: ([127, 0, 0, 1], server.port()).into(),
        server,
        _folder: folder,
    })
}

/// CPU time of a real server, and of its clients, per transaction of each probe.
pub(super) async fn probed(
    binary: &Path,
    probes: &[Probe],
    length: Duration,
) -> Result<Vec<Taken>> {
    let running = start(binary).await?;
    probe::fill(running.address).await?;
    let mut all = Vec::new();
    for probe in probes {
        let probers = probe.connect(running.address).await?;
        let (server, clients) = (processor_time(&running.process)?, processor_time("self")?);
        let done = probe::drive(probers, length).await?;
        let done = u32::try_from(done.max(1))?;
        all.push(Taken {
            server: (processor_time(&running.process)? - server) / done,
            clients: (processor_time("self")? - clients) / done,
        });
    }
    running.server.stop().await?;
    Ok(all)
}

/// Transactions per second of a real server, and its and its clients' CPU time for each.
pub(super) async fn driven(binary: &Path, demand: Demand) -> Result<(f64, Taken)> {
    let running = start(binary).await?;
    demand.drive(running.address, true).await?;
    let (server, clients) = (processor_time(&running.process)?, processor_time("self")?);
    let per_second = demand.drive(running.address, false).await?;
    let done = (per_second * demand.length.as_secs_f64()).max(1.0);
    let taken = Taken {
        server: (processor_time(&running.process)? - server).div_f64(done),
        clients: (processor_time("self")? - clients).div_f64(done),
    };
    running.server.stop().await?;
    Ok((per_second, taken))
}
