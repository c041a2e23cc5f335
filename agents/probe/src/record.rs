//! The recorder: a thread that takes finished operations, judges them and writes them down.
//!
//! It keeps what the judge keeps, a few numbers for each value, and the history goes to its
//! file line by line. So a run may be as long as it likes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use coeval_check::gamma::Judge;
use coeval_check::history::{Operation, Outcome, Register, Transaction, lines};

use crate::latency::Histogram;

/// An operation that has ended, with times in nanoseconds of the run's clock.
#[derive(Clone, Debug)]
pub struct Done {
    /// Which of the operations under way it was.
    pub slot: u64,
    /// The key.
    pub key: u64,
    /// What was asked.
    pub kind: Kind,
    /// When it was sent.
    pub started: u64,
    /// When its answer came; `None` if none did, or an error.
    pub finished: Option<u64>,
}

/// What an operation did, as far as the client knows.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A write of this value.
    Write(i64),
    /// A read with this answer: `None` for a key that is not there.
    Read(Option<i64>),
}

/// What was recorded.
pub struct Recorded {
    /// The judge that has seen all operations.
    pub judge: Judge,
    /// Latencies of answered reads.
    pub reads: Histogram,
    /// Latencies of answered writes.
    pub writes: Histogram,
    /// Number of operations without an answer.
    pub failed: u64,
}

/// The thread, and the way to it.
pub struct Recorder {
    to: Sender<Done>,
    thread: JoinHandle<Result<Recorded, String>>,
}

impl Recorder {
    /// Starts the thread; the history is written to a new file of this name.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn start(history: Option<&str>) -> Result<Self, String> {
        let file = match history {
            None => None,
            Some(name) => {
                let file = File::create(name);
                let file = file.map_err(|error| format!("cannot write {name}: {error}"))?;
                Some((name.to_owned(), BufWriter::new(file)))
            }
        };
        let (to, from) = channel();
        let thread = std::thread::spawn(move || record(&from, file));
        Ok(Self { to, thread })
    }

    /// A way to the thread, for the operations.
    pub fn sender(&self) -> Sender<Done> {
        self.to.clone()
    }

    /// Waits for all senders to be gone, and returns what was recorded.
    ///
    /// # Errors
    /// When the history could not be written, or cannot be judged.
    pub fn finish(self) -> Result<Recorded, String> {
        drop(self.to);
        self.thread
            .join()
            .map_err(|_| "the recorder panicked".to_owned())?
    }
}

fn record(
    from: &Receiver<Done>,
    mut file: Option<(String, BufWriter<File>)>,
) -> Result<Recorded, String> {
    let mut recorded = Recorded {
        judge: Judge::default(),
        reads: Histogram::default(),
        writes: Histogram::default(),
        failed: 0,
    };
    let failed = |name: &str, error: io::Error| format!("cannot write {name}: {error}");
    while let Ok(done) = from.recv() {
        match (done.finished, done.kind) {
            (None, _) => recorded.failed += 1,
            (Some(finished), Kind::Read(_)) => recorded.reads.add(finished - done.started),
            (Some(finished), Kind::Write(_)) => recorded.writes.add(finished - done.started),
        }
        let transaction = transaction(&done);
        recorded
            .judge
            .take(&transaction)
            .map_err(|error| error.to_string())?;
        if let Some((name, file)) = &mut file {
            lines::write_transaction(&transaction, file).map_err(|error| failed(name, error))?;
        }
    }
    if let Some((name, file)) = &mut file {
        file.flush().map_err(|error| failed(name, error))?;
    }
    Ok(recorded)
}

/// A transaction of one operation. Whether a failed write has taken effect, or will, is not
/// known of any store.
fn transaction(done: &Done) -> Transaction {
    let key = done.key;
    let operation = match done.kind {
        Kind::Write(value) => Operation::Write { key, value },
        Kind::Read(value) => Operation::Read {
            key,
            value: done
                .finished
                .map(|_| value.map_or(Register::Absent, Register::Value)),
        },
    };
    let outcome = match done.finished {
        Some(_) => Outcome::Committed,
        None => Outcome::Unknown,
    };
    Transaction {
        process: done.slot,
        started: done.started,
        finished: done.finished,
        outcome,
        read_only: matches!(done.kind, Kind::Read(_)),
        operations: vec![operation],
    }
}
