//! Golden histories with known verdicts, one for each anomaly and for each level.
//!
//! A file under `tests/golden` begins with comments: an explanation, then the expected
//! anomalies and the levels that permit it. They are written by hand, and no test rewrites
//! them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use coeval_check::history::{self, Format, History};
use coeval_check::transactions::{self, Judgement, Level, Order, Phenomenon, story, svg};

struct Golden {
    path: PathBuf,
    history: History,
    found: BTreeSet<String>,
    permits: BTreeSet<String>,
}

#[expect(clippy::disallowed_methods, reason = "the files are beside us")]
fn golden() -> Vec<Golden> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = std::fs::read_dir(folder).expect("a folder that can be listed");
    let mut golden: Vec<Golden> = entries
        .map(|entry| {
            let path = entry.expect("a file").path();
            let text = std::fs::read_to_string(&path).expect("a file that can be read");
            let words = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name));
                let line = line.unwrap_or_else(|| panic!("{}: no {name}", path.display()));
                line.split_whitespace().map(str::to_owned).collect()
            };
            Golden {
                history: history::read(text.as_bytes(), Format::Edn)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display())),
                found: words("; found:"),
                permits: words("; permits:"),
                path,
            }
        })
        .collect();
    golden.sort_by(|a, b| a.path.cmp(&b.path));
    golden
}

fn judged(history: &History) -> Judgement {
    transactions::judge(history, &Level::ALL).expect("a history that can be judged")
}

fn found(judgement: &Judgement) -> BTreeSet<String> {
    judgement
        .anomalies
        .iter()
        .map(|anomaly| anomaly.name())
        .collect()
}

#[test]
fn every_golden_history_is_judged_as_its_head_says() {
    let mut wrong = String::new();
    for golden in golden() {
        let judgement = judged(&golden.history);
        let permits: BTreeSet<String> = Level::ALL
            .into_iter()
            .filter(|level| judgement.permits(*level))
            .map(|level| level.name().to_owned())
            .collect();
        let found = found(&judgement);
        if (&found, &permits) != (&golden.found, &golden.permits) {
            wrong += &format!(
                "{}\n  found {found:?}\n  permits {permits:?}\n",
                golden.path.display()
            );
            for anomaly in &judgement.anomalies {
                wrong += &story(&golden.history, anomaly);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A verdict on one level does not depend on the other levels that were requested.
#[test]
fn a_level_alone_is_judged_as_among_all() {
    for golden in golden() {
        for level in Level::ALL {
            let alone = transactions::judge(&golden.history, &[level]).unwrap();
            let permits = golden.permits.contains(level.name());
            assert_eq!(
                alone.permits(level),
                permits,
                "{}, {level}",
                golden.path.display()
            );
        }
    }
}

#[test]
fn lines_of_json_are_judged_like_events() {
    for golden in golden() {
        let mut text = Vec::new();
        history::write(&golden.history, Format::JsonLines, &mut text).unwrap();
        let lines = history::read(&text, Format::JsonLines).unwrap();
        assert_eq!(
            found(&judged(&lines)),
            golden.found,
            "{}",
            golden.path.display()
        );
    }
}

#[test]
fn there_is_one_for_each_name_and_for_each_level() {
    let golden = golden();
    let names: BTreeSet<&str> = golden
        .iter()
        .flat_map(|golden| &golden.found)
        .map(|name| {
            name.trim_end_matches("-process")
                .trim_end_matches("-realtime")
        })
        .collect();
    for phenomenon in ALL {
        assert!(names.contains(phenomenon.name()), "{}", phenomenon.name());
    }
    for level in Level::ALL {
        let file = format!("none-{}", level.name());
        let of_level = golden
            .iter()
            .find(|golden| golden.path.file_stem().unwrap() == &*file);
        let of_level = of_level.unwrap_or_else(|| panic!("{file}"));
        assert!(of_level.permits.contains(level.name()));
    }
}

/// The judge reports every anomaly that a level forbids; one that is observed without an
/// order is observed in every order.
#[test]
fn levels_are_ordered() {
    for phenomenon in ALL {
        for level in Level::ALL {
            let forbids = |order| level.forbids(phenomenon, order);
            assert!(forbids(Order::Values) || !forbids(Order::Process));
            assert!(forbids(Order::Process) || !forbids(Order::RealTime));
            assert!(
                !forbids(Order::Values)
                    || Level::StrictSerializable.forbids(phenomenon, Order::Values)
            );
        }
    }
}

#[test]
fn every_anomaly_has_a_story_and_a_picture() {
    for golden in golden() {
        for anomaly in judged(&golden.history).anomalies {
            let story = story(&golden.history, &anomaly);
            let picture = svg(&golden.history, &anomaly);
            for index in &anomaly.transactions {
                assert!(story.contains(&format!("T{index}: process ")), "{story}");
                assert!(
                    picture.contains(&format!("T{index}: process ")),
                    "{picture}"
                );
            }
            for step in &anomaly.steps {
                assert!(story.contains(step.as_str()), "{story}");
                // Every edge is explained by reads and writes.
                assert!(!anomaly.is_cycle || step.contains(": "), "{step}");
            }
            assert_eq!(anomaly.steps.len(), anomaly.transactions.len());
            assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
            for tag in ["text", "svg", "defs", "marker"] {
                let opened = picture.matches(&format!("<{tag} ")).count()
                    + picture.matches(&format!("<{tag}>")).count();
                let closed = picture.matches(&format!("</{tag}>")).count();
                assert_eq!(opened, closed, "{tag} in {picture}");
            }
        }
    }
}

const ALL: [Phenomenon; 17] = [
    Phenomenon::GarbageRead,
    Phenomenon::DuplicateElements,
    Phenomenon::IncompatibleOrder,
    Phenomenon::CyclicVersions,
    Phenomenon::Internal,
    Phenomenon::FutureRead,
    Phenomenon::G1a,
    Phenomenon::G1b,
    Phenomenon::DirtyUpdate,
    Phenomenon::G0,
    Phenomenon::G1c,
    Phenomenon::NonRepeatableRead,
    Phenomenon::LostUpdate,
    Phenomenon::GSingle,
    Phenomenon::LongFork,
    Phenomenon::GNonadjacent,
    Phenomenon::G2Item,
];
