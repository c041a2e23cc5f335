//! Rule: time, randomness, network, disk and threads are accessed through `coeval-env`.
//!
//! Clippy's lists (see [`super::clippy_lists`]) resolve names but cover single functions
//! only. This rule is coarser and complete in the other direction: it forbids whole
//! modules, with everything in them. An item or a file that must bypass the environment
//! abstraction states its reason in an `#[expect(clippy::disallowed_methods, …)]` above
//! the item, or at the head of the file. Tests are exempt.

use crate::finding::Finding;
use crate::paths::mentioned;
use crate::source::{Source, compact, line_of};
use crate::workspace::Workspace;

/// Modules that bypass the environment abstraction, and their replacements.
const SIDE_DOORS: &[(&str, &str)] = &[
    (
        "std::time::Instant",
        "use coeval_env::Instant and coeval_env::now",
    ),
    ("std::time::SystemTime", "use coeval_env::wall_clock"),
    ("std::time::UNIX_EPOCH", "use coeval_env::wall_clock"),
    (
        "std::thread",
        "use coeval_env::spawn_dedicated and coeval_env::sleep",
    ),
    ("std::fs", "use coeval_env::fs"),
    ("std::os::unix::fs", "use coeval_env::fs"),
    ("std::net::TcpListener", "use coeval_env::listen"),
    ("std::net::TcpStream", "use coeval_env::connect"),
    (
        "std::net::UdpSocket",
        "use coeval_env::listen and coeval_env::connect",
    ),
    (
        "std::os::unix::net",
        "use coeval_env::listen and coeval_env::connect",
    ),
    ("std::hash::RandomState", "use a BTreeMap or a fixed hasher"),
    (
        "std::collections::hash_map::RandomState",
        "use a BTreeMap or a fixed hasher",
    ),
    ("tokio::fs", "use coeval_env::fs"),
    (
        "tokio::net",
        "use coeval_env::listen and coeval_env::connect",
    ),
    (
        "tokio::time",
        "use coeval_env::sleep, coeval_env::timeout and coeval_env::now",
    ),
    ("tokio::spawn", "use coeval_env::spawn"),
    ("tokio::task", "use coeval_env::spawn"),
    (
        "tokio::runtime",
        "use coeval_env::spawn and coeval_env::spawn_dedicated",
    ),
    ("rand::rng", "use coeval_env::random_u64"),
    ("rand::random", "use coeval_env::random_u64"),
    ("rand::rngs::ThreadRng", "use coeval_env::random_u64"),
    ("rand::rngs::SysRng", "use coeval_env::random_u64"),
    ("getrandom", "use coeval_env::random_bytes"),
    ("fastrand", "use coeval_env::random_u64"),
];

/// Names in these modules that are harmless.
const HARMLESS: &[&str] = &[
    "std::thread::LocalKey",
    "std::thread::panicking",
    "std::thread::available_parallelism",
    "tokio::task::coop",
];

/// Crates that may use one of the modules, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("env", "", "it is the door"),
    (
        "memory",
        "std::thread",
        "its facade over std, loom and shuttle names their threads",
    ),
    (
        "server",
        "tokio::runtime",
        "the composition root starts the runtimes that its workers run on",
    ),
    (
        "cli",
        "tokio::runtime",
        "a command starts the runtime that env's real world runs on",
    ),
    (
        "testkit",
        "tokio::runtime",
        "a test starts the runtime that its server runs on",
    ),
];

/// Reports uses of the modules.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in workspace.rust_files() {
        let Some(name) = Workspace::crate_of(path) else {
            continue;
        };
        if is_test(path) || steps_outside(text) {
            continue;
        }
        let source = Source::split(text).without(|attribute| {
            attribute == "#[cfg(test)]" || attribute.starts_with(STEPS_OUTSIDE)
        });
        for (offset, mentioned) in mentioned(&source.code) {
            let Some((door, remedy)) = SIDE_DOORS.iter().find(|(door, _)| leads(&mentioned, door))
            else {
                continue;
            };
            let harmless = HARMLESS.iter().any(|harmless| leads(&mentioned, harmless));
            let excepted = EXCEPTIONS
                .iter()
                .any(|(excepted, below, _)| *excepted == name && door.starts_with(below));
            if !harmless && !excepted {
                findings.push(Finding::new(
                    path,
                    line_of(&source.code, offset),
                    format!("{mentioned} goes around the env door"),
                    *remedy,
                ));
            }
        }
    }
    findings
}

/// Whether `path` is the module `door` or an item in it.
fn leads(path: &str, door: &str) -> bool {
    path.strip_prefix(door)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Whether a file contains tests only, judged by its path.
fn is_test(path: &str) -> bool {
    path.split('/').any(|part| {
        matches!(
            part,
            "tests" | "benches" | "examples" | "tests.rs" | "model_tests.rs"
        )
    })
}

/// The beginning of an item's reasoned exception, without white space.
const STEPS_OUTSIDE: &str = "#[expect(clippy::disallowed_methods,reason=";

/// Whether the whole file has a reasoned exception at its head.
fn steps_outside(text: &str) -> bool {
    compact(text).contains("#![expect(clippy::disallowed_methods,reason=")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&Workspace::of(&[(path, text)]))
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.problem))
            .collect()
    }

    #[test]
    fn whole_modules_are_closed() {
        assert_eq!(
            problems(
                "crates/log/src/a.rs",
                "use std::{io, thread};\nfn f() { tokio::fs::read(p); std::thread::Builder::new(); }\n"
            ),
            [
                "1: std::thread goes around the env door",
                "2: tokio::fs::read goes around the env door",
                "2: std::thread::Builder::new goes around the env door"
            ]
        );
    }

    #[test]
    fn names_that_open_nothing_pass() {
        let text = "use std::net::SocketAddr;\nuse std::time::Duration;\nuse randomized::rand;\nuse rand::rngs::StdRng;\n\
                    fn f() { std::thread::panicking(); }\n// std::fs::read\n";
        assert!(problems("crates/log/src/a.rs", text).is_empty());
    }

    #[test]
    fn tests_and_the_door_itself_pass() {
        let text = "use std::fs;\n";
        assert!(problems("crates/env/src/a.rs", text).is_empty());
        assert!(problems("crates/log/tests/it/a.rs", text).is_empty());
        let inner = "#[cfg(test)]\nmod tests { use std::fs; }\n";
        assert!(problems("crates/log/src/a.rs", inner).is_empty());
        assert_eq!(problems("crates/log/src/a.rs", text).len(), 1);
    }

    #[test]
    fn a_file_may_step_outside_with_a_reason() {
        let reasoned = "#![expect(\n    clippy::disallowed_methods,\n    reason = \"drives processes\"\n)]\nuse std::fs;\n";
        assert!(problems("crates/workload/src/bin/a.rs", reasoned).is_empty());
        let item = "#[expect(clippy::disallowed_methods, reason = \"no world yet\")]\n\
                    fn a() { std::fs::read(p) }\nfn b() { std::fs::read(p) }\n";
        assert_eq!(
            problems("crates/server/src/a.rs", item),
            ["3: std::fs::read goes around the env door"]
        );
        let bare = "#![expect(clippy::disallowed_methods)]\nuse std::fs;\n";
        assert_eq!(problems("crates/workload/src/bin/a.rs", bare).len(), 1);
    }
}
