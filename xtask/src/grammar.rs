//! The grammar's oracle: `cargo xtask grammar`.
//!
//! Every statement of PostgreSQL 15's regression files goes through our parser, is printed
//! back with brackets around every operand, and PostgreSQL's own grammar (libpg_query, by
//! way of the Python package `pglast`) reads both texts. It has to find one tree.
//!
//! `pglast` is installed into a virtual environment under `target/`. The files come from
//! `--files DIRECTORY`, or PostgreSQL's source is downloaded. Without network and without
//! them there is nothing to compare with, and the command says so and ends well.

mod split;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use coeval_sql_syntax::tree::StatementKind;
use coeval_sql_syntax::{Limits, parse, print};
use serde_json::{Value, json};

/// The package, at the last version with PostgreSQL 15's grammar.
const PACKAGE: &str = "pglast==5.10";
const COMPARE: &str = include_str!("grammar/compare.py");

/// What became of the statements of a file.
#[derive(Clone, Copy, Default)]
struct Counts {
    equal: usize,
    differ: usize,
    unsupported: usize,
    only_theirs: usize,
    only_ours: usize,
    neither: usize,
    same_error: usize,
    not_fixed: usize,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.equal += other.equal;
        self.differ += other.differ;
        self.unsupported += other.unsupported;
        self.only_theirs += other.only_theirs;
        self.only_ours += other.only_ours;
        self.neither += other.neither;
        self.same_error += other.same_error;
        self.not_fixed += other.not_fixed;
    }

    fn row(&self, name: &str) -> String {
        format!(
            "{name:32} {:6} {:6} {:6} {:6} {:6} {:6} {:6} {:6}",
            self.equal,
            self.differ,
            self.only_theirs,
            self.only_ours,
            self.unsupported,
            self.neither,
            self.same_error,
            self.not_fixed
        )
    }
}

/// Compares, and lists what is not equal if `list` says so.
pub fn run(root: &Path, files: Option<&str>, list: bool) -> ExitCode {
    let work = root.join("target/grammar");
    match compare(&work, files, list) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Trouble::Skipped(reason)) => {
            println!("skipped: {reason}");
            ExitCode::SUCCESS
        }
        Err(Trouble::Failed(reason)) => {
            eprintln!("{reason}");
            ExitCode::from(2)
        }
    }
}

enum Trouble {
    /// There is nothing to compare with.
    Skipped(String),
    Failed(String),
}

fn failed(what: &str, error: impl std::fmt::Display) -> Trouble {
    Trouble::Failed(format!("{what}: {error}"))
}

fn compare(work: &Path, files: Option<&str>, list: bool) -> Result<bool, Trouble> {
    fs::create_dir_all(work).map_err(|error| failed("cannot make the work directory", error))?;
    let python = environment(work)?;
    let script = work.join("compare.py");
    fs::write(&script, COMPARE).map_err(|error| failed("cannot write the script", error))?;
    let folder = match files {
        Some(folder) => PathBuf::from(folder),
        None => download(&python, &script, work)?,
    };
    let asked = questions(&folder)?;
    let input = work.join("statements.jsonl");
    let output = work.join("verdicts.jsonl");
    fs::write(&input, asked).map_err(|error| failed("cannot write the statements", error))?;
    let status = Command::new(&python)
        .arg(&script)
        .arg("compare")
        .arg(&input)
        .arg(&output)
        .status()
        .map_err(|error| failed("cannot start python", error))?;
    if !status.success() {
        return Err(Trouble::Failed("the comparison ended early".into()));
    }
    let verdicts =
        fs::read_to_string(&output).map_err(|error| failed("cannot read the verdicts", error))?;
    Ok(report(&verdicts, list))
}

/// A Python with the package.
fn environment(work: &Path) -> Result<PathBuf, Trouble> {
    let venv = work.join("venv");
    let python = venv.join("bin/python");
    let has_package = || {
        let import = Command::new(&python).args(["-c", "import pglast"]).output();
        import.is_ok_and(|output| output.status.success())
    };
    if has_package() {
        return Ok(python);
    }
    let made = Command::new("python3")
        .args(["-m", "venv"])
        .arg(&venv)
        .output();
    if !made.is_ok_and(|output| output.status.success()) {
        return Err(Trouble::Skipped(
            "python3 -m venv does not work here".into(),
        ));
    }
    let installed = Command::new(&python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            PACKAGE,
        ])
        .output()
        .map_err(|error| failed("cannot start pip", error))?;
    if !installed.status.success() || !has_package() {
        let reason = String::from_utf8_lossy(&installed.stderr);
        let reason = reason.lines().last().unwrap_or("no reason given");
        return Err(Trouble::Skipped(format!(
            "pip cannot install {PACKAGE}: {reason}"
        )));
    }
    Ok(python)
}

fn download(python: &Path, script: &Path, work: &Path) -> Result<PathBuf, Trouble> {
    let folder = work.join("regress");
    if folder.is_dir() {
        return Ok(folder);
    }
    let output = Command::new(python)
        .arg(script)
        .arg("download")
        .arg(&folder)
        .output()
        .map_err(|error| failed("cannot start python", error))?;
    if output.status.success() {
        return Ok(folder);
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    let reason = reason.lines().last().unwrap_or("no reason given");
    Err(Trouble::Skipped(format!(
        "PostgreSQL's regression files cannot be downloaded ({reason}); name a directory of them with --files"
    )))
}

/// One line for each statement: what it is, and what we make of it.
fn questions(folder: &Path) -> Result<String, Trouble> {
    let entries = fs::read_dir(folder).map_err(|error| failed("cannot list the files", error))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    paths.sort();
    let mut lines = String::new();
    for path in paths {
        let bytes = fs::read(&path).map_err(|error| failed("cannot read a file", error))?;
        let text = String::from_utf8_lossy(&bytes);
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for (line, sql) in split::statements(&text) {
            lines.push_str(&question(&name, line, &sql).to_string());
            lines.push('\n');
        }
    }
    Ok(lines)
}

fn question(file: &str, line: usize, sql: &str) -> Value {
    let limits = Limits::default();
    let mut question = json!({ "file": file, "line": line, "sql": sql });
    match parse(sql, &limits) {
        Ok(statements) => {
            let printed: Vec<String> = statements.iter().map(print::statement).collect();
            let printed = printed.join(";\n");
            let again = parse(&printed, &limits).map(|again| {
                let again: Vec<String> = again.iter().map(print::statement).collect();
                again.join(";\n")
            });
            question["fixed"] = json!(again.as_ref() == Ok(&printed));
            let unsupported = statements
                .iter()
                .find_map(|statement| match &statement.kind {
                    StatementKind::Unsupported(unsupported) => Some(unsupported.command),
                    _ => None,
                });
            question["unsupported"] = json!(unsupported);
            question["printed"] = json!(printed);
        }
        Err(error) => {
            question["error"] = json!(error.message);
            question["position"] = json!(error.character(sql));
        }
    }
    question
}

/// Prints the counts, and whether nothing differs.
fn report(verdicts: &str, list: bool) -> bool {
    let mut files: BTreeMap<String, Counts> = BTreeMap::new();
    let mut commands: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = Counts::default();
    for line in verdicts.lines() {
        let Ok(verdict) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let text = |key: &str| verdict[key].as_str().unwrap_or_default().to_owned();
        let mut counts = Counts::default();
        match text("verdict").as_str() {
            "equal" => counts.equal = 1,
            "differ" => counts.differ = 1,
            "unsupported" => {
                counts.unsupported = 1;
                *commands.entry(text("unsupported")).or_default() += 1;
            }
            "only theirs" => counts.only_theirs = 1,
            "only ours" => counts.only_ours = 1,
            _ => {
                counts.neither = 1;
                counts.same_error = usize::from(verdict["same_error"] == json!(true));
            }
        }
        counts.not_fixed = usize::from(verdict["fixed"] == json!(false));
        files.entry(text("file")).or_default().add(counts);
        total.add(counts);
        let told = counts.equal + counts.unsupported == 0
            && (counts.neither == 0 || counts.same_error == 0);
        if list && (told || counts.not_fixed > 0) {
            println!(
                "-- {}:{} {} {}",
                text("file"),
                verdict["line"],
                text("verdict"),
                text("detail")
            );
            println!("{}\n", text("sql").trim());
        }
    }
    println!(
        "{:32} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}",
        "file", "equal", "differ", "theirs", "ours", "unmod.", "refuse", "alike", "unfix."
    );
    for (name, counts) in &files {
        println!("{}", counts.row(name));
    }
    println!("{}", total.row("all"));
    println!("\nrecognised and not modelled:");
    for (command, count) in &commands {
        println!("{count:6} {command}");
    }
    total.differ == 0 && total.not_fixed == 0
}
