//! Rule: no two top modules of crate sql import each other.
//!
//! Two modules that import each other can only be read, tested and changed together: to the
//! reader they are one. The compiler accepts such pairs, so they grow unseen. This rule
//! finds them among the direct children of `crates/sql/src`, tests excluded, and compares
//! them with a list that may only shrink: an unlisted pair is a finding, and so is a listed
//! pair that no longer exists.
//!
//! Layers, lowest first: error, value, record, output, outcome, instance, access, catalog,
//! statement, contention, expression, plan, system, select, change, copy and definition,
//! session, verify. Code of a higher layer that a lower one needs moves down with its type,
//! or is passed as a parameter.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::source::{Source, compact, line_of, words};
use crate::workspace::Workspace;

/// Folder of the modules.
const ROOT: &str = "crates/sql/src/";

/// This file, which contains the list.
const HERE: &str = "xtask/src/rules/module_pairs.rs";

/// Known pairs of modules that import each other, by name.
const LISTED: &[(&str, &str)] = &[
    // A subquery is an expression that contains the plan of a query and runs it, and the
    // binder plans it within the scope of the tables of WITH around it.
    ("expression", "select"),
];

/// A position where a module names another.
#[derive(Clone, Debug)]
struct Import {
    path: String,
    line: usize,
    text: String,
}

/// First import for each pair of importing and imported module.
type Imports = BTreeMap<(String, String), Import>;

/// Reports unlisted pairs, and listed pairs that no longer exist.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    compare(workspace, LISTED)
}

fn compare(workspace: &Workspace, listed: &[(&str, &str)]) -> Vec<Finding> {
    let Some(root) = workspace.files.get(&format!("{ROOT}lib.rs")) else {
        return Vec::new();
    };
    let imports = imports(workspace, root);
    let mut findings = Vec::new();
    let mut pairs = BTreeSet::new();
    for ((one, other), import) in &imports {
        let back = imports.get(&(other.clone(), one.clone()));
        let (true, Some(back)) = (one < other, back) else {
            continue;
        };
        pairs.insert((one.as_str(), other.as_str()));
        if !listed.contains(&(one, other)) {
            findings.push(Finding::new(
                &import.path,
                import.line,
                format!(
                    "the modules {one} and {other} import each other: `{}` here, and `{}` in {}:{}",
                    import.text, back.text, back.path, back.line
                ),
                "move the type to the lower layer, or pass it in as a parameter",
            ));
        }
    }
    for pair in listed.iter().filter(|pair| !pairs.contains(*pair)) {
        let (one, other) = pair;
        let entry = format!("(\"{one}\", \"{other}\")");
        let line = workspace
            .files
            .get(HERE)
            .and_then(|text| text.lines().position(|line| line.contains(&entry)));
        findings.push(Finding::new(
            HERE,
            line.map_or(1, |index| index + 1),
            format!("{one} and {other} do not import each other any more"),
            "take the pair off the list",
        ));
    }
    findings
}

/// Collects the imports between top modules.
fn imports(workspace: &Workspace, root: &str) -> Imports {
    let files = workspace
        .rust_files()
        .filter_map(|(path, text)| Some((path, path.strip_prefix(ROOT)?, text)))
        .filter(|(_, inside, _)| *inside != "lib.rs" && !is_test(inside));
    let files: Vec<_> = files.collect();
    let tops: BTreeSet<&str> = files.iter().map(|(_, inside, _)| top_of(inside)).collect();
    let exported = exported(root);
    let mut imports = Imports::new();
    for (path, inside, text) in files {
        let source = Source::split(text).without(|attribute| attribute == "#[cfg(test)]");
        let top = top_of(inside);
        for (offset, name) in named(&source.code, depth_of(inside)) {
            let module = exported.get(&name).unwrap_or(&name);
            if module == top || !tops.contains(module.as_str()) {
                continue;
            }
            let line = line_of(&source.code, offset);
            let import = Import {
                path: path.to_owned(),
                line,
                text: text
                    .lines()
                    .nth(line - 1)
                    .unwrap_or_default()
                    .trim()
                    .to_owned(),
            };
            let entry = imports.entry((top.to_owned(), module.clone()));
            let first = entry.or_insert_with(|| import.clone());
            if (&import.path, import.line) < (&first.path, first.line) {
                *first = import;
            }
        }
    }
    imports
}

/// Whether a file contains tests only.
fn is_test(inside: &str) -> bool {
    inside
        .split('/')
        .any(|part| matches!(part, "tests" | "tests.rs" | "golden.rs"))
}

/// The top module that a file belongs to.
fn top_of(inside: &str) -> &str {
    let first = inside.split('/').next().unwrap_or(inside);
    first.trim_end_matches(".rs")
}

/// Number of modules between a file's items and the crate's root.
fn depth_of(inside: &str) -> usize {
    inside.trim_end_matches("/mod.rs").split('/').count()
}

/// The names that the crate's root re-exports, with their modules.
fn exported(root: &str) -> BTreeMap<String, String> {
    let code = Source::split(root).code;
    let mut exported = BTreeMap::new();
    for offset in words(&code, "use") {
        let Some((path, _)) = code[offset + "use".len()..].split_once(';') else {
            continue;
        };
        if let Some((module, _)) = path.split_once("::") {
            let behind = &path[module.len()..];
            for name in first_names(behind) {
                exported.insert(name, module.trim().to_owned());
            }
        }
    }
    exported
}

/// The names that follow the crate's root in paths, with their offsets: after `crate::`,
/// and after the number of `super::` that leads to the root.
fn named(code: &str, depth: usize) -> Vec<(usize, String)> {
    let mut named = Vec::new();
    for offset in words(code, "crate") {
        let behind = &code[offset + "crate".len()..];
        named.extend(first_names(behind).map(|name| (offset, name)));
    }
    for offset in words(code, "super") {
        // Only the first of a chain.
        if code[..offset].trim_end().ends_with("::") {
            continue;
        }
        let mut behind = &code[offset + "super".len()..];
        let mut supers = 1;
        while let Some(next) = behind.trim_start().strip_prefix("::")
            && let Some(next) = next.trim_start().strip_prefix("super")
        {
            behind = next;
            supers += 1;
        }
        if supers == depth {
            named.extend(first_names(behind).map(|name| (offset, name)));
        }
    }
    named
}

/// The names after `::` in a path: one, those of a group, or none if the path ends.
fn first_names(behind: &str) -> impl Iterator<Item = String> {
    let mut names = Vec::new();
    if let Some(rest) = behind.trim_start().strip_prefix("::") {
        match rest.trim_start().strip_prefix('{') {
            None => names.push(first_name(rest)),
            Some(group) => {
                let mut depth = 0usize;
                let mut start = 0;
                for (offset, character) in group.char_indices() {
                    match character {
                        ',' if depth == 0 => {
                            names.push(first_name(&group[start..offset]));
                            start = offset + 1;
                        }
                        '{' => depth += 1,
                        '}' if depth == 0 => {
                            names.push(first_name(&group[start..offset]));
                            break;
                        }
                        '}' => depth -= 1,
                        _ => {}
                    }
                }
            }
        }
    }
    names.into_iter().filter(|name| !name.is_empty())
}

fn first_name(text: &str) -> String {
    let text = text.trim_start();
    let in_name = |character: char| character.is_alphanumeric() || character == '_';
    compact(
        text.split(|character| !in_name(character))
            .next()
            .unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "mod low;\nmod high;\npub use low::{Deep, Shallow};\npub use high::Peak;\n";

    fn problems(low: &str, high: &str, listed: &[(&str, &str)]) -> Vec<String> {
        let workspace = Workspace::of(&[
            ("crates/sql/src/lib.rs", LIB),
            ("crates/sql/src/low.rs", low),
            ("crates/sql/src/high/mod.rs", "mod inner;"),
            ("crates/sql/src/high/inner.rs", high),
            ("crates/sql/src/high/tests.rs", "use crate::low::Deep;"),
        ]);
        let findings = compare(&workspace, listed);
        findings
            .into_iter()
            .map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.problem))
            .collect()
    }

    #[test]
    fn one_direction_is_no_pair() {
        assert!(problems("struct Deep;", "use crate::low::Deep;", &[]).is_empty());
        assert!(problems("use crate::high::Peak;", "use super::Other;", &[]).is_empty());
    }

    #[test]
    fn a_pair_is_shown_from_both_sides() {
        let found = problems(
            "\nuse crate::high::Peak;",
            "fn f(_: crate::low::Deep) {}",
            &[],
        );
        assert_eq!(
            found,
            [
                "crates/sql/src/high/inner.rs:1: the modules high and low import each other: \
              `fn f(_: crate::low::Deep) {}` here, and `use crate::high::Peak;` in \
              crates/sql/src/low.rs:2"
            ]
        );
    }

    #[test]
    fn groups_re_exports_and_super_are_paths_too() {
        for (low, high) in [
            (
                "use crate::{other, high::{Peak, x}};",
                "use crate::{Deep, x};",
            ),
            ("use crate::Peak;", "use crate::Shallow;"),
            ("use super::high::Peak;", "use super::super::low;"),
        ] {
            assert_eq!(problems(low, high, &[]).len(), 1, "{low} {high}");
        }
    }

    #[test]
    fn comments_texts_and_tests_are_none() {
        let low = "/// [`crate::high`]\nconst A: &str = \"crate::high\";\n\
                   #[cfg(test)]\nmod tests { use crate::high::Peak; }";
        assert!(problems(low, "use crate::low::Deep;", &[]).is_empty());
    }

    #[test]
    fn the_list_only_shrinks() {
        let listed = [("high", "low")];
        let (low, high) = ("use crate::high::Peak;", "use crate::low::Deep;");
        assert!(problems(low, high, &listed).is_empty());
        let gone = problems("", high, &listed);
        assert_eq!(gone.len(), 1);
        assert!(gone[0].contains("do not import each other any more"));
    }
}
