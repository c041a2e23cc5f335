//! Figures 3.5 to 3.8 and 3.11: throughput under each protocol, by what is varied, beside the text's
//! values and as ratios.

use coeval_epoch::comparator::{Control, Lookup};
use coeval_epoch::{Key, Rhythm};
use coeval_measure::{Failure, Output, median};
use coeval_workload::plot::{Axis, Chart, Series};

use crate::Arguments;
use crate::load::{Load, Measured, keys, run};
use crate::net::{Layout, Protocol};

/// Nodes of the text's cluster.
const NODES: u64 = 5;

const fn turns(milliseconds: u32) -> Protocol {
    Protocol::Epochs(Rhythm::Alternate {
        write_ticks: milliseconds,
        read_ticks: milliseconds,
    })
}

const fn unified(milliseconds: u32) -> Protocol {
    Protocol::Epochs(Rhythm::Unified {
        minimum_ticks: milliseconds,
    })
}

/// One line of a figure.
#[derive(Clone, Debug)]
struct Line {
    name: &'static str,
    layout: Layout,
}

fn line(name: &'static str, protocol: Protocol) -> Line {
    let layout = Layout {
        nodes: NODES,
        copies: 1,
        protocol,
        logs: None,
    };
    Line { name, layout }
}

const NONE: Protocol = Protocol::Other(Control::None);

/// Measures each line at a place, in turns, and returns the medians by keys of a core.
struct Bench<'run> {
    arguments: &'run Arguments,
    keys: Vec<Key>,
}

impl Bench<'_> {
    fn point(&self, line: &Line, load: Load) -> Result<Measured, Failure> {
        let mut rounds = Vec::new();
        for round in 0..self.arguments.rounds {
            let mut layout = line.layout.clone();
            // Each turn has files of its own.
            layout.logs = layout.logs.map(|folder| folder.join(round.to_string()));
            let measured = run(&layout, load, &self.keys);
            let measured = measured.map_err(|error| format!("{}: {error}", line.name))?;
            rounds.push(measured);
        }
        rounds.sort_by(|one, other| one.keys_of_a_core().total_cmp(&other.keys_of_a_core()));
        Ok(rounds[rounds.len() / 2])
    }
}

/// Measures the figures that are asked for.
pub(crate) fn measure(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let bench = Bench {
        arguments,
        keys: keys(arguments.keys),
    };
    if arguments.wants("3.5") {
        sizes_beside_ramp(&bench, output)?;
    }
    if arguments.wants("3.6") {
        lengths(&bench, output)?;
    }
    if arguments.wants("3.7") {
        sizes(&bench, output)?;
    }
    if arguments.wants("3.8") {
        shares(&bench, output)?;
    }
    if arguments.wants("3.11") {
        faults(&bench, output)?;
    }
    Ok(())
}

fn chart(
    output: &Output,
    name: &str,
    (title, x): (&str, &str),
    is_logarithmic: bool,
    series: Vec<Series>,
) -> Result<(), Failure> {
    let chart = Chart {
        title: format!("{title}, after figure {name} of ALOHA-KV"),
        x: Axis {
            name: x.to_owned(),
            logarithmic: is_logarithmic,
        },
        y: Axis {
            name: "million keys a second and core".to_owned(),
            logarithmic: is_logarithmic,
        },
        series,
    };
    output.chart(&format!("aloha-kv-{name}"), &chart)?;
    Ok(())
}

fn series(name: &str, points: &[(f64, Measured)]) -> Series {
    let points = points.iter();
    Series {
        name: name.to_owned(),
        points: points
            .map(|(x, measured)| (*x, measured.keys_of_a_core()))
            .collect(),
    }
}

/// Figure 3.5.
fn sizes_beside_ramp(bench: &Bench<'_>, output: &mut Output) -> Result<(), Failure> {
    let lines = [
        line("none", NONE),
        line("epochs", turns(20)),
        line("unified", unified(20)),
        line("RAMP-F", Protocol::Other(Control::RampFast)),
        line(
            "RAMP-S list",
            Protocol::Other(Control::RampSmall(Lookup::List)),
        ),
        line(
            "RAMP-S set",
            Protocol::Other(Control::RampSmall(Lookup::Set)),
        ),
        line("2PL, 2PC", Protocol::Other(Control::Locking)),
    ];
    let sizes = [1, 2, 4, 6, 10, 32, 100, 320, 1000];
    output.say("figure 3.5: million keys a second and core (µs of processor time a transaction)");
    let mut head = format!("{:>6}", "keys");
    lines
        .iter()
        .for_each(|line| head.push_str(&format!(" {:>20}", line.name)));
    output.say(&head);
    let mut found: Vec<Vec<(f64, Measured)>> = vec![Vec::new(); lines.len()];
    let mut raw = String::from("keys,protocol,keys_of_a_core,microseconds,latency_microseconds\n");
    for size in sizes {
        let mut row = format!("{size:>6}");
        for (line, found) in lines.iter().zip(&mut found) {
            let load = Load::filling(size, 50, bench.arguments.seconds);
            let measured = bench.point(line, load)?;
            let light = bench.point(line, load.light())?;
            row.push_str(&format!(
                " {:>20}",
                format!(
                    "{:.3} ({:.1})",
                    measured.keys_of_a_core(),
                    measured.microseconds()
                )
            ));
            raw.push_str(&format!(
                "{size},{},{:.6},{:.3},{:.1}\n",
                line.name,
                measured.keys_of_a_core(),
                measured.microseconds(),
                light.latency.as_secs_f64() * 1e6
            ));
            found.push((size as f64, measured));
        }
        output.say(&row);
    }
    output.file("aloha-kv-3.5.csv", raw.as_bytes())?;
    let at = |line: usize, size: f64| {
        let point = found[line].iter().find(|(x, _)| *x == size);
        point.map_or(f64::NAN, |(_, measured)| measured.keys_of_a_core())
    };
    output.say("                                     the text      here");
    for (words, text, ours) in [
        (
            "epochs to RAMP-S (list), 1000 keys",
            "20",
            at(1, 1000.0) / at(4, 1000.0),
        ),
        (
            "epochs to RAMP-S (set), 1000 keys",
            "-",
            at(1, 1000.0) / at(5, 1000.0),
        ),
        (
            "epochs to RAMP-F, 1000 keys",
            "> 1000",
            at(1, 1000.0) / at(3, 1000.0),
        ),
        (
            "epochs to RAMP-S (list), 10 keys",
            "> 1",
            at(1, 10.0) / at(4, 10.0),
        ),
        (
            "epochs to RAMP-F, 10 keys",
            "about 1",
            at(1, 10.0) / at(3, 10.0),
        ),
        (
            "epochs to none, 100 keys",
            "close",
            at(1, 100.0) / at(0, 100.0),
        ),
        (
            "epochs to none, 1000 keys",
            "close",
            at(1, 1000.0) / at(0, 1000.0),
        ),
        ("RAMP-F to none, 1 key", "1.31", at(3, 1.0) / at(0, 1.0)),
        ("RAMP-S to none, 1 key", "1.09", at(4, 1.0) / at(0, 1.0)),
    ] {
        output.say(&format!("{words:<36} {text:>8} {ours:>9.2}"));
    }
    let all = lines.iter().zip(&found);
    let all = all.map(|(line, found)| series(line.name, found)).collect();
    let titles = ("Keys of a transaction, epochs of 20 ms", "keys");
    chart(output, "3.5", titles, true, all)
}

/// Figure 3.6.
fn lengths(bench: &Bench<'_>, output: &mut Output) -> Result<(), Failure> {
    let load = Load::filling(1000, 50, bench.arguments.seconds);
    output.say("figure 3.6: transactions of 1000 keys, by the length of epochs");
    output.say("    ms   Mkeys/s and core   Mkeys/s, passed   latency, idle, ms");
    let none = bench.point(&line("none", NONE), load)?;
    let mut found = Vec::new();
    let mut raw = String::from("ms,keys_of_a_core,keys_a_second,latency_microseconds\n");
    for milliseconds in [2, 5, 10, 20, 50, 100, 200] {
        let line = line("epochs", turns(milliseconds));
        let measured = bench.point(&line, load)?;
        let light = bench.point(&line, load.light())?;
        let latency = light.latency.as_secs_f64() * 1e3;
        output.say(&format!(
            "{milliseconds:>6} {:>18.3} {:>17.3} {latency:>19.1}",
            measured.keys_of_a_core(),
            measured.keys_a_second(),
        ));
        raw.push_str(&format!(
            "{milliseconds},{:.6},{:.6},{:.1}\n",
            measured.keys_of_a_core(),
            measured.keys_a_second(),
            latency * 1e3
        ));
        found.push((f64::from(milliseconds), measured));
    }
    output.say(&format!("  none {:>18.3}", none.keys_of_a_core()));
    output.file("aloha-kv-3.6.csv", raw.as_bytes())?;
    let at = |length: f64| {
        let point = found.iter().find(|(x, _)| *x == length);
        point.map_or(f64::NAN, |(_, measured)| measured.keys_of_a_core())
    };
    output.say(&format!(
        "10 ms to 100 ms: the text about 0.90, here {:.2}; 2 ms to 100 ms: {:.2}",
        at(10.0) / at(100.0),
        at(2.0) / at(100.0)
    ));
    let titles = ("Length of epochs", "milliseconds");
    chart(output, "3.6", titles, false, vec![series("epochs", &found)])
}

/// Figure 3.7.
fn sizes(bench: &Bench<'_>, output: &mut Output) -> Result<(), Failure> {
    let lines = [
        line("epochs", turns(100)),
        line("unified", unified(20)),
        line("none", NONE),
    ];
    output.say("figure 3.7: million keys a second and core, epochs of 100 ms");
    output.say("  keys     epochs    unified       none");
    let mut found: Vec<Vec<(f64, Measured)>> = vec![Vec::new(); lines.len()];
    let mut raw = String::from("keys,protocol,keys_of_a_core\n");
    for size in [1, 10, 100, 500, 1000, 2000, 4000] {
        let mut row = format!("{size:>6}");
        for (line, found) in lines.iter().zip(&mut found) {
            let load = Load::filling(size, 50, bench.arguments.seconds);
            let measured = bench.point(line, load)?;
            row.push_str(&format!(" {:>10.3}", measured.keys_of_a_core()));
            raw.push_str(&format!(
                "{size},{},{:.6}\n",
                line.name,
                measured.keys_of_a_core()
            ));
            found.push((size as f64, measured));
        }
        output.say(&row);
    }
    output.file("aloha-kv-3.7.csv", raw.as_bytes())?;
    let epochs = &found[0];
    let rate = |index: usize| epochs[index].1.keys_of_a_core();
    output.say(&format!(
        "4000 keys to 1000: the text little above 1, here {:.2}; 1000 to 1: here {:.1}",
        rate(6) / rate(4),
        rate(4) / rate(0)
    ));
    let all = lines.iter().zip(&found);
    let all = all.map(|(line, found)| series(line.name, found)).collect();
    let titles = ("Keys of a transaction, epochs of 100 ms", "keys");
    chart(output, "3.7", titles, true, all)
}

/// Figure 3.8.
fn shares(bench: &Bench<'_>, output: &mut Output) -> Result<(), Failure> {
    output
        .say("figure 3.8: transactions of 1000 keys, by the share of reads; million keys a second");
    output.say("  reads, %      fixed   adaptive    unified       none   fixed to adaptive");
    let mut found: Vec<Vec<(f64, Measured)>> = vec![Vec::new(); 4];
    let mut raw = String::from("reads_percent,epochs,keys_of_a_core,keys_a_second\n");
    let mut ratios = Vec::new();
    for reads in [0, 25, 50, 75, 100] {
        // A known mix: 200 ms are divided by it.
        let adaptive = Protocol::Epochs(Rhythm::Alternate {
            write_ticks: (200 - 2 * reads).max(1),
            read_ticks: (2 * reads).max(1),
        });
        let lines = [
            line("fixed", turns(100)),
            line("adaptive", adaptive),
            line("unified", unified(20)),
            line("none", NONE),
        ];
        let mut row = format!("{reads:>10}");
        let mut rates = Vec::new();
        for (line, found) in lines.iter().zip(&mut found) {
            let load = Load::filling(1000, reads, bench.arguments.seconds);
            let measured = bench.point(line, load)?;
            rates.push(measured.keys_a_second());
            row.push_str(&format!(" {:>10.3}", measured.keys_a_second()));
            raw.push_str(&format!(
                "{reads},{},{:.6},{:.6}\n",
                line.name,
                measured.keys_of_a_core(),
                measured.keys_a_second()
            ));
            found.push((f64::from(reads), measured));
        }
        ratios.push(rates[0] / rates[1]);
        row.push_str(&format!(" {:>19.2}", rates[0] / rates[1]));
        output.say(&row);
    }
    output.file("aloha-kv-3.8.csv", raw.as_bytes())?;
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    output.say(&format!(
        "fixed to adaptive, at least: the text about 0.5, here {least:.2} (median {:.2})",
        median(ratios)
    ));
    let names = ["fixed", "adaptive", "unified", "none"];
    let all = names.iter().zip(&found);
    let all = all.map(|(name, found)| series(name, found)).collect();
    let titles = ("Share of reads", "per cent");
    chart(output, "3.8", titles, false, all)
}

/// Figure 3.11.
fn faults(bench: &Bench<'_>, output: &mut Output) -> Result<(), Failure> {
    let folder = match &bench.arguments.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let rhythm = Rhythm::Alternate {
        write_ticks: 100,
        read_ticks: 100,
    };
    let strategy = |name: &'static str, log: bool, front_ends: bool, copies: u64| Line {
        name,
        layout: Layout {
            nodes: NODES,
            copies,
            protocol: match front_ends {
                true => Protocol::Backed(rhythm),
                false => Protocol::Epochs(rhythm),
            },
            logs: log.then(|| folder.path().join(name)),
        },
    };
    let lines = [
        (strategy("none", false, false, 1), 1.0, "1"),
        (strategy("+log", true, false, 1), 0.95, "0.95 to 0.98"),
        (strategy("+FE", false, true, 1), 0.79, "0.79 to 0.84"),
        (strategy("+BE", false, false, 2), 0.75, "0.75 to 0.80"),
        (strategy("+log+FE", true, true, 1), 0.75, "low overhead"),
        (strategy("+log+FE+BE", true, true, 2), 0.60, "0.60"),
    ];
    output.say("figure 3.11: transactions of 1000 keys, half of them reads, epochs of 100 ms");
    output.say("strategy      Mkeys/s and core    of none    the text");
    let mut raw = String::from("strategy,keys_of_a_core,of_none\n");
    let (mut base, mut points) = (f64::NAN, Vec::new());
    for (index, (line, _, text)) in lines.iter().enumerate() {
        let load = Load::filling(1000, 50, bench.arguments.seconds);
        let measured = bench.point(line, load)?;
        if index == 0 {
            base = measured.keys_of_a_core();
        }
        let ratio = measured.keys_of_a_core() / base;
        output.say(&format!(
            "{:<12} {:>17.3} {ratio:>10.2}    {text}",
            line.name,
            measured.keys_of_a_core()
        ));
        raw.push_str(&format!(
            "{},{:.6},{ratio:.4}\n",
            line.name,
            measured.keys_of_a_core()
        ));
        points.push((index as f64, ratio));
    }
    output.file("aloha-kv-3.11.csv", raw.as_bytes())?;
    let text = lines.iter().enumerate();
    let text = text.map(|(index, (_, least, _))| (index as f64, *least));
    let chart = Chart {
        title: "Fault tolerance, after figure 3.11 of ALOHA-KV".to_owned(),
        x: Axis {
            name: "none, +log, +FE, +BE, +log+FE, +log+FE+BE".to_owned(),
            logarithmic: false,
        },
        y: Axis {
            name: "keys a second and core, of none".to_owned(),
            logarithmic: false,
        },
        series: vec![
            Series {
                name: "here".to_owned(),
                points,
            },
            Series {
                name: "the text, about".to_owned(),
                points: text.collect(),
            },
        ],
    };
    output.chart("aloha-kv-3.11", &chart)?;
    Ok(())
}
