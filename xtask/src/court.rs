//! The command `cargo xtask court`: runs the simulation campaign and the fault harness,
//! for minutes or for hours.
//!
//! `cargo xtask court --quick` takes minutes, after a build that shares everything with
//! that of `cargo test --workspace`. `--long` takes hours, on any number of machines: the
//! results of a build are stored in `bench/record/court`, and the same build does not
//! repeat them. The first arguments may name parts, as in `cargo xtask court --quick
//! simulator planted`; further arguments are passed to the simulator's `court`, as in
//! `cargo xtask court --long simulator --seconds 3600`; `docs/internals/testing.md` says
//! more.

mod steps;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use steps::CampaignStep;

/// Length of a run, in milliseconds of virtual time: short, because faults come within a
/// second, and another seed finds more than another second.
const QUICK_MS: &str = "500";
const LONG_MS: &str = "600";
/// Number of seeds, for more than 10,000 runs.
const LONG_SEEDS: &str = "21";

/// The parts, as the command line names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Simulator,
    Planted,
    Processes,
    Clusters,
}

const QUICK: &[(&str, Part)] = &[
    ("simulator", Part::Simulator),
    ("planted", Part::Planted),
    ("processes", Part::Processes),
];
/// Release builds cannot inject known bugs.
const LONG: &[(&str, Part)] = &[
    ("simulator", Part::Simulator),
    ("processes", Part::Processes),
    ("clusters", Part::Clusters),
];

/// The parts that the first words name, or all, and the remaining words.
fn parts<'more>(
    of: &[(&str, Part)],
    more: &'more [&'more str],
) -> (Vec<Part>, &'more [&'more str]) {
    let part = |word: &&str| of.iter().find(|(name, _)| name == word);
    let named: Vec<Part> = more.iter().map_while(part).map(|(_, part)| *part).collect();
    let more = &more[named.len()..];
    match named.is_empty() {
        true => (of.iter().map(|(_, part)| *part).collect(), more),
        false => (named, more),
    }
}

/// Runs one seed of a sample of the scenarios, the known bugs, and a round of every fault
/// on a process.
pub fn quick(root: &Path, more: &[&str]) -> ExitCode {
    let (parts, more) = parts(QUICK, more);
    // The build can inject bugs, and injects one only on request. A single build has the
    // features of the workspace's tests, so that little is built twice; the programs are
    // then run directly.
    let build = [
        "build",
        "--quiet",
        "-p",
        "coeval-sim",
        "-p",
        "coeval-workload",
        "-p",
        "coeval-cli",
        "--features",
        "coeval-sim/planted",
        "--bin",
        "coeval-sim",
        "--bin",
        "dock",
        "--bin",
        "coeval",
    ];
    let Some(folder) = programs() else {
        eprintln!("this program does not know where it is, so it does not find the others");
        return ExitCode::from(2);
    };
    let program = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (sim, dock, coeval) = (program("coeval-sim"), program("dock"), program("coeval"));
    let court = [&["court", "--sample", "--length-ms", QUICK_MS], more].concat();
    let dock_arguments = [
        "--quick", "--rounds", "1", "--load", "150", "--binary", &coeval,
    ];
    let planted = ["planted"];
    if run(root, &cargo(), &build) != Some(true) {
        return ExitCode::from(2);
    }
    verdict(parts.into_iter().map(|part| match part {
        Part::Simulator => run(root, &sim, &court),
        Part::Planted => run(root, &sim, &planted),
        Part::Processes | Part::Clusters => run(root, &dock, &dock_arguments),
    }))
}

/// Runs many seeds of every scenario, in a release build, then many rounds of every fault
/// on a process, and on the leader, a follower and all of a cluster of three.
pub fn long(root: &Path, more: &[&str]) -> ExitCode {
    let (parts, more) = parts(LONG, more);
    let folder = root.join("bench/record/court");
    let (record, table) = (folder.join("runs"), folder.join("table"));
    let (record, table) = (record.to_string_lossy(), table.to_string_lossy());
    let build = revision(root);
    let mut court = vec![
        "run",
        "--quiet",
        "--release",
        "-p",
        "coeval-sim",
        "--",
        "court",
        "--record",
        &record,
        "--table",
        &table,
        "--build",
        &build,
    ];
    for (option, value) in [("--seeds", LONG_SEEDS), ("--length-ms", LONG_MS)] {
        if !more.contains(&option) {
            court.extend([option, value]);
        }
    }
    court.extend(more);
    let steps = folder.join("processes");
    verdict(parts.into_iter().map(|part| match part {
        Part::Processes => in_steps(root, &steps, &build, &CampaignStep::alone()),
        Part::Clusters => in_steps(root, &steps, &build, &CampaignStep::of_clusters()),
        Part::Simulator | Part::Planted => run(root, &cargo(), &court),
    }))
}

/// Runs the steps of the harness that this build has not passed, and records each when it
/// has a verdict.
fn in_steps(root: &Path, file: &Path, build: &str, all: &[CampaignStep]) -> Option<bool> {
    let record = readable(steps::read(file))?;
    // The program is built and run separately, so that the exit code is that of the
    // harness, and its verdict on the servers.
    let program = ["build", "--quiet", "-p", "coeval-workload", "--bin", "dock"];
    if run(root, &cargo(), &program) != Some(true) {
        return None;
    }
    let dock = programs()?.join("dock").to_string_lossy().into_owned();
    let mut content = true;
    for &step in all {
        let (passed, failed) = steps::on_record(&record, step, build);
        if failed {
            println!(
                "{}: has failed in this build ({})",
                step.name(),
                file.display()
            );
            content = false;
        }
        if passed {
            println!("{}: this build has passed it", step.name());
            continue;
        }
        let started = std::time::Instant::now();
        let arguments = step.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = run(root, &dock, &arguments)?;
        let seconds = started.elapsed().as_secs();
        readable(steps::note(file, step, build, done, seconds))?;
        content &= done;
    }
    Some(content)
}

fn readable<T>(result: std::io::Result<T>) -> Option<T> {
    let told = |error| eprintln!("the court's record of processes: {error}");
    result.map_err(told).ok()
}

/// Folder of the workspace's debug programs: that of this program.
fn programs() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    Some(this.parent()?.to_owned())
}

fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Sources of the programs. Measurements and documents are elsewhere, so writing or
/// committing a record does not change the build's name.
const SOURCES: &[&str] = &[
    "crates",
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    ".cargo",
];

/// The last commit that changed the sources; after a `+` a digest of uncommitted changes,
/// so that two modified trees have different names.
fn revision(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .arg("--")
            .args(SOURCES)
            .current_dir(root)
            .output();
        let output = output.ok().filter(|output| output.status.success());
        output.map_or_else(Vec::new, |output| output.stdout)
    };
    let commit = git(&["log", "-1", "--format=%h", "--abbrev=10"]);
    let commit = String::from_utf8_lossy(&commit).trim().to_owned();
    if commit.is_empty() {
        return "unnamed".to_owned();
    }
    let mut changes = git(&["diff", "HEAD", "--binary"]);
    let new_files = git(&["ls-files", "--others", "--exclude-standard"]);
    for name in String::from_utf8_lossy(&new_files).lines() {
        changes.extend(name.bytes());
        changes.extend(std::fs::read(root.join(name)).unwrap_or_default());
    }
    if changes.is_empty() {
        return commit;
    }
    let mut hasher = DefaultHasher::new();
    changes.hash(&mut hasher);
    format!("{commit}+{:08x}", hasher.finish() >> 32)
}

/// Exit code of a program that has found a violation.
const FOUND: i32 = 1;

/// Runs a program; returns whether it found nothing, or `None` if it reached no verdict:
/// it does not start, a signal ends it, or it has any other exit code.
fn run(root: &Path, program: &str, arguments: &[&str]) -> Option<bool> {
    let name = Path::new(program).file_name().unwrap_or_default();
    println!("{} {}", name.to_string_lossy(), arguments.join(" "));
    let started = std::time::Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .status();
    println!("took {} s", started.elapsed().as_secs());
    match status {
        Ok(status) => match status.code() {
            Some(0) => Some(true),
            Some(FOUND) => Some(false),
            _ => {
                eprintln!("{program} comes to no verdict: {status}");
                None
            }
        },
        Err(error) => {
            eprintln!("{program} does not start: {error}");
            None
        }
    }
}

/// The exit code for all parts, which run one after the other; the first without a
/// verdict ends the command.
fn verdict(parts: impl Iterator<Item = Option<bool>>) -> ExitCode {
    let mut content = true;
    for done in parts {
        match done {
            Some(done) => content &= done,
            None => return ExitCode::from(2),
        }
    }
    match content {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_named_before_anything_else() {
        let (all, more) = parts(QUICK, &["--seeds", "3", "planted"]);
        assert_eq!(all.len(), 3);
        assert_eq!(more, ["--seeds", "3", "planted"]);
        let (some, more) = parts(QUICK, &["processes", "planted", "--only", "server/"]);
        assert_eq!(some, [Part::Processes, Part::Planted]);
        assert_eq!(more, ["--only", "server/"]);
        let (all, more) = parts(LONG, &["planted"]);
        assert_eq!((all.len(), more), (3, &["planted"][..]));
    }

    #[test]
    fn only_a_verdict_is_one() {
        let root = std::env::temp_dir();
        let ends = |script| run(&root, "sh", &["-c", script]);
        assert_eq!(ends("exit 0"), Some(true));
        assert_eq!(ends("exit 1"), Some(false));
        for script in ["exit 2", "exit 101", "kill -9 $$"] {
            assert_eq!(ends(script), None, "{script}");
        }
        assert_eq!(run(&root, "/nothing/of/this/name", &[]), None);
        let of = |parts: &[Option<bool>]| format!("{:?}", verdict(parts.iter().copied()));
        let code = |code| format!("{:?}", ExitCode::from(code));
        assert_eq!(of(&[Some(true), Some(true)]), code(0));
        assert_eq!(of(&[Some(false), Some(true)]), code(1));
        let mut later = 0;
        let parts = [Some(false), None, Some(true)].into_iter();
        let done = verdict(parts.inspect(|_| later += 1));
        assert_eq!((format!("{done:?}"), later), (code(2), 2));
    }

    #[test]
    fn a_build_is_named_by_its_sources() {
        let root = std::env::temp_dir().join(format!("coeval-revision-{}", std::process::id()));
        std::fs::create_dir_all(root.join("crates")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
            let done = Command::new("git")
                .args(identity)
                .args(arguments)
                .current_dir(&root)
                .output();
            assert!(done.unwrap().status.success(), "git {arguments:?}");
        };
        git(&["init", "--quiet"]);
        for name in SOURCES.iter().filter(|name| name.contains(".toml")) {
            write(name, "");
        }
        write("Cargo.lock", "");
        write("crates/a.rs", "a");
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", "one"]);
        let clean = revision(&root);
        assert!(clean.len() >= 10 && !clean.contains('+'), "{clean}");

        write("record", "of a court");
        assert_eq!(revision(&root), clean);
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", "a record"]);
        assert_eq!(revision(&root), clean, "no other program");

        write("crates/a.rs", "b");
        let changed = revision(&root);
        assert!(changed.starts_with(&format!("{clean}+")), "{changed}");
        write("crates/new.rs", "");
        let with_a_file = revision(&root);
        assert!(with_a_file != changed && with_a_file.contains('+'));
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", "two"]);
        let next = revision(&root);
        assert!(!next.contains('+') && next != clean, "{next}");
        std::fs::remove_dir_all(root).unwrap();
    }
}
