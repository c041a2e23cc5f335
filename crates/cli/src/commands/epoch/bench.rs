//! `coeval epoch bench`: clients that put and get as fast as they are answered, for a comparison with
//! other ways to write as many keys in one transaction.

use std::time::Duration;

use clap::{Arg, ArgMatches, value_parser};
use coeval_epoch::client::{Client, ClientError, put};

use super::{Failure, ask};
use crate::commands::say;

pub(super) fn arguments() -> Vec<Arg> {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .default_value(default)
            .value_parser(value_parser!(u64).range(1..=10_000_000))
            .help(help)
    };
    vec![
        number(
            "clients",
            "8",
            "Clients, each of which waits for its answer",
        ),
        number("size", "100", "Keys of a transaction"),
        number("keys", "1000000", "Keys that there are: few are hot ones"),
        number("seconds", "10", "How long"),
        Arg::new("reads")
            .long("reads")
            .value_name("PERCENT")
            .default_value("0")
            .value_parser(value_parser!(u64).range(0..=100))
            .help("Transactions that read"),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Load {
    size: u64,
    keys: u64,
    reads: u64,
}

/// What one client has seen.
#[derive(Debug, Default)]
struct Seen {
    latencies: Vec<Duration>,
    refused: u64,
    unknown: u64,
    /// The newest of its own marks that is committed, and whether a later one may be.
    mark: u64,
    is_unsure: bool,
}

fn key(number: u64) -> String {
    format!("bench {number:08}")
}

fn mark_of(client: u64) -> String {
    format!("bench mark {client}")
}

async fn run(client: Client, number: u64, load: Load, until: coeval_env::Instant) -> Seen {
    let mut seen = Seen::default();
    let mut chance = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |bound: u64| {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        chance % bound
    };
    let mut count = 0;
    while coeval_env::now() < until {
        let reads = below(100) < load.reads;
        // Different keys, however few there are.
        let first = below(load.keys);
        let step = match load.keys > load.size * 4 {
            true => 1 + below(load.keys / load.size),
            false => 1,
        };
        let size = load.size.min(load.keys);
        let keys = (0..size).map(|index| key((first + index * step) % load.keys));
        let begun = coeval_env::now();
        let done = match reads {
            true => client.get_all(keys).await.map(drop),
            false => {
                count += 1;
                let value = count.to_string();
                let own = put(mark_of(number), value.clone());
                let writes = keys.map(|key| put(key, value.clone()));
                client.put_all(writes.chain([own])).await.map(drop)
            }
        };
        match done {
            Ok(()) => {
                seen.latencies.push(begun.elapsed());
                if !reads {
                    seen.mark = count;
                    seen.is_unsure = false;
                }
            }
            Err(ClientError::Refused(_)) => seen.refused += 1,
            Err(_) => {
                seen.unknown += 1;
                seen.is_unsure |= !reads;
            }
        }
    }
    seen
}

pub(super) async fn bench(matches: &ArgMatches) -> Result<(), Failure> {
    let settings = ask::settings(matches).await?;
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or_default();
    let load = Load {
        size: number("size"),
        keys: number("keys"),
        reads: number("reads"),
    };
    // Each has a connection of its own, to the nodes in turn.
    let client = |index: u64| {
        let mut settings = settings.clone();
        let count = settings.nodes.len().max(1);
        settings.nodes.rotate_left(index as usize % count);
        Client::new(settings)
    };
    let first = client(0).get_all([key(0)]).await;
    first.map_err(ask::failed)?;
    let begun = coeval_env::now();
    let until = begun + Duration::from_secs(number("seconds"));
    let tasks = (0..number("clients")).map(|index| {
        let client = client(index);
        coeval_env::spawn("bench client", async move {
            run(client, index, load, until).await
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let (mut latencies, mut refused, mut unknown) = (Vec::new(), 0, 0);
    let mut marks = Vec::new();
    for task in tasks {
        let seen = task.await.map_err(|error| Failure::new(1, error))?;
        latencies.extend(seen.latencies);
        refused += seen.refused;
        unknown += seen.unknown;
        marks.push((seen.mark, seen.is_unsure));
    }
    let passed = begun.elapsed().as_secs_f64();
    let names: Vec<String> = (0..number("clients")).map(mark_of).collect();
    let read = client(0)
        .get_all(names.clone())
        .await
        .map_err(ask::failed)?;
    for (name, (mark, is_unsure)) in names.iter().zip(marks) {
        let found = read
            .value(name)
            .and_then(|value| std::str::from_utf8(value).ok());
        let found: u64 = found.map_or(0, |value| value.parse().unwrap_or(0));
        // Marks of an earlier run may stand where this one has written nothing.
        if mark > 0 && (found < mark || found > mark && !is_unsure) {
            let words = format!("{name} is {found}, and {mark} was the last that was committed");
            return Err(Failure::new(1, words));
        }
    }
    latencies.sort_unstable();
    if latencies.is_empty() {
        return Err(Failure::new(1, "no transaction was answered"));
    }
    let count = latencies.len();
    let at = |percent: usize| latencies[(count * percent / 100).min(count - 1)].as_secs_f64() * 1e3;
    let rate = count as f64 / passed;
    say(&format!(
        "{rate:.1} transactions a second, {:.0} keys; {:.2} ms at the median, {:.2} ms for 99 of 100; \
         {refused} refused, {unknown} unknown",
        rate * load.size as f64,
        at(50),
        at(99)
    ));
    Ok(())
}
