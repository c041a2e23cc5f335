//! The court: simulator and processes, for minutes or for hours.
//!
//! `cargo xtask court --quick` takes minutes, after a build that shares everything with
//! that of `cargo test --workspace`. `--long` takes hours, on as many machines as there
//! are: what a build has done stands in `bench/record/court` and is not done again by the
//! same build. Parts may be named, as in `cargo xtask court --quick simulator planted`; what
//! follows goes to the simulator's `court` as it is, as in
//! `cargo xtask court --long simulator --seconds 3600`; `docs/internals/testing.md` says
//! more.

mod steps;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use steps::Step;

/// Runs are so short, in milliseconds of virtual time, because faults come within a
/// second, and another seed finds more than another second.
const QUICK_MS: &str = "500";
const LONG_MS: &str = "600";
/// More than 10,000 runs.
const LONG_SEEDS: &str = "21";

/// What a court consists of, as commands name it.
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
/// Release builds have no bugs to plant.
const LONG: &[(&str, Part)] = &[
    ("simulator", Part::Simulator),
    ("processes", Part::Processes),
    ("clusters", Part::Clusters),
];

/// Which of these parts the first words ask for, or else all, and what comes behind them.
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

/// One seed of a sample of the scenarios, the planted bugs, and a round of every fault
/// on a process.
pub fn quick(root: &Path, more: &[&str]) -> ExitCode {
    let (parts, more) = parts(QUICK, more);
    // With bugs to plant, and none planted but where that is asked for. All in one
    // build, so that features are those of the workspace's tests and little is built
    // twice; the programs are then run as they are.
    let build = [
        "build",
        "--quiet",
        "-p",
        "coeval-sim",
        "-p",
        "coeval-workload",
        "-p",
        "coeval-server",
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

/// Many seeds of every scenario, as fast as the compiler makes them, then many rounds of
/// every fault on a process, and on the leader, a follower and all of three.
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
        Part::Processes => in_steps(root, &steps, &build, &Step::alone()),
        Part::Clusters => in_steps(root, &steps, &build, &Step::of_clusters()),
        Part::Simulator | Part::Planted => run(root, &cargo(), &court),
    }))
}

/// Those steps of the dock that this build has not passed, each noted when it has a verdict.
fn in_steps(root: &Path, file: &Path, build: &str, all: &[Step]) -> Option<bool> {
    let record = readable(steps::read(file))?;
    // Built and run apart, so that what ends is the dock, and its code a verdict on servers.
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

/// Where the workspace's debug programs are: beside this one.
fn programs() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    Some(this.parent()?.to_owned())
}

fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// What programs are built from. What is measured and written about them stands elsewhere,
/// so a record that is written or committed leaves the build what it is.
const SOURCES: &[&str] = &[
    "crates",
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    ".cargo",
];

/// The last commit that changed the sources; behind a `+` a digest of what differs from
/// it, so that two changed trees are not taken for one.
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

/// How programs end that have found something.
const FOUND: i32 = 1;

/// Whether a program was content; `None` when it comes to no verdict: it does not start, a
/// signal ends it, or it says so by any code but these two.
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

/// Of all parts, each done when it is asked for; one without a verdict is the last.
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
