//! `coeval-probe`: how stale are the answers of a database, and when?
//!
//! The probe runs a hotspot workload against a database of any make, in an open loop at a
//! chosen rate: few keys, most operations on fewer of them, most of those reads. It records
//! when each operation started and finished on one monotonic clock, and what it returned.
//! The register judge of `coeval-check` gives each value a score, Γ: by how much the
//! operations would have to be longer for all answers to be those of one copy.
//!
//! ```text
//!  schedule ──▶ operation ──▶ store: PostgreSQL's protocol, Redis, Cassandra
//!     │ slip        │ start, finish, answer
//!     ▼             ▼
//!  void run?     record ──▶ history file
//!                   └─────▶ judge ──▶ table, summary, picture
//! ```
//!
//! It says what it will write, where and how fast, before it does ([`plan`]), writes only
//! what it has created itself, and removes that at the end ([`store`]). A run whose own
//! schedule slipped is void ([`schedule`]): then the machine of the probe was too slow, and
//! what it saw may be its own.

mod hotspot;
mod latency;
mod options;
mod plan;
mod record;
mod report;
mod run;
mod schedule;
mod store;

use std::process::ExitCode;

/// Exit code: the run cannot be made or judged.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os()) {
        Ok(options) => options,
        Err(error) => error.exit(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run::run(&options)),
        Err(error) => Err(format!("cannot start: {error}")),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            eprintln!("coeval-probe: {problem}");
            ExitCode::from(UNUSABLE)
        }
    }
}
