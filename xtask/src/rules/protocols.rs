//! Rule: the workspace stands without any one of its protocols.
//!
//! A protocol is a crate. What falls with it are the crates in which it is *registered*, those that
//! put programs together; in each of these, sources name it at the listed places only. So to take
//! it out is to delete its crate, those places, and their lines in manifests and module lists. The
//! rule reads manifests (a dependency over any number of others counts, and one of tests too)
//! and sources (a path into the crate's folder counts like its name). A listed crate that does not
//! fall with it, and a listed place where no file is, are reported too.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::workspace::Workspace;

/// A protocol's crate, and where it is registered.
struct Protocol {
    name: &'static str,
    /// Crates that may depend on it.
    crates: &'static [&'static str],
    /// Beginnings of the paths of sources that may name it.
    sources: &'static [&'static str],
}

/// Where the list stands.
const LIST: &str = "xtask/src/rules/protocols.rs";

const PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "leader",
        crates: &["server", "testkit", "sim", "cli", "fuzz"],
        sources: &[
            "crates/leader/",
            "crates/server/",
            "crates/sim/",
            "crates/cli/",
            "fuzz/targets/",
        ],
    },
    Protocol {
        name: "epoch",
        crates: &["cli", "fuzz", "measure", "sim"],
        sources: &[
            "crates/epoch/",
            "crates/cli/src/commands/epoch/",
            "crates/measure/src/bin/aloha-kv/",
            "fuzz/targets/epoch.rs",
        ],
    },
];

/// Reports crates and sources without which a protocol could not be taken out.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for protocol in PROTOCOLS {
        let package = format!("coeval-{}", protocol.name);
        if !workspace.packages.iter().any(|other| other.name == package) {
            continue;
        }
        let fallen = falls_with(workspace, &package);
        findings.extend(stale(workspace, protocol, &fallen));
        for fallen in fallen {
            let found = workspace.packages.iter().find(|other| other.name == fallen);
            let Some(found) = found.filter(|found| !protocol.crates.contains(&found.short_name()))
            else {
                continue;
            };
            findings.push(Finding::new(
                format!("{}/Cargo.toml", found.folder),
                1,
                format!("{} falls with the protocol {}", found.name, protocol.name),
                "depend on what both protocols use, or register it in xtask/src/rules/protocols.rs",
            ));
        }
        findings.extend(named(workspace, protocol));
    }
    findings
}

/// All packages that depend on one, directly or over others.
fn falls_with(workspace: &Workspace, package: &str) -> BTreeSet<String> {
    let mut fallen = BTreeSet::from([package.to_owned()]);
    loop {
        let packages = workspace.packages.iter();
        let next = packages.filter(|other| {
            let mut dependencies = other.dependencies.iter();
            dependencies.any(|dependency| fallen.contains(&dependency.name))
        });
        let before = fallen.len();
        let next: Vec<String> = next.map(|other| other.name.clone()).collect();
        fallen.extend(next);
        if fallen.len() == before {
            fallen.remove(package);
            return fallen;
        }
    }
}

/// Entries of the list that match nothing: what is registered there one day would pass unseen.
fn stale(workspace: &Workspace, protocol: &Protocol, fallen: &BTreeSet<String>) -> Vec<Finding> {
    let crates = protocol.crates.iter();
    let crates = crates.filter(|name| !fallen.contains(&format!("coeval-{name}")));
    let sources = protocol.sources.iter();
    let sources =
        sources.filter(|start| !workspace.paths.iter().any(|path| path.starts_with(**start)));
    let entries = crates.chain(sources);
    let finding = |entry: &&str| {
        let name = protocol.name;
        Finding::new(
            LIST,
            1,
            format!("the entry {entry:?} of the protocol {name} matches nothing"),
            "delete it",
        )
    };
    entries.map(finding).collect()
}

/// Places where sources name a protocol's crate, or a path into its folder, and are not listed.
fn named(workspace: &Workspace, protocol: &Protocol) -> Vec<Finding> {
    let name = format!("coeval_{}", protocol.name);
    let folder = format!("{}/src/", protocol.name);
    let mut findings = Vec::new();
    for (path, text) in workspace.rust_files() {
        let is_listed = protocol.sources.iter().any(|start| path.starts_with(start));
        if is_listed || path.starts_with("xtask/") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let is_code = !line.trim_start().starts_with("//");
            let is_path = line.contains("../") && line.contains(&folder);
            if is_code && (is_path || has_word(line, &name)) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("{} is named where it is not registered", protocol.name),
                    "move it to a listed place, or list this one in xtask/src/rules/protocols.rs",
                ));
            }
        }
    }
    findings
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_on_a_protocol_is_found_over_any_number_of_crates() {
        let workspace = Workspace::default()
            .with_package("epoch", &[("coeval-council", false)])
            .with_package("council", &[])
            .with_package("sql", &[("coeval-epoch", true)])
            .with_package("pgwire", &[("coeval-sql", false)])
            .with_package("cli", &[("coeval-epoch", false)]);
        let (own, others): (Vec<Finding>, Vec<Finding>) = check(&workspace)
            .into_iter()
            .partition(|finding| finding.path == LIST);
        let problems = |found: Vec<Finding>| -> Vec<String> {
            found.into_iter().map(|finding| finding.problem).collect()
        };
        let own = problems(own);
        let matches_nothing =
            |entry: &str| format!("the entry {entry:?} of the protocol epoch matches nothing");
        // Of the crates on the list only `cli` falls with it here, and no file is there at all.
        assert!(own.contains(&matches_nothing("fuzz")), "{own:?}");
        assert!(own.contains(&matches_nothing("crates/epoch/")), "{own:?}");
        assert!(!own.contains(&matches_nothing("cli")), "{own:?}");
        assert_eq!(
            problems(others),
            [
                "coeval-pgwire falls with the protocol epoch",
                "coeval-sql falls with the protocol epoch"
            ]
        );
    }

    #[test]
    fn sources_name_a_protocol_where_it_is_registered() {
        let workspace = Workspace::of(&[
            (
                "crates/cli/src/commands/epoch/mod.rs",
                "use coeval_epoch::Client;\n",
            ),
            (
                "crates/cli/src/main.rs",
                "// coeval_epoch\nuse coeval_epochs as no;\n",
            ),
            (
                "crates/cli/src/other.rs",
                "\nlet at = coeval_epoch::Epoch(1);\n",
            ),
            (
                "crates/sql/src/lib.rs",
                "#[path = \"../../epoch/src/codec.rs\"]\nmod codec;\n",
            ),
        ])
        .with_package("epoch", &[]);
        let places: Vec<(String, usize)> = check(&workspace)
            .into_iter()
            .filter(|finding| finding.path != LIST)
            .map(|finding| (finding.path, finding.line))
            .collect();
        let expected = [
            ("crates/cli/src/other.rs".to_owned(), 2),
            ("crates/sql/src/lib.rs".to_owned(), 1),
        ];
        assert_eq!(places, expected);
    }
}
