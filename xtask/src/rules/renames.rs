//! docs/internals/renames.tsv: what was renamed, for readers of older plans and notes.
//! Each line is `old<TAB>new`; what is new has to exist.
//!
//! A new name with a `/` in it is a path of this workspace; any other is an
//! identifier or words that stand in its sources.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::workspace::Workspace;

const PATH: &str = "docs/internals/renames.tsv";

/// Renames whose new name is not there.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(table) = workspace.files.get(PATH) else {
        return vec![Finding::new(
            PATH,
            1,
            "missing",
            "write it: `old<TAB>new` a line",
        )];
    };
    let mut identifiers: BTreeSet<&str> = BTreeSet::new();
    for (path, text) in &workspace.files {
        if path.ends_with(".rs") || path.ends_with(".toml") {
            identifiers.extend(
                text.split(|character: char| !character.is_alphanumeric() && character != '_'),
            );
        }
    }
    let mut findings = Vec::new();
    for (index, line) in table.lines().enumerate() {
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let columns: Vec<&str> = line.split('\t').collect();
        let [old, new] = columns[..] else {
            findings.push(Finding::new(
                PATH,
                index + 1,
                "not two columns",
                "write `old<TAB>new`",
            ));
            continue;
        };
        let exists = if new.contains('/') {
            let folder = format!("{}/", new.trim_end_matches('/'));
            workspace.paths.contains(new)
                || workspace
                    .paths
                    .range(folder.clone()..)
                    .next()
                    .is_some_and(|path| path.starts_with(&folder))
        } else {
            new.split("::").all(|part| identifiers.contains(part))
        };
        if !exists {
            findings.push(Finding::new(
                PATH,
                index + 1,
                format!("{old} became {new}, which does not exist"),
                "say what it is called now",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_names_exist() {
        let problems = |table: &str| {
            check(&Workspace::of(&[
                ("crates/a/src/slot.rs", "struct Slot;\n"),
                (PATH, table),
            ]))
            .len()
        };
        assert_eq!(
            problems("# old\tnew\nPlace\tSlot\ncrates/a/src/place.rs\tcrates/a/src/slot.rs\n"),
            0
        );
        assert_eq!(problems("crates/b\tcrates/a\n"), 0);
        assert_eq!(problems("Place\tSeat\n"), 1);
        assert_eq!(problems("crates/a/src/place.rs\tcrates/a/src/seat.rs\n"), 1);
        assert_eq!(problems("Place Slot\n"), 1);
    }
}
