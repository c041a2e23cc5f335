//! Rule: crates depend only on crates of lower layers.
//!
//! Siblings never depend on each other: after removing a protocol's crate and its
//! registration, the workspace still builds. Only the composition root names concrete
//! protocols. A crate must be in the table.

use crate::finding::Finding;
use crate::workspace::Workspace;

/// A crate's layer: its allowed dependencies, and the additional ones of its tests.
struct CrateRule {
    name: &'static str,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
}

/// Matches every other crate.
const EVERYTHING: &str = "*";

/// The layers, bottom up, as drawn in ARCHITECTURE.md.
const PLACES: &[CrateRule] = &[
    CrateRule {
        name: "types",
        uses: &[],
        tests_use: &[],
    },
    // A text and its tree; what either means is the SQL crates'.
    CrateRule {
        name: "sql-syntax",
        uses: &[],
        tests_use: &[],
    },
    CrateRule {
        name: "env",
        uses: &["types"],
        tests_use: &[],
    },
    CrateRule {
        name: "memory",
        uses: &[],
        tests_use: &[],
    },
    CrateRule {
        name: "storage",
        uses: &["types", "memory"],
        tests_use: &[],
    },
    CrateRule {
        name: "log",
        uses: &["types", "env", "memory"],
        tests_use: &[],
    },
    CrateRule {
        name: "consensus",
        uses: &["types"],
        tests_use: &[],
    },
    CrateRule {
        name: "peers",
        uses: &["types", "env"],
        tests_use: &[],
    },
    CrateRule {
        name: "council",
        uses: &["types", "env", "log", "consensus"],
        tests_use: &[],
    },
    CrateRule {
        name: "txn",
        uses: &["types", "env"],
        tests_use: &["check"],
    },
    CrateRule {
        name: "occ",
        uses: &["types", "env", "memory", "storage", "log", "txn"],
        tests_use: &["check"],
    },
    CrateRule {
        name: "leader",
        uses: &[
            "types",
            "env",
            "memory",
            "storage",
            "log",
            "consensus",
            "peers",
            "txn",
            "occ",
        ],
        tests_use: &["check"],
    },
    CrateRule {
        name: "epoch",
        uses: &["types", "env", "peers", "council"],
        tests_use: &[],
    },
    // The tests run its scripts on every engine and compare the results, so they name the
    // engines.
    CrateRule {
        name: "sql",
        uses: &["types", "sql-syntax", "env", "memory", "txn"],
        tests_use: &["occ"],
    },
    CrateRule {
        name: "pgwire",
        uses: &["types"],
        tests_use: &[],
    },
    CrateRule {
        name: "check",
        uses: &["types"],
        tests_use: &[],
    },
    CrateRule {
        name: "workload",
        uses: &["types", "env", "txn", "check"],
        tests_use: &[],
    },
    // The composition root: it names concrete protocols, and no program around it.
    CrateRule {
        name: "server",
        uses: &[
            "types",
            "env",
            "memory",
            "storage",
            "log",
            "consensus",
            "peers",
            "txn",
            "occ",
            "leader",
            "sql",
            "pgwire",
            "check",
        ],
        tests_use: &[EVERYTHING],
    },
    // Shared by the tests of the server and of the command line; no other crate names it.
    CrateRule {
        name: "testkit",
        uses: &["env", "server"],
        tests_use: &[],
    },
    // Measures what other crates hide behind their interfaces.
    CrateRule {
        name: "measure",
        uses: &[EVERYTHING],
        tests_use: &[EVERYTHING],
    },
    // Names concrete protocols, because it tests them.
    CrateRule {
        name: "sim",
        uses: &[EVERYTHING],
        tests_use: &[EVERYTHING],
    },
    CrateRule {
        name: "cli",
        uses: &[EVERYTHING],
        tests_use: &[EVERYTHING],
    },
    // Measures any database, from outside: of ours it knows the judges.
    CrateRule {
        name: "probe",
        uses: &["check"],
        tests_use: &[],
    },
    CrateRule {
        name: "fuzz",
        uses: &[EVERYTHING],
        tests_use: &[],
    },
    // Compares the grammar with PostgreSQL's.
    CrateRule {
        name: "xtask",
        uses: &["sql-syntax"],
        tests_use: &[],
    },
];

/// Reports dependencies between members that are not in the table.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let manifest = format!("{}/Cargo.toml", package.folder);
        let Some(place) = PLACES
            .iter()
            .find(|place| place.name == package.short_name())
        else {
            findings.push(Finding::new(
                manifest,
                1,
                format!("{} has no place in the layering", package.name),
                "give it one in xtask/src/rules/layering.rs and in ARCHITECTURE.md",
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let Some(used) = workspace
                .packages
                .iter()
                .find(|other| other.name == dependency.name)
            else {
                continue;
            };
            let may =
                |list: &[&str]| list.contains(&used.short_name()) || list.contains(&EVERYTHING);
            if may(place.uses) || dependency.development && may(place.tests_use) {
                continue;
            }
            let line = workspace
                .files
                .get(&manifest)
                .and_then(|text| text.lines().position(|line| line.starts_with(&used.name)))
                .map_or(1, |index| index + 1);
            findings.push(Finding::new(
                manifest.clone(),
                line,
                format!("{} may not depend on {}", place.name, used.short_name()),
                "move the code to where both may reach it, or pass it in as a trait of txn or a plain value",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_crate_may_be_used() {
        let workspace = Workspace::default()
            .with_package("types", &[])
            .with_package("sql", &[("coeval-types", false), ("serde", false)]);
        assert_eq!(check(&workspace), []);
    }

    #[test]
    fn a_sibling_may_not_nor_in_tests() {
        for development in [false, true] {
            let workspace = Workspace::of(&[(
                "crates/occ/Cargo.toml",
                "[dependencies]\ncoeval-sql.workspace = true\n",
            )])
            .with_package("sql", &[])
            .with_package("occ", &[("coeval-sql", development)]);
            let findings = check(&workspace);
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].line, 2);
            assert!(findings[0].problem.contains("occ may not depend on sql"));
        }
    }

    #[test]
    fn what_tests_may_use_the_crate_may_not() {
        let used_as = |development| {
            check(
                &Workspace::default()
                    .with_package("check", &[])
                    .with_package("occ", &[("coeval-check", development)]),
            )
        };
        assert_eq!(used_as(true), []);
        assert_eq!(used_as(false).len(), 1);
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        let findings = check(&Workspace::default().with_package("attic", &[]));
        assert!(findings[0].problem.contains("no place"));
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (position, place) in PLACES.iter().enumerate() {
            for used in place.uses.iter().filter(|used| **used != EVERYTHING) {
                let at = PLACES.iter().position(|other| other.name == *used);
                assert!(
                    at.is_some_and(|at| at < position),
                    "{} uses {used}",
                    place.name
                );
            }
        }
    }
}
