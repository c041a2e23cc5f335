//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

const HELP: &str = "\
Endpoints, all of one kind:
  postgresql://user:password@host:5432/database   PostgreSQL's protocol, without TLS
  redis://:password@host:6379/0                   Redis or Valkey, not a Redis cluster
  cassandra://host:9042                           Cassandra or ScyllaDB

Of PostgreSQL and Redis the first endpoint takes the writes, and the reads are spread over
all: name the primary first and then its replicas. Of Cassandra they are contact points,
and the driver chooses.

Exit codes:
  0  no score above the threshold
  1  some score was, or a value was read that no operation wrote
  2  the run could not be made or judged
  3  the run is void: the probe itself fell behind its schedule

Examples:
  coeval-probe postgresql://app@primary/app postgresql://app@replica/app --svg gamma.svg
  coeval-probe redis://10.0.0.1 redis://10.0.0.2 --rate 5000 --seconds 120
  coeval-probe cassandra://10.0.0.1 --replication-factor 3 --consistency one";

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The endpoints; there is at least one.
    pub endpoints: Vec<String>,
    /// Operations a second.
    pub rate: u32,
    /// Length of the run in seconds.
    pub seconds: u32,
    /// Number of keys.
    pub keys: u64,
    /// Percentage of the keys that are hot.
    pub hot_keys: u32,
    /// Percentage of the operations that are on hot keys.
    pub hot_operations: u32,
    /// Percentage of the operations that are reads.
    pub reads: u32,
    /// Connections to each endpoint.
    pub connections: usize,
    /// How long an operation may take.
    pub timeout: Duration,
    /// Name of the table, keyspace or prefix that is created.
    pub name: String,
    /// Seed of the choice of operations.
    pub seed: u64,
    /// Consistency level of Cassandra.
    pub consistency: String,
    /// Replication factor of the keyspace that is created in Cassandra.
    pub replication_factor: u32,
    /// Statements that PostgreSQL connections begin with.
    pub on_connect: Vec<String>,
    /// Scores above this are violations.
    pub threshold: Duration,
    /// Slips above this are counted.
    pub slip: Duration,
    /// The run is void if more than this percentage slipped.
    pub slip_percent: f64,
    /// Whether to begin without the countdown.
    pub is_agreed: bool,
    /// Seconds of the countdown.
    pub countdown: u32,
    /// Where the history is written.
    pub history: Option<String>,
    /// Where the picture is written.
    pub svg: Option<String>,
    /// Whether the result is printed as JSON.
    pub json: bool,
}

fn command() -> Command {
    let number = |name: &'static str, value: &'static str, default: &'static str| {
        let arg = Arg::new(name).long(name).value_name(value);
        arg.default_value(default)
    };
    let whole = |name, value, default, range: std::ops::RangeInclusive<i64>| {
        number(name, value, default).value_parser(value_parser!(u32).range(range))
    };
    let text =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("coeval-probe")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Measure how stale the answers of a database are, and when")
        .after_help(HELP)
        .max_term_width(100)
        .args([
            Arg::new("endpoint")
                .value_name("ENDPOINT")
                .required(true)
                .action(ArgAction::Append)
                .help("Where the database listens (see below)"),
            whole("rate", "N", "1000", 1..=1_000_000).help("Operations a second, all together"),
            whole("seconds", "S", "60", 1..=86_400).help("Length of the run"),
            whole("keys", "N", "500", 2..=1_000_000).help("Number of keys"),
            whole("hot-keys-percent", "P", "20", 1..=100).help("Share of the keys that are hot"),
            whole("hot-operations-percent", "P", "80", 0..=100)
                .help("Share of the operations that are on hot keys"),
            whole("reads-percent", "P", "80", 0..=99)
                .help("Share of the operations that are reads"),
            whole("connections", "N", "16", 1..=1_000).help("Connections to each endpoint"),
            whole("timeout-ms", "MS", "5000", 1..=600_000)
                .help("How long an operation may take; then its outcome is unknown"),
            text("name", "NAME")
                .help("The table, keyspace or prefix that is created [default: a new one]"),
            text("seed", "N")
                .value_parser(value_parser!(u64))
                .help("Seed of the choice of operations [default: a new one]"),
            text("consistency", "LEVEL")
                .default_value("one")
                .value_parser([
                    "one",
                    "two",
                    "three",
                    "quorum",
                    "local-quorum",
                    "local-one",
                    "all",
                ])
                .help("Of reads and writes (Cassandra)"),
            whole("replication-factor", "N", "3", 1..=100)
                .help("Of the keyspace that is created (Cassandra)"),
            text("on-connect", "SQL")
                .action(ArgAction::Append)
                .help("A statement that each connection begins with (PostgreSQL)"),
            number("threshold-ms", "MS", "5")
                .value_parser(value_parser!(f64))
                .help("Scores above this are violations"),
            number("slip-ms", "MS", "5")
                .value_parser(value_parser!(f64))
                .help("An operation that starts later than this has slipped"),
            number("slip-percent", "P", "1")
                .value_parser(value_parser!(f64))
                .help("If more than this share of operations slipped, the run is void"),
            Arg::new("yes")
                .long("yes")
                .action(ArgAction::SetTrue)
                .help("Begin without the countdown"),
            whole("countdown", "S", "10", 1..=3_600).help("How long to wait for Ctrl-C before"),
            text("history", "FILE").help("Write the history, for coeval check, as lines of JSON"),
            text("svg", "FILE").help("Draw gamma over time"),
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the result as one JSON object"),
        ])
}

/// Reads the command line.
///
/// # Errors
/// When it cannot be used, or asks for help.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Options, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(arguments)?;
    options(&matches)
        .map_err(|problem| command.error(clap::error::ErrorKind::ValueValidation, problem))
}

fn options(matches: &ArgMatches) -> Result<Options, String> {
    let whole = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or_default();
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let all = |name: &str| {
        let values = matches.get_many::<String>(name).into_iter().flatten();
        values.cloned().collect::<Vec<_>>()
    };
    let milliseconds = |name: &str| {
        let value = matches.get_one::<f64>(name).copied().unwrap_or_default();
        Duration::try_from_secs_f64(value / 1e3)
            .map_err(|_| format!("--{name} {value}: a time is from 0 up"))
    };
    let seed = matches.get_one::<u64>("seed").copied();
    let seed = seed.unwrap_or_else(fresh_seed);
    let name = text("name").unwrap_or_else(|| format!("coeval_probe_{:08x}", fresh_seed() as u32));
    let is_word = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let begins_well = name.starts_with(|letter: char| letter.is_ascii_lowercase());
    if !begins_well || name.len() > 48 || !name.chars().all(|one| is_word(one) || one == '_') {
        return Err(format!(
            "--name {name}: a name is of a-z, 0-9 and _, begins with a letter, and has at most 48"
        ));
    }
    Ok(Options {
        endpoints: all("endpoint"),
        rate: whole("rate"),
        seconds: whole("seconds"),
        keys: whole("keys").into(),
        hot_keys: whole("hot-keys-percent"),
        hot_operations: whole("hot-operations-percent"),
        reads: whole("reads-percent"),
        connections: whole("connections") as usize,
        timeout: Duration::from_millis(whole("timeout-ms").into()),
        name,
        seed,
        consistency: text("consistency").unwrap_or_default(),
        replication_factor: whole("replication-factor"),
        on_connect: all("on-connect"),
        threshold: milliseconds("threshold-ms")?,
        slip: milliseconds("slip-ms")?,
        slip_percent: matches.get_one("slip-percent").copied().unwrap_or_default(),
        is_agreed: matches.get_flag("yes"),
        countdown: whole("countdown"),
        history: text("history"),
        svg: text("svg"),
        json: matches.get_flag("json"),
    })
}

/// A number that differs from run to run.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &str) -> Result<Options, String> {
        let all = ["coeval-probe"].into_iter().chain(arguments.split(' '));
        parse(all.map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_the_experiment() {
        let options = parsed("redis://a redis://b").unwrap();
        assert_eq!(options.endpoints, ["redis://a", "redis://b"]);
        assert_eq!(
            (options.keys, options.hot_keys, options.hot_operations),
            (500, 20, 80)
        );
        assert_eq!(
            (options.reads, options.slip),
            (80, Duration::from_millis(5))
        );
        assert!(options.name.starts_with("coeval_probe_"));
        assert_ne!(parsed("redis://a").unwrap().name, options.name);
    }

    #[test]
    fn a_name_is_no_statement() {
        for name in ["a;b", "A", "1a", "", "a\"", &"a".repeat(49)] {
            assert!(
                parsed(&format!("redis://a --name {name}")).is_err(),
                "{name}"
            );
        }
        assert_eq!(parsed("redis://a --name a_1").unwrap().name, "a_1");
        assert!(
            parsed("redis://a --slip-ms=-1")
                .unwrap_err()
                .contains("from 0 up")
        );
        assert!(parsed("redis://a --rate 0").is_err());
    }
}
