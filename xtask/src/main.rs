//! The house rules as a program: `cargo xtask check`.
//!
//! The rules check what a reviewer would otherwise have to remember: which crate may
//! depend on which, which may contain unsafe code, that time, randomness, network, disk
//! and threads are accessed through the environment abstraction, that no file is dead or
//! too long, that the documents have their required rows. Each rule is a file under
//! `rules/`, a function from a [`Workspace`] to [`Finding`]s. A workspace is plain text
//! in memory, so each rule's tests pass it a small wrong workspace and expect findings.
//!
//! ```text
//! crates/sql/src/plan.rs:12: std::thread goes around the env door; use coeval_env::spawn_dedicated
//! 1 finding
//! ```
//!
//! The same check runs as a test of this crate, so `cargo test --workspace` covers it.
#![expect(
    clippy::disallowed_methods,
    reason = "a tool that reads the source tree; nothing of it runs inside a server or the simulator"
)]

mod comments;
mod court;
mod finding;
mod grammar;
mod paths;
mod rules;
mod source;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use finding::Finding;
use workspace::Workspace;

const USAGE: &str = "usage: cargo xtask check
       cargo xtask comments [--seed NUMBER]
       cargo xtask court --quick [simulator] [planted] [processes] [MORE…]
       cargo xtask court --long [simulator] [processes] [clusters] [MORE…]
       cargo xtask grammar [--files DIRECTORY] [--list]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check(&root()),
        ["comments"] => sample(&root(), "1"),
        ["comments", "--seed", seed] => sample(&root(), seed),
        ["court", "--quick", ref more @ ..] => court::quick(&root(), more),
        ["court", "--long", ref more @ ..] => court::long(&root(), more),
        ["grammar"] => grammar::run(&root(), None, false),
        ["grammar", "--list"] => grammar::run(&root(), None, true),
        ["grammar", "--files", files] => grammar::run(&root(), Some(files), false),
        ["grammar", "--files", files, "--list"] => grammar::run(&root(), Some(files), true),
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Root of the workspace in which this program was built.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the manifest lies one level below the workspace")
        .to_owned()
}

fn load(root: &Path) -> Result<Workspace, ExitCode> {
    Workspace::load(root).map_err(|error| {
        eprintln!("cannot read the workspace: {error}");
        ExitCode::from(2)
    })
}

fn sample(root: &Path, seed: &str) -> ExitCode {
    let Ok(seed) = seed.parse() else {
        eprintln!("{seed} is not a number from 0 to {}", u64::MAX);
        return ExitCode::from(2);
    };
    match load(root) {
        Ok(workspace) => {
            comments::print_sample(&workspace, seed);
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

fn check(root: &Path) -> ExitCode {
    let workspace = match load(root) {
        Ok(workspace) => workspace,
        Err(code) => return code,
    };
    let findings = findings(&workspace);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!(
                "{} rules, {} files, {} crates: in order",
                rules::ALL.len(),
                workspace.files.len(),
                workspace.packages.len()
            );
            ExitCode::SUCCESS
        }
        1 => {
            println!("1 finding");
            ExitCode::FAILURE
        }
        count => {
            println!("{count} findings");
            ExitCode::FAILURE
        }
    }
}

/// Findings of every rule, sorted by file.
fn findings(workspace: &Workspace) -> Vec<Finding> {
    let mut findings: Vec<Finding> = rules::ALL.iter().flat_map(|rule| rule(workspace)).collect();
    findings.sort();
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_keeps_the_house_rules() {
        let workspace = Workspace::load(&root()).expect("the workspace can be read");
        assert!(workspace.packages.len() > 2, "no crates were found");
        assert!(workspace.files.len() > 20, "no files were found");
        let findings: Vec<String> = findings(&workspace)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
    }
}
