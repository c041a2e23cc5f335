//! Rule: every crate inherits the workspace's lints. The two crates with unsafe code
//! cannot, because the workspace forbids it, and must state the same lints themselves.

use toml::{Table, Value};

use crate::finding::Finding;
use crate::workspace::Workspace;

/// Crates with lint tables of their own, because they may contain unsafe code.
const OWN_TABLES: &[&str] = &["memory", "storage"];

/// Lints that those tables must contain, as (tool, lint).
const REQUIRED: &[(&str, &str)] = &[
    ("rust", "missing_docs"),
    ("rust", "unsafe_op_in_unsafe_fn"),
    ("clippy", "undocumented_unsafe_blocks"),
];

/// Reports crates whose lints are not set.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let path = format!("{}/Cargo.toml", package.folder);
        let Some(text) = workspace.files.get(&path) else {
            continue;
        };
        let lints = text
            .parse::<Table>()
            .ok()
            .and_then(|manifest| manifest.get("lints").cloned())
            .unwrap_or_else(|| Value::Table(Table::new()));
        let inherits = lints.get("workspace").and_then(Value::as_bool) == Some(true);
        if inherits {
            continue;
        }
        let line = text
            .lines()
            .position(|line| line.starts_with("[lints"))
            .map_or(1, |index| index + 1);
        if OWN_TABLES.contains(&package.short_name()) {
            for (tool, lint) in REQUIRED {
                if lints.get(tool).and_then(|table| table.get(lint)).is_none() {
                    findings.push(Finding::new(
                        path.clone(),
                        line,
                        format!("no level for {tool}::{lint}"),
                        format!("add it under [lints.{tool}]"),
                    ));
                }
            }
        } else {
            findings.push(Finding::new(
                path,
                line,
                "the workspace's lints are not taken",
                "add `[lints]` with `workspace = true`",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(name: &str, manifest: &str) -> usize {
        let path = format!("crates/{name}/Cargo.toml");
        check(&Workspace::of(&[(&path, manifest)]).with_package(name, &[])).len()
    }

    #[test]
    fn crates_take_the_workspaces() {
        assert_eq!(problems("sql", "[lints]\nworkspace = true\n"), 0);
        assert_eq!(problems("sql", "[package]\nname = \"x\"\n"), 1);
        assert_eq!(
            problems("sql", "[lints.rust]\nmissing_docs = \"warn\"\n"),
            1
        );
    }

    #[test]
    fn the_unsafe_rooms_state_their_own() {
        let complete = "[lints.rust]\nmissing_docs = \"warn\"\nunsafe_op_in_unsafe_fn = \"deny\"\n\
                        [lints.clippy]\nundocumented_unsafe_blocks = \"warn\"\n";
        assert_eq!(problems("memory", complete), 0);
        assert_eq!(
            problems("memory", "[lints.rust]\nmissing_docs = \"warn\"\n"),
            2
        );
    }
}
