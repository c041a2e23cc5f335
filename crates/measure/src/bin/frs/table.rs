//! Table 6.1: requests and entries.

use std::fmt::Write as _;

use coeval_consensus::Recovery as Method;
use coeval_measure::Output;
use coeval_measure::virtual_cluster::{cases, expected};

use super::Failure;

const METHODS: [(&str, Method); 3] = [
    ("FRS", Method::Marks),
    ("CHK", Method::Checking),
    ("TC", Method::Truncating),
];

/// Counts requests and entries, and compares them with the table.
pub fn measure(output: &mut Output) -> Result<(), Failure> {
    let mut csv = "case,method,last,commit,diverges,requests,entries,answers\n".to_owned();
    output.say("table 6.1  requests and entries of a recovery");
    output.say(&format!(
        "{:>50} {:>5} {:>5} {:>5} {:>12} {:>12} {:>12}",
        "case", "lst", "cmt", "div", "FRS", "CHK", "TC"
    ));
    let mut wrong = Vec::new();
    for case in cases() {
        let mut row = String::new();
        for (name, method) in METHODS {
            let recovery = case.count(method)?;
            let (requests, mut entries) = expected(method, &recovery);
            if method == Method::Marks {
                entries += case.repeated;
            }
            if (recovery.requests, recovery.entries) != (requests, entries) {
                wrong.push(format!("{name}, {case:?}"));
            }
            if row.is_empty() {
                // In the numbering of the text: entries count from 1, and points are
                // entries.
                let diverges = recovery.diverges.0 + 1;
                let _ = write!(
                    row,
                    "{:>50} {:>5} {:>5} {diverges:>5}",
                    case.name, recovery.last.0, recovery.commit.0
                );
            }
            let counts = format!("{} / {}", recovery.requests, recovery.entries);
            let _ = write!(row, " {counts:>12}");
            let _ = writeln!(
                csv,
                "\"{}\",{name},{},{},{},{},{},{}",
                case.name,
                recovery.last.0,
                recovery.commit.0,
                recovery.diverges.0 + 1,
                recovery.requests,
                recovery.entries,
                recovery.answers
            );
        }
        output.say(&row);
    }
    output.file("frs-table.csv", csv.as_bytes())?;
    if wrong.is_empty() {
        output.say(
            "all as the table says: FRS 1 / lst - div + 1, CHK lst - div + 2 / 2 (lst - div + 1), \
             TC 1 / lst - cmt;",
        );
        output.say("a shared mark that nothing follows is sent once more by FRS");
        return Ok(());
    }
    Err(format!("not as table 6.1 says: {}", wrong.join("; ")).into())
}
