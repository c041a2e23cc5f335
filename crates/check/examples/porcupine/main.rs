//! Compares the register judge with porcupine, an independent linearizability checker, on
//! random histories of registers.
//!
//! ```text
//! cargo run --release -p coeval-check --example porcupine -- 20000
//! 20000 histories of 1 to 24 operations: 15198 linearizable, 4802 not; no disagreement
//! ```
//!
//! The second argument is the first seed. Needs Go; `go run` fetches the module. Exit
//! codes: 0 the checkers agree, 1 they do not (the history is printed), 2 porcupine could
//! not be run.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};

use coeval_check::history::{History, Operation, Outcome, Register, Transaction};
use coeval_check::registers;

/// A pseudorandom number generator that is determined by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Clients of one register, each executing one operation after another. A read returns the
/// value at some moment of the operation or, now and then, at one slightly outside of it.
fn history(seed: u64) -> History {
    let random = &mut Random(seed);
    let clients = 1 + random.below(5);
    let count = 1 + random.below(24);
    let moments = 20 + random.below(200);
    let slack = [0, 5, 20, 60][random.below(4) as usize];
    let mut free = vec![0; clients as usize];
    // (start, finish, the moment it takes effect, whether it writes, whether it is unknown)
    let mut plans = Vec::new();
    for _ in 0..count {
        let client = random.below(clients);
        let start = free[client as usize] + random.below(moments / 4);
        let finish = start + random.below(moments / 2);
        free[client as usize] = finish + 1;
        let early = start.saturating_sub(random.below(slack + 1));
        let late = finish + random.below(slack + 1);
        let moment = early + random.below(late - early + 1);
        let writes = random.below(3) == 0;
        let is_unknown = writes && random.below(8) == 0;
        plans.push((moment, client, start, finish, writes, is_unknown));
    }
    plans.sort_unstable();
    let mut holds = Register::Absent;
    let mut next = 0;
    let transactions = plans.into_iter().enumerate().map(
        |(index, (_, client, started, finish, writes, is_unknown))| {
            let operation = if writes {
                next += 1;
                // An unknown write may never happen.
                if !is_unknown || random.below(2) == 0 {
                    holds = Register::Value(next);
                }
                Operation::Write {
                    key: 0,
                    value: next,
                }
            } else {
                Operation::Read {
                    key: 0,
                    value: Some(holds),
                }
            };
            Transaction {
                // A client with an unknown outcome continues under another id.
                process: if is_unknown {
                    100 + index as u64
                } else {
                    client
                },
                started,
                finished: (!is_unknown).then_some(finish),
                outcome: if is_unknown {
                    Outcome::Unknown
                } else {
                    Outcome::Committed
                },
                read_only: !writes,
                operations: vec![operation],
            }
        },
    );
    History {
        transactions: transactions.collect(),
    }
}

/// Formats a history as porcupine's input.
fn line(history: &History) -> String {
    let mut line = String::from("[");
    for (index, transaction) in history.transactions.iter().enumerate() {
        let (write, value) = match &transaction.operations[0] {
            Operation::Write { value, .. } => (true, *value),
            Operation::Read {
                value: Some(Register::Value(value)),
                ..
            } => (false, *value),
            _ => (false, 0),
        };
        let _ = write!(
            line,
            "{}{{\"client\":{},\"write\":{write},\"value\":{value},\"call\":{},\"return\":{}}}",
            if index == 0 { "" } else { "," },
            transaction.process,
            transaction.started,
            transaction.finished.unwrap_or(1 << 60),
        );
    }
    line + "]"
}

/// Porcupine's verdict on each history.
fn ask(histories: &[History]) -> Result<Vec<bool>, String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/porcupine");
    let mut go = Command::new("go")
        .args(["run", "."])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| {
            format!("go cannot be run ({error}): install it from https://go.dev/dl")
        })?;
    let mut to = go.stdin.take().ok_or("no way to go")?;
    let from = go.stdout.take().ok_or("no way from go")?;
    // The program answers after it has read all input: neither process waits for the other.
    for history in histories {
        writeln!(to, "{}", line(history)).map_err(|error| format!("go has ended: {error}"))?;
    }
    drop(to);
    let answers: Vec<bool> = BufReader::new(from)
        .lines()
        .map_while(Result::ok)
        .map(|line| line == "true")
        .collect();
    let status = go.wait().map_err(|error| error.to_string())?;
    if !status.success() || answers.len() != histories.len() {
        return Err(format!(
            "porcupine answered {} of {} ({status})",
            answers.len(),
            histories.len()
        ));
    }
    Ok(answers)
}

fn main() -> ExitCode {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|argument| argument.parse::<u64>());
    let (Ok(count), Ok(first)) = (
        numbers.next().unwrap_or(Ok(10_000)),
        numbers.next().unwrap_or(Ok(1)),
    ) else {
        eprintln!("usage: porcupine [HISTORIES [FIRST SEED]]");
        return ExitCode::from(2);
    };
    let (mut linearizable, mut judged) = (0_u64, 0_u64);
    let mut seed = first;
    while judged < count {
        // Answers of a batch fit into a pipe.
        let batch = (count - judged).min(5_000);
        let histories: Vec<History> = (seed..seed + batch).map(history).collect();
        let answers = match ask(&histories) {
            Ok(answers) => answers,
            Err(problem) => {
                eprintln!("porcupine: {problem}");
                return ExitCode::from(2);
            }
        };
        for (history, theirs) in histories.iter().zip(answers) {
            let ours = match registers::judge(history) {
                Ok(report) => report.is_linearizable(),
                Err(error) => {
                    eprintln!("seed {seed}: {error}");
                    return ExitCode::from(2);
                }
            };
            if ours != theirs {
                println!("seed {seed}: linearizable for us {ours}, for porcupine {theirs}");
                println!("{}", line(history));
                return ExitCode::from(1);
            }
            linearizable += u64::from(ours);
            seed += 1;
        }
        judged += batch;
    }
    let not = judged - linearizable;
    println!(
        "{judged} histories of 1 to 24 operations: {linearizable} linearizable, {not} not; no disagreement"
    );
    ExitCode::SUCCESS
}
