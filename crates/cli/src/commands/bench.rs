//! The command line of `coeval bench`.

use std::process::ExitCode;
use std::time::Duration;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use coeval_check::history::Format;
use coeval_txn::Isolation;
use coeval_workload::build::MEASURED;
use coeval_workload::driver::{Length, MAX_ARRIVALS, OPERATION_TIMEOUT, Options};
use coeval_workload::loads::hybrid::Settings as Hybrid;
use coeval_workload::loads::tpcc::{Rewards, Scale};
use coeval_workload::loads::ycsb::{Letter, Settings as Ycsb};

use crate::bench::{self, BenchTarget, Load, Picture, Plan, Protocol};

const EXAMPLES: &str = "\
Examples:
  coeval bench tpcc --warehouses 4 --threads 2 --seconds 30
  coeval bench tpcc --url postgres://127.0.0.1:5433 --clients 16 --json result.json
  coeval bench ycsb --workload B --records 1000000 --theta 0.7 --data-dir /tmp/bench
  coeval bench hybrid --scan-length 1000 --clients 8 --threads 2
  coeval bench bank --isolation read-committed --rate 2000 --clients 32
  coeval bench list-append --clients 8 --transactions 100000 --record history.jsonl

Without --url the engine runs in this process, without SQL and without sockets; in
memory, so that a commit survives nothing, unless --data-dir names a directory. With
--url tables named after the workload (tpcc_warehouse, …) are dropped and made again
on that server, unless --skip-load says that they are there.

Every run ends with a look at everything: no money gone, no row torn, TPC-C's twelve
consistency conditions. docs/operations/bench.md describes each field of --json.

Exit codes:
  0  the run came to its end, and nothing was wrong
  1  something was wrong, a transaction failed for good, or there was no server
  2  the arguments make no sense
  130, 143  SIGINT or SIGTERM came, and nothing was wrong until then

At the first SIGINT or SIGTERM the run ends early; then it is checked and written as
usual. At the second the command ends at once.";

/// The maximum of each count: a larger one fits no memory, or no time.
const MOST: &[(&str, u64)] = &[
    ("threads", 1_024),
    ("clients", 100_000),
    ("warehouses", 100_000),
    ("items", 10_000_000),
    ("customers", 100_000_000),
    ("reward-customers", 100_000_000),
    ("hot", 100_000_000),
    ("accounts", 100_000_000),
    ("records", 1_000_000_000),
    ("fields", 60),
    ("field-bytes", 1_000_000),
    ("scan-length", 1_000_000_000),
    ("keys", 10_000_000),
    ("list-length", 1_000_000),
    ("operations", 10_000),
];
/// Minimum duration of a measurement, in seconds: a shorter one measures too little.
const LEAST_SECONDS: f64 = 0.01;
/// Maximum skew: with it nearly all accesses are to one key.
const MAX_THETA: f64 = 10.0;

/// Parses a count from 1 to the maximum of this name.
fn counted(name: &str) -> ValueParser {
    let most = MOST.iter().find(|(other, _)| *other == name);
    let most = most.map_or(u64::MAX, |(_, most)| *most);
    value_parser!(u64).range(1..=most).into()
}

fn number(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("N")
        .default_value(default)
        .value_parser(counted(name))
        .help(help)
}

fn fraction(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .value_parser(value_parser!(f64))
        .help(help)
}

/// A percentage as an argument.
fn percent(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("N")
        .default_value(default)
        .value_parser(value_parser!(u64).range(0..=100))
        .help(help)
}

fn file(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("FILE").help(help)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

/// The arguments that every workload has.
fn common() -> Vec<Arg> {
    vec![
        Arg::new("url")
            .long("url")
            .value_name("URL")
            .conflicts_with_all(["protocol", "data-dir", "preallocated-megabytes"])
            .help("A server, as postgres://127.0.0.1:5433 [default: an engine in this process]"),
        Arg::new("protocol")
            .long("protocol")
            .value_parser(["occ", "serial"])
            .default_value("occ")
            .help("The engine in this process"),
        Arg::new("data-dir")
            .long("data-dir")
            .value_name("DIR")
            .help("Make commits durable in this directory, which is empty or does not exist"),
        Arg::new("preallocated-megabytes")
            .long("preallocated-megabytes")
            .value_name("MB")
            .value_parser(value_parser!(u64).range(..=1 << 30))
            .help(
                "Take so much memory from the kernel before anything else, as a server does with \
                 memory_preallocated_megabytes [default: 0]",
            ),
        Arg::new("isolation")
            .long("isolation")
            .value_parser(["read-committed", "snapshot", "serializable"])
            .default_value("serializable")
            .help("The isolation level; snapshot is REPEATABLE READ in SQL"),
        number(
            "threads",
            "1",
            "Threads of the load, and in this process of the engine",
        ),
        Arg::new("clients")
            .long("clients")
            .value_name("N")
            .value_parser(counted("clients"))
            .help("Clients, spread over the threads [default: one for each]"),
        fraction(
            "seconds",
            "S",
            "How long to measure, at least 0.01 [default: 10]",
        )
        .conflicts_with("transactions"),
        Arg::new("transactions")
            .long("transactions")
            .value_name("N")
            .value_parser(value_parser!(u64).range(1..))
            .help("Measure this number of transactions instead"),
        fraction(
            "warm-up",
            "S",
            "Seconds before anything is measured [default: 1]",
        ),
        fraction(
            "operation-timeout",
            "S",
            "Seconds that a client waits for the answer to a statement over the wire before it \
             takes another connection; 0 for ever [default: 60]",
        ),
        fraction(
            "rate",
            "R",
            "Let R transactions arrive in a second, up to 1000000000, whether or not there is a free client \
             (open loop); latencies count from when they should have begun",
        ),
        Arg::new("seed")
            .long("seed")
            .value_name("N")
            .default_value("1")
            .value_parser(value_parser!(u64))
            .help("Where chance begins"),
        file("json", "Write the result as JSON; - for standard output"),
        file("csv", "Write the result as CSV"),
        file("plot", "Draw throughput second by second: .svg or .png"),
        file(
            "record",
            "Write every client's operations and results, for coeval check: .edn or .jsonl",
        ),
        flag(
            "skip-load",
            "With --url: the tables are there, from a run before",
        ),
        flag("skip-check", "Do not look at everything in the end"),
    ]
}

fn workload(name: &'static str, about: &'static str, own: Vec<Arg>) -> Command {
    Command::new(name).about(about).args(own).args(common())
}

/// The definition of `coeval bench`.
pub(super) fn command() -> Command {
    Command::new("bench")
        .about("Run a workload against an engine or a server, and measure it")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(workload(
            "tpcc",
            "TPC-C: orders, payments, deliveries; no keying and thinking times",
            vec![
                number("warehouses", "1", "Warehouses, about 100 MB of rows each"),
                number(
                    "items",
                    "100000",
                    "Items; fewer than the standard's make a small test",
                ),
                number("customers", "3000", "Customers of each district; likewise"),
                percent(
                    "reward-percent",
                    "0",
                    "Percentage of transactions that are rewards: scans of customers, of whom \
                     one is given money. With 10 it is the modified TPC-C of ROCC. The others \
                     are 40 : 40 : 4 : 4 : 2 then",
                ),
                number(
                    "reward-customers",
                    "1000",
                    "Customers that a reward scans, at most those of a district",
                ),
            ],
        ))
        .subcommand(workload(
            "ycsb",
            "YCSB: reads, writes and short scans of one table by key",
            vec![
                Arg::new("workload")
                    .long("workload")
                    .value_parser(["A", "B", "C", "D", "E", "F"])
                    .ignore_case(true)
                    .default_value("A")
                    .help(
                        "A: half updates. B: 5 % updates. C: reads. D: reads of the newest, 5 % \
                         inserts. E: scans, 5 % inserts. F: half read-modify-writes",
                    ),
                number("records", "100000", "Rows to begin with"),
                number("fields", "10", "Fields of a row, up to 60"),
                number("field-bytes", "100", "Bytes of a field, at least 8"),
                fraction(
                    "theta",
                    "T",
                    "Skew of the Zipfian keys, 0 for none [default: 0.99]",
                ),
                number("operations", "1", "Operations of a transaction"),
            ],
        ))
        .subcommand(workload(
            "hybrid",
            "Hybrid YCSB: short transactions by key, and some with a long scan among them",
            vec![
                number("records", "100000", "Rows, at least 10"),
                number("field-bytes", "100", "Bytes of a row's text, at least 8"),
                fraction(
                    "theta",
                    "T",
                    "Skew of the Zipfian keys, which lie side by side; 0 for none [default: 0.7]",
                ),
                percent(
                    "scan-percent",
                    "10",
                    "Percentage of transactions that have a scan, beside four operations by \
                     key; the others have five",
                ),
                number("scan-length", "100", "Keys of a scan, at most all rows"),
                percent(
                    "write-percent",
                    "50",
                    "Percentage of operations by key that write",
                ),
            ],
        ))
        .subcommand(workload(
            "smallbank",
            "SmallBank: short transactions on customers, some of them hot",
            vec![
                number("customers", "100000", "Customers"),
                number("hot", "100", "Of them, so many are hot"),
                percent(
                    "hot-percent",
                    "90",
                    "Of a hundred transactions so many are about hot ones",
                ),
            ],
        ))
        .subcommand(workload(
            "bank",
            "Transfers between accounts, and sums of everything beside them",
            vec![
                number("accounts", "1000", "Accounts, at least 2"),
                percent("totals", "10", "Of a hundred transactions so many are sums"),
            ],
        ))
        .subcommand(workload(
            "list-append",
            "Appends to lists and reads of them, for histories that show their order",
            vec![
                number("keys", "10", "Lists in use at a time"),
                number(
                    "list-length",
                    "32",
                    "Elements of a list, about, before a new one is begun",
                ),
                number("operations", "4", "Operations of a transaction, at most"),
            ],
        ))
        .subcommand(workload(
            "rw-register",
            "Writes and reads of registers, for histories",
            vec![
                number("keys", "100", "Registers"),
                number("operations", "4", "Operations of a transaction, at most"),
            ],
        ))
}

fn whole(matches: &ArgMatches, name: &str) -> u64 {
    matches.get_one::<u64>(name).copied().unwrap_or(1)
}

fn small(matches: &ArgMatches, name: &str) -> Result<u32, String> {
    let value = whole(matches, name);
    u32::try_from(value).map_err(|_| format!("--{name} {value} is too many"))
}

fn count(matches: &ArgMatches, name: &str) -> Result<usize, String> {
    small(matches, name).map(|value| value as usize)
}

fn text(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.get_one::<String>(name).cloned()
}

/// Seconds on the command line.
fn seconds(matches: &ArgMatches, name: &str, default: f64) -> Result<Duration, String> {
    let seconds = matches.get_one::<f64>(name).copied().unwrap_or(default);
    let duration = Duration::try_from_secs_f64(seconds);
    duration.map_err(|error| format!("--{name} {seconds}: {error}"))
}

/// The duration of the measurement, on the command line.
fn measured(matches: &ArgMatches) -> Result<Duration, String> {
    let measured = seconds(matches, "seconds", 10.0)?;
    if measured.as_secs_f64() < LEAST_SECONDS {
        let said = measured.as_secs_f64();
        return Err(format!("--seconds {said} is below {LEAST_SECONDS}"));
    }
    Ok(measured)
}

/// The file for a history, on the command line.
fn record(matches: &ArgMatches) -> Result<Option<(String, Format)>, String> {
    let Some(name) = text(matches, "record") else {
        return Ok(None);
    };
    match Format::of_name(&name) {
        Some(format @ (Format::Edn | Format::JsonLines)) => Ok(Some((name, format))),
        Some(Format::Csv) | None => Err(format!(
            "--record {name}: its name ends neither in .edn nor .jsonl"
        )),
    }
}

/// The file for a chart, on the command line.
fn plot(matches: &ArgMatches) -> Result<Option<(String, Picture)>, String> {
    let Some(name) = text(matches, "plot") else {
        return Ok(None);
    };
    match Picture::of_name(&name) {
        Some(picture) => Ok(Some((name, picture))),
        None => Err(format!(
            "--plot {name}: its name ends neither in .svg nor .png"
        )),
    }
}

/// The skew of the keys, on the command line.
fn theta(matches: &ArgMatches, default: f64) -> Result<f64, String> {
    let theta = matches.get_one::<f64>("theta").copied().unwrap_or(default);
    if (0.0..=MAX_THETA).contains(&theta) {
        Ok(theta)
    } else {
        Err(format!("--theta {theta} is not between 0 and {MAX_THETA}"))
    }
}

fn tpcc(matches: &ArgMatches) -> Result<Load, String> {
    let scale = Scale {
        warehouses: small(matches, "warehouses")?,
        items: small(matches, "items")?,
        customers: small(matches, "customers")?,
    };
    let rewards = Rewards {
        percent: whole(matches, "reward-percent"),
        customers: small(matches, "reward-customers")?,
    };
    Ok(Load::Tpcc(scale, (rewards.percent > 0).then_some(rewards)))
}

fn hybrid(matches: &ArgMatches) -> Result<Hybrid, String> {
    let settings = Hybrid {
        records: whole(matches, "records"),
        field_bytes: count(matches, "field-bytes")?,
        theta: theta(matches, Hybrid::default().theta)?,
        bulk_percent: whole(matches, "scan-percent"),
        scan: whole(matches, "scan-length"),
        write_percent: whole(matches, "write-percent"),
    };
    if settings.records < 10 || settings.field_bytes < 8 {
        return Err("there are at least 10 rows, each with a text of 8 bytes or more".to_owned());
    }
    if settings.scan > settings.records {
        let Hybrid { scan, records, .. } = settings;
        return Err(format!(
            "--scan-length {scan} is more than all rows, of which there are {records}"
        ));
    }
    Ok(settings)
}

/// The workload of this name, with the sizes on the command line.
fn load(name: &str, matches: &ArgMatches) -> Result<Load, String> {
    Ok(match name {
        "tpcc" => tpcc(matches)?,
        "hybrid" => Load::Hybrid(hybrid(matches)?),
        "ycsb" => {
            let letter = text(matches, "workload").and_then(|letter| Letter::parse(&letter));
            let settings = Ycsb {
                letter: letter.unwrap_or(Letter::A),
                records: whole(matches, "records"),
                fields: count(matches, "fields")?,
                field_bytes: count(matches, "field-bytes")?,
                theta: theta(matches, Ycsb::default().theta)?,
                operations: whole(matches, "operations"),
                ..Ycsb::default()
            };
            if settings.fields > 60 || settings.field_bytes < 8 {
                return Err("a row has up to 60 fields of 8 bytes and more".to_owned());
            }
            Load::Ycsb(settings)
        }
        "smallbank" => Load::SmallBank {
            customers: whole(matches, "customers"),
            hot: whole(matches, "hot"),
            percent: whole(matches, "hot-percent"),
        },
        "bank" => Load::Bank {
            accounts: small(matches, "accounts")?,
            totals: whole(matches, "totals"),
        },
        "list-append" => Load::ListAppend {
            keys: whole(matches, "keys"),
            length: whole(matches, "list-length"),
            operations: whole(matches, "operations"),
        },
        _ => Load::RwRegister {
            keys: whole(matches, "keys"),
            operations: whole(matches, "operations"),
        },
    })
}

fn plan(name: &str, matches: &ArgMatches) -> Result<Plan, String> {
    let place = match text(matches, "url") {
        Some(url) => BenchTarget::Server(url),
        None => BenchTarget::Engine {
            protocol: match text(matches, "protocol").as_deref() {
                Some("serial") => Protocol::Serial,
                _ => Protocol::Occ,
            },
            directory: text(matches, "data-dir").map(Into::into),
        },
    };
    let preallocated = matches.get_one::<u64>("preallocated-megabytes").copied();
    let threads = count(matches, "threads")?;
    let clients = match matches.contains_id("clients") {
        true => count(matches, "clients")?,
        false => threads,
    };
    let length = match matches.get_one::<u64>("transactions") {
        Some(&transactions) => Length::Transactions(transactions),
        None => Length::Time(measured(matches)?),
    };
    let rate = matches.get_one::<f64>("rate").copied();
    if let Some(rate) = rate
        && !(rate > 0.0 && rate <= MAX_ARRIVALS)
    {
        return Err(format!(
            "--rate {rate} is not above 0 and up to {MAX_ARRIVALS}"
        ));
    }
    let default = OPERATION_TIMEOUT.as_secs_f64();
    let operation_timeout = seconds(matches, "operation-timeout", default)?;
    let skip_load = matches.get_flag("skip-load");
    if skip_load && !matches!(place, BenchTarget::Server(_)) {
        return Err("--skip-load goes with --url: a new engine has no rows".to_owned());
    }
    let record = record(matches)?;
    if skip_load && record.is_some() {
        return Err(
            "--record does not go with --skip-load: a history would begin with rows that none of its \
             transactions has written"
                .to_owned(),
        );
    }
    let options = Options {
        threads,
        clients,
        isolation: match text(matches, "isolation").as_deref() {
            Some("read-committed") => Isolation::ReadCommitted,
            Some("snapshot") => Isolation::SnapshotIsolation,
            _ => Isolation::Serializable,
        },
        warm_up: seconds(matches, "warm-up", 1.0)?,
        length,
        rate,
        exact: true,
        seed: matches.get_one::<u64>("seed").copied().unwrap_or(1),
        load: !skip_load,
        check: !matches.get_flag("skip-check"),
        record: record.is_some(),
        operation_timeout: (!operation_timeout.is_zero()).then_some(operation_timeout),
        durability: String::new(),
        preallocated_megabytes: preallocated.unwrap_or(0),
        ..Options::default()
    };
    Ok(Plan {
        load: load(name, matches)?,
        place,
        options,
        json: text(matches, "json"),
        csv: text(matches, "csv"),
        plot: plot(matches)?,
        record,
    })
}

/// Runs the workload that the arguments describe.
pub(super) fn bench(matches: &ArgMatches) -> ExitCode {
    let Some((name, matches)) = matches.subcommand() else {
        return ExitCode::from(2);
    };
    use std::io::Write;
    match plan(name, matches) {
        Ok(plan) => {
            if coeval_env::BUILD_PROFILE != MEASURED {
                let _ = writeln!(
                    std::io::stderr(),
                    "coeval bench: built with the profile {}, so that figures say little; build \
                     with --profile {MEASURED}",
                    coeval_env::BUILD_PROFILE
                );
            }
            bench::run(&plan)
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "coeval bench: {error}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(arguments: &[&str]) -> Result<Plan, String> {
        let arguments = ["bench"].iter().chain(arguments);
        let matches = command()
            .try_get_matches_from(arguments)
            .map_err(|error| error.to_string())?;
        let (name, matches) = matches.subcommand().unwrap();
        plan(name, matches)
    }

    #[test]
    fn what_nobody_says_is_sensible() {
        let plan = planned(&["tpcc", "--warehouses", "4", "--threads", "2"]).unwrap();
        assert!(matches!(plan.load, Load::Tpcc(scale, None) if scale == Scale::standard(4)));
        assert!(matches!(
            plan.place,
            BenchTarget::Engine {
                protocol: Protocol::Occ,
                directory: None
            }
        ));
        assert_eq!((plan.options.threads, plan.options.clients), (2, 2));
        assert_eq!(plan.options.isolation, Isolation::Serializable);
        assert!(plan.options.load && plan.options.check && !plan.options.record);
        assert_eq!(plan.options.preallocated_megabytes, 0);
    }

    #[test]
    fn memory_is_preallocated_where_the_engine_is() {
        let flag = ["tpcc", "--preallocated-megabytes", "100"];
        let plan = planned(&flag).unwrap();
        assert_eq!(plan.options.preallocated_megabytes, 100);
        let elsewhere = planned(&[&flag[..], &["--url", "postgres://127.0.0.1"]].concat());
        let refused = elsewhere.unwrap_err();
        assert!(refused.contains("--preallocated-megabytes"), "{refused}");
        for wrong in ["-1", "many", "99999999999"] {
            assert!(planned(&["tpcc", "--preallocated-megabytes", wrong]).is_err());
        }
    }

    #[test]
    fn scans_and_rewards_are_as_it_is_said() {
        let load = |arguments: &[&str]| planned(arguments).unwrap().load;
        let Load::Hybrid(hybrid) = load(&["hybrid"]) else {
            panic!("another workload");
        };
        let default = Hybrid::default();
        assert_eq!(
            (hybrid.records, hybrid.scan),
            (default.records, default.scan)
        );
        assert_eq!(
            (hybrid.bulk_percent, hybrid.write_percent),
            (default.bulk_percent, default.write_percent)
        );
        let arguments = ["hybrid", "--scan-length", "300", "--scan-percent", "0"];
        let Load::Hybrid(hybrid) = load(&arguments) else {
            panic!("another workload");
        };
        assert_eq!((hybrid.scan, hybrid.bulk_percent), (300, 0));
        let rewards = |arguments: &[&str]| match load(arguments) {
            Load::Tpcc(_, rewards) => rewards,
            other => panic!("{other:?}"),
        };
        assert_eq!(rewards(&["tpcc", "--reward-customers", "5"]), None);
        assert_eq!(
            rewards(&["tpcc", "--reward-percent", "10"]),
            Some(Rewards {
                percent: Rewards::PERCENT,
                customers: 1000
            })
        );
    }

    #[test]
    fn endings_are_taken_in_either_case() {
        let plan = planned(&["bank", "--plot", "a.PNG", "--record", "h.JSONL"]).unwrap();
        assert!(matches!(plan.plot, Some((_, Picture::Png))));
        assert!(matches!(plan.record, Some((_, Format::JsonLines))));
    }

    #[test]
    fn nonsense_is_refused() {
        for arguments in [
            &["tpcc", "--warehouses", "0"][..],
            &["tpcc", "--skip-load"],
            &["ycsb", "--workload", "Z"],
            &["ycsb", "--fields", "61"],
            &["ycsb", "--theta", "-1"],
            &["tpcc", "--reward-percent", "101"],
            &["hybrid", "--scan-length", "101", "--records", "100"],
            &["hybrid", "--scan-length", "0"],
            &["hybrid", "--scan-percent", "101"],
            &["hybrid", "--records", "9", "--scan-length", "1"],
            &["hybrid", "--field-bytes", "7"],
            &["hybrid", "--theta", "nan"],
            &["bank", "--rate", "0"],
            &["bank", "--rate", "1e30"],
            &["bank", "--rate", "nan"],
            &["bank", "--seconds", "0"],
            &["bank", "--seconds", "nan"],
            &["bank", "--plot", "x.jpg"],
            &["bank", "--plot", "png"],
            &["bank", "--record", "x.csv"],
            &["bank", "--url", "x", "--skip-load", "--record", "x.edn"],
            &["ycsb", "--theta", "inf"],
            &["ycsb", "--theta", "11"],
            &["ycsb", "--records", "18446744073709551615"],
            &["ycsb", "--operations", "18446744073709551615"],
            &["smallbank", "--customers", "18446744073709551615"],
            &["list-append", "--keys", "18446744073709551615"],
            &["bank", "--threads", "1000000"],
            &["bank", "--seconds", "-1"],
            &["bank", "--url", "postgres://x", "--data-dir", "y"],
            &["bank", "--seconds", "1", "--transactions", "5"],
        ] {
            assert!(planned(arguments).is_err(), "{arguments:?}");
        }
    }
}
