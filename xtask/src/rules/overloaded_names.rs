//! A name that could mean anything is qualified: no more than three types are called
//! `Place`, `Kind` or `Step`, no more than three modules `session` or `cluster`.
//!
//! With eighteen types called `Place`, a reader who meets one has to find its import
//! first, and a search for it finds all of them.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::source::Source;
use crate::workspace::Workspace;

/// Names of types that several parts of a database could claim.
const TYPES: &[&str] = &[
    "Place", "Kind", "Step", "Run", "Found", "Met", "Noted", "Target", "Progress",
];

/// Names of modules, likewise.
const MODULES: &[&str] = &["access", "session", "cluster", "recovery"];

/// In how many files each may be defined.
const MAX_DEFINITIONS: usize = 3;

/// Names that are defined too often.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut definitions: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for (path, text) in workspace.rust_files() {
        // Telling comments from code takes a while, and few files define such a name.
        if !text.lines().any(|line| defined(line).is_some()) {
            continue;
        }
        let source = Source::split(text);
        for (index, line) in source.code.lines().enumerate() {
            if let Some(name) = defined(line) {
                definitions.entry(name).or_default().push((path, index + 1));
            }
        }
    }
    let mut findings = Vec::new();
    for (name, places) in definitions {
        if places.len() <= MAX_DEFINITIONS {
            continue;
        }
        for (path, line) in &places {
            findings.push(Finding::new(
                *path,
                *line,
                format!("`{name}` is defined {} times", places.len()),
                format!("give it a qualifier: {MAX_DEFINITIONS} may be called that"),
            ));
        }
    }
    findings
}

/// The overloaded name that a line of code defines.
fn defined(line: &str) -> Option<&'static str> {
    let mut words = line
        .split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
        .skip_while(|word| matches!(*word, "pub" | "crate" | "super" | "in" | "self"));
    // `pub(in crate::session) struct` has a path's words in front.
    let keyword =
        words.find(|word| matches!(*word, "struct" | "enum" | "trait" | "type" | "mod"))?;
    let name = words.next()?;
    // `type Target = …;` inside an implementation of Deref is std's name.
    let is_associated = keyword == "type" && line.starts_with(' ');
    let list = if keyword == "mod" { MODULES } else { TYPES };
    let is_definition =
        line.trim_start().starts_with("pub") || line.trim_start().starts_with(keyword);
    list.iter()
        .copied()
        .find(|known| *known == name && is_definition && !is_associated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(lines: &[&str]) -> usize {
        let files: Vec<(String, String)> = lines
            .iter()
            .enumerate()
            .map(|(index, line)| (format!("crates/a/src/{index}.rs"), format!("{line}\n")))
            .collect();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        check(&Workspace::of(&files)).len()
    }

    #[test]
    fn the_fourth_of_a_name_is_one_too_many() {
        let three = [
            "struct Place;",
            "pub enum Place {}",
            "pub(crate) type Place = u8;",
        ];
        assert_eq!(findings(&three), 0);
        let four = [
            "struct Place;",
            "pub enum Place {}",
            "pub(crate) type Place = u8;",
            "pub(in crate::a) struct Place;",
        ];
        assert_eq!(findings(&four), 4);
        let modules = [
            "mod cluster;",
            "pub mod cluster;",
            "mod cluster {}",
            "pub(crate) mod cluster;",
        ];
        assert_eq!(findings(&modules), 4);
    }

    #[test]
    fn uses_and_associated_types_are_not_definitions() {
        let uses = [
            "use a::Place;",
            "fn a(b: Place) {}",
            "    type Target = u8;",
            "let place = Place::new();",
        ];
        assert_eq!(findings(&[&uses[..], &uses[..]].concat()), 0);
    }
}
