//! The court: simulator and processes, for minutes or for hours.
//!
//! `cargo xtask court --quick` takes minutes. `--long` takes hours, may be interrupted, and goes on where it was: `target/court/` keeps which runs are done and
//! the table. What follows the first word goes to the simulator's `court` as it is, as
//! in `cargo xtask court --long --seeds 100`; `docs/internals/testing.md` says more.

use std::path::Path;
use std::process::{Command, ExitCode};

/// One seed of every scenario, the planted bugs, and a round of every fault on a process.
pub fn quick(root: &Path, more: &[&str]) -> ExitCode {
    // With bugs to plant, and none planted but where that is asked for: one build.
    let sim = [
        "run",
        "--quiet",
        "-p",
        "coeval-sim",
        "--features",
        "planted",
        "--",
    ];
    let (court, planted) = ([&sim[..], &["court"]], [&sim[..], &["planted"]]);
    let dock = [
        "run",
        "--quiet",
        "-p",
        "coeval-workload",
        "--bin",
        "dock",
        "--",
        "--quick",
        "--rounds",
        "1",
    ];
    let court = [&court.concat(), more].concat();
    all(root, &[&court, &planted.concat(), &dock])
}

/// Many seeds of every scenario, as fast as the compiler makes them, then many rounds of
/// every fault on a process.
pub fn long(root: &Path, more: &[&str]) -> ExitCode {
    let folder = root.join("target/court");
    if let Err(error) = std::fs::create_dir_all(&folder) {
        eprintln!("{}: {error}", folder.display());
        return ExitCode::from(2);
    }
    let (done, table) = (folder.join("done"), folder.join("table"));
    let (done, table) = (done.to_string_lossy(), table.to_string_lossy());
    let mut court = vec![
        "run",
        "--quiet",
        "--release",
        "-p",
        "coeval-sim",
        "--",
        "court",
    ];
    court.extend(["--done", &done, "--table", &table]);
    if !more.contains(&"--seeds") {
        court.extend(["--seeds", "40"]);
    }
    court.extend(more);
    let dock = [
        "run",
        "--quiet",
        "-p",
        "coeval-workload",
        "--bin",
        "dock",
        "--",
        "--rounds",
        "5",
    ];
    all(root, &[&court, &dock])
}

/// Runs cargo with each of these; whether all were content.
fn all(root: &Path, commands: &[&[&str]]) -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut content = true;
    for arguments in commands {
        println!("cargo {}", arguments.join(" "));
        match Command::new(&cargo)
            .args(*arguments)
            .current_dir(root)
            .status()
        {
            Ok(status) => content &= status.success(),
            Err(error) => {
                eprintln!("cargo does not start: {error}");
                return ExitCode::from(2);
            }
        }
    }
    if content {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
