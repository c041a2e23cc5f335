//! Rule: there is no Rust file that the compiler never reads.
//!
//! The rule follows `mod name;`, `#[path = "…"]` and `include!("…")` from the root file
//! of each target. A file that is not reached is dead code, which no build checks.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::source::{Source, words};
use crate::workspace::Workspace;

/// Reports Rust files that no target reaches.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<(String, bool)> = workspace
        .packages
        .iter()
        .flat_map(|package| package.roots.iter().map(|root| (root.clone(), true)))
        .collect();
    while let Some((path, is_root)) = waiting.pop() {
        if !reached.insert(path.clone()) {
            continue;
        }
        if let Some(text) = workspace.files.get(&path) {
            waiting.extend(
                named_by(&path, is_root, text)
                    .into_iter()
                    .filter(|named| workspace.files.contains_key(named))
                    .map(|named| (named, false)),
            );
        }
    }
    workspace
        .rust_files()
        .filter(|(path, _)| !reached.contains(*path))
        .map(|(path, _)| {
            Finding::new(
                path,
                1,
                "no target reaches this file",
                "name it in a `mod` of its parent, or remove it",
            )
        })
        .collect()
}

/// Paths that a file's `mod`, `path` and `include!` items may refer to.
fn named_by(path: &str, is_root: bool, text: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.trim_end_matches(".rs");
    let children = if is_root || stem == "mod" {
        folder.to_owned()
    } else {
        format!("{folder}/{stem}")
    };
    let mut named = Vec::new();
    let source = Source::split(text);
    let mut inline: Vec<(usize, String)> = Vec::new();
    for offset in words(&source.code, "mod") {
        let rest = &source.code[offset + "mod".len()..];
        let Some(end) = rest.find([';', '{']) else {
            continue;
        };
        let name = rest[..end].trim().trim_start_matches("r#");
        if rest[end..].starts_with('{') {
            inline.push((offset, name.to_owned()));
            continue;
        }
        // A module inside an inline one is a folder deeper.
        let mut deeper = String::new();
        for (_, parent) in inline
            .iter()
            .filter(|(start, _)| encloses(&source.code, *start, offset))
        {
            deeper.push_str(parent);
            deeper.push('/');
        }
        named.push(format!("{children}/{deeper}{name}.rs"));
        named.push(format!("{children}/{deeper}{name}/mod.rs"));
    }
    for mark in ["#[path", "include!("] {
        for (offset, _) in source.code.match_indices(mark) {
            if let Some(target) = text_literal(text, offset) {
                named.push(normalize(&format!("{folder}/{target}")));
            }
        }
    }
    named
}

/// Whether the block that opens after `start` is still open at `offset`.
fn encloses(code: &str, start: usize, offset: usize) -> bool {
    let mut depth = 0i64;
    let mut opened = false;
    for character in code[start..offset].chars() {
        match character {
            '{' => {
                depth += 1;
                opened = true;
            }
            '}' => depth -= 1,
            _ => {}
        }
        if opened && depth == 0 {
            return false;
        }
    }
    opened
}

/// The first string literal of `text` at or after a byte offset.
fn text_literal(text: &str, offset: usize) -> Option<&str> {
    let rest = text.get(offset..)?;
    let open = rest.find('"')?;
    let close = rest[open + 1..].find('"')?;
    Some(&rest[open + 1..open + 1 + close])
}

fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        check(&Workspace::of(files).with_package("a", &[]))
            .into_iter()
            .map(|finding| finding.path)
            .collect()
    }

    #[test]
    fn follows_modules_paths_and_includes() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod one;\nmod two;\n#[path = \"odd/place.rs\"]\nmod odd;\ninclude!(\"../table.rs\");\nmod in_line { mod deep; }",
            ),
            ("crates/a/src/one.rs", "mod inner;"),
            ("crates/a/src/one/inner.rs", ""),
            ("crates/a/src/two/mod.rs", "mod leaf;"),
            ("crates/a/src/two/leaf.rs", ""),
            ("crates/a/src/odd/place.rs", ""),
            ("crates/a/src/in_line/deep.rs", ""),
            ("crates/a/table.rs", ""),
        ];
        assert!(dead(&files).is_empty(), "{:?}", dead(&files));
    }

    #[test]
    fn finds_what_nobody_names() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "// mod old;\nconst S: &str = \"mod old;\";",
            ),
            ("crates/a/src/old.rs", ""),
        ];
        assert_eq!(dead(&files), ["crates/a/src/old.rs"]);
    }
}
