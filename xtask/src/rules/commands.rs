//! Rule: a cargo command that a document quotes runs what it names. A test filter that
//! matches no test passes with zero tests, so a stale command goes unnoticed.
//!
//! In a code span `cargo test …` or `cargo run …` the package, the binary, the example and
//! the test target exist, and each filter is part of the name of a function or module
//! there. A program that refuses builds of other profiles is run with `--profile dist`.

use crate::finding::Finding;
use crate::workspace::Workspace;

/// Recipes: their commands name tests that the reader is about to write.
const EXCEPT: &[&str] = &["docs/internals/howto.md"];

/// The field by which a program of measurements takes `--trial`, and refuses other builds.
const REFUSES: &str = "build: Build";

/// Reports commands whose targets or tests do not exist.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (page, text) in &workspace.files {
        if !page.ends_with(".md") || EXCEPT.contains(&page.as_str()) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            for span in line.split('`').skip(1).step_by(2) {
                if let Some(problem) = problem(workspace, span) {
                    findings.push(Finding::new(
                        page,
                        index + 1,
                        format!("`{span}`: {problem}"),
                        "name the package and the test that exist",
                    ));
                }
            }
        }
    }
    findings
}

/// What is wrong with a code span, if it is such a command.
fn problem(workspace: &Workspace, span: &str) -> Option<String> {
    let command = Command::parse(span)?;
    let mut folders = Vec::new();
    for name in &command.packages {
        match workspace.packages.iter().find(|each| each.name == *name) {
            Some(package) => folders.push(package.folder.as_str()),
            None => return Some(format!("there is no package {name}")),
        }
    }
    if folders.is_empty() {
        return None;
    }
    let exists = |path: &str| workspace.paths.contains(path);
    for (kind, name) in &command.targets {
        let root = folders
            .iter()
            .flat_map(|folder| {
                let stem = format!("{folder}/{kind}/{name}");
                [format!("{stem}.rs"), format!("{stem}/main.rs")]
            })
            .find(|path| exists(path));
        let Some(root) = root else {
            return Some(format!("there is no {kind}/{name}.rs"));
        };
        let refuses = workspace
            .files
            .get(&root)
            .is_some_and(|text| text.contains(REFUSES));
        if refuses && !span.contains("--profile dist") && !span.contains("--trial") {
            return Some("the program refuses this profile".to_owned());
        }
    }
    let missing = command.filters.iter().find(|filter| {
        let mut parts = filter.split("::").filter(|part| !part.is_empty());
        !parts.all(|part| {
            folders
                .iter()
                .any(|folder| defines(workspace, folder, part))
        })
    })?;
    Some(format!("no test or module is called {missing}"))
}

/// Whether a function or module of a package has `part` in its name, as test filters match.
fn defines(workspace: &Workspace, folder: &str, part: &str) -> bool {
    let prefix = format!("{folder}/");
    let files = workspace.files.range(prefix.clone()..);
    let mut files = files.take_while(|(path, _)| path.starts_with(&prefix));
    files.any(|(path, text)| {
        path.ends_with(".rs")
            && ["fn ", "mod "].iter().any(|keyword| {
                text.match_indices(keyword).any(|(at, _)| {
                    let rest = &text[at + keyword.len()..];
                    let end = rest.find(|next: char| !next.is_alphanumeric() && next != '_');
                    rest[..end.unwrap_or(rest.len())].contains(part)
                })
            })
    })
}

/// What a command names.
struct Command<'span> {
    packages: Vec<&'span str>,
    /// Folder of the target's kind within its package, and its name.
    targets: Vec<(&'static str, &'span str)>,
    filters: Vec<&'span str>,
}

impl<'span> Command<'span> {
    fn parse(span: &'span str) -> Option<Self> {
        let (_, arguments) = span.split_once("cargo ")?;
        let mut words = arguments.split_whitespace();
        let is_test = match words.find(|word| !word.starts_with('+'))? {
            "test" => true,
            "run" => false,
            _ => return None,
        };
        let mut command = Self {
            packages: Vec::new(),
            targets: Vec::new(),
            filters: Vec::new(),
        };
        while let Some(word) = words.next() {
            match word {
                "--" if !is_test => break,
                "-p" => command.packages.extend(words.next()),
                "--bin" => command
                    .targets
                    .extend(words.next().map(|name| ("src/bin", name))),
                "--example" => command
                    .targets
                    .extend(words.next().map(|name| ("examples", name))),
                "--test" => command
                    .targets
                    .extend(words.next().map(|name| ("tests", name))),
                "--profile" | "--features" | "--target-dir" | "--jobs" | "-j" => {
                    words.next();
                }
                _ if word.starts_with('-') => {}
                _ if is_test => command.filters.push(word),
                _ => {}
            }
        }
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(document: &str) -> Vec<String> {
        let workspace = Workspace::of(&[
            ("docs/a.md", document),
            ("crates/a/tests/it/main.rs", "mod crash;\n"),
            (
                "crates/a/tests/it/crash.rs",
                "fn a_crash_is_survived() {}\n",
            ),
            ("crates/a/src/bin/load.rs", "struct A { build: Build }\n"),
        ])
        .with_package("a", &[]);
        check(&workspace)
            .into_iter()
            .map(|finding| finding.problem.split("`: ").last().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn commands_that_run_something_pass() {
        for command in [
            "cargo test --workspace",
            "cargo test -p coeval-a",
            "cargo test -p coeval-a --test it crash::a_crash",
            "cargo test -p coeval-a --test it -- --ignored survived",
            "cargo run --profile dist -p coeval-a --bin load -- --seconds 3",
            "cargo build -p nothing",
        ] {
            assert!(
                problems(&format!("Run `{command}`.")).is_empty(),
                "{command}"
            );
        }
    }

    #[test]
    fn commands_that_run_nothing_are_found() {
        for (command, problem) in [
            ("cargo test -p coeval-b", "there is no package coeval-b"),
            (
                "cargo test -p coeval-a --test at",
                "there is no tests/at.rs",
            ),
            (
                "cargo test -p coeval-a --test it kill",
                "no test or module is called kill",
            ),
            (
                "cargo run -p coeval-a --bin lead",
                "there is no src/bin/lead.rs",
            ),
            (
                "cargo run --release -p coeval-a --bin load",
                "the program refuses this profile",
            ),
        ] {
            assert_eq!(problems(&format!("Run `{command}`.")), [problem]);
        }
    }
}
