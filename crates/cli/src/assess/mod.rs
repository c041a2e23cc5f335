//! `coeval assess`: lists the statements of a script that would not run here, and why.
//!
//! The script is usually a dump, of `pg_dump` or `pg_dumpall`, in plain text. The command
//! reads it as psql does ([`crate::script`]), and runs it on the server's sessions, over
//! an engine in memory that begins empty and is dropped at the end ([`judge`]). It
//! touches no data directory and contacts no server.
//!
//! ```text
//! $ coeval assess bank.sql
//! bank.sql:61: 0A000: CREATE TYPE is not supported
//!     CREATE TYPE public.mood AS ENUM ( 'sad', 'ok', 'happy' );
//! bank.sql:1204: 42P01: relation "public.rich" does not exist; follows from line 61
//!     GRANT SELECT ON TABLE public.rich TO clerk;
//!
//! 38 statements, 2 would not run here, 1 of them only because of others
//! 1130 rows of data, 0 would be refused
//!       1  CREATE TYPE, first on line 61
//! ```
//!
//! A statement finds the objects that earlier ones define. The command checks each row of
//! data, in batches ([`data`]). The report marks a failure that follows from an earlier
//! one ([`causes`]).
//!
//! | exit code | means |
//! | --- | --- |
//! | 0 | everything would run here |
//! | 1 | a statement or row would fail, or cannot be judged; the report lists all of them |
//! | 2 | the arguments are invalid, or a file could not be read |

mod causes;
mod data;
mod judge;
mod report;
mod source;

use std::collections::VecDeque;
use std::io::{self, BufWriter, Stdout, Write};
use std::process::ExitCode;
use std::sync::Arc;

use coeval_occ::{Engine, Settings};
use coeval_server::memory_budget;
use coeval_sql::instance::Limits;
use coeval_sql::{Database, Error, SqlState};

use crate::progress::{ProgressBar, Unit};
use crate::script::{Piece, Splitter, wants_data};
use causes::Causes;
use data::Data;
use judge::{Judge, Ran};
pub(crate) use report::Form;
use report::{Report, ScriptLocation};
use source::Source;

/// Exit code: a file could not be read.
const UNREADABLE: u8 = 2;

/// Why an assessment ends early.
#[derive(Debug)]
enum Failure {
    /// An error to print.
    Said(String),
    /// The reader of the report has closed its pipe.
    Unheard,
}

impl From<String> for Failure {
    fn from(said: String) -> Self {
        Self::Said(said)
    }
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Self {
        Self::Unheard
    }
}

/// Assesses these files as one script, in order.
pub(crate) fn run(files: Vec<String>, form: Form, keep_rows: bool) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        // The parser is recursive.
        .thread_stack_size(8 << 20)
        .enable_all()
        .build();
    let assessed = match runtime {
        Ok(runtime) => runtime.block_on(async {
            let assessing = coeval_env::spawn("assess", assess(files, form, keep_rows));
            assessing.await.unwrap_or_else(|error| {
                Err(Failure::Said(format!(
                    "a statement ended the assessment: {error}"
                )))
            })
        }),
        Err(error) => Err(Failure::Said(error.to_string())),
    };
    match assessed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure::Unheard) => ExitCode::from(UNREADABLE),
        Err(Failure::Said(error)) => {
            let _ = writeln!(io::stderr(), "coeval assess: {error}");
            ExitCode::from(UNREADABLE)
        }
    }
}

async fn assess(files: Vec<String>, form: Form, keep_rows: bool) -> Result<bool, Failure> {
    let mut sources = Vec::new();
    for file in &files {
        sources.push(Source::open(file).await?);
    }
    let settings = Settings {
        budget: memory_budget(&coeval_server::Settings::default()).await,
        ..Settings::default()
    };
    let engine = Engine::ephemeral(settings).map_err(|error| error.to_string())?;
    let database = Database::open(Arc::new(engine))
        .await
        .map_err(|error| error.to_string())?;
    let judge = Judge::new(database, keep_rows).map_err(|error| error.to_string())?;
    let report = Report::new(BufWriter::new(io::stdout()), form)?;
    let mut assessment = Assessment {
        judge,
        causes: Causes::default(),
        report,
        splitter: Splitter::default(),
        waiting: VecDeque::new(),
        following: None,
        malformed: false,
        file: String::new(),
        line: 0,
    };
    let of = sources.iter().map(Source::length).sum::<Option<u64>>();
    let mut before = 0;
    let mut progress = ProgressBar::new("assessing", Unit::Bytes);
    for mut source in sources {
        assessment.begin(source.name());
        while let Some(line) = source.line().await? {
            if assessment.line(line).await?.is_break() {
                break;
            }
            let done = before + source.taken();
            progress.at(done, of.unwrap_or(done));
        }
        before += source.taken();
        assessment.end().await?;
    }
    drop(progress);
    Ok(assessment.report.finish()?)
}

/// Returns an error that is about the script; an error of this machine, such as exhausted
/// memory, ends the assessment.
fn answerable(error: Error) -> Result<Error, Failure> {
    let class = &error.state().0[..2];
    if error.state() == SqlState::OUT_OF_MEMORY || class == "58" {
        return Err(Failure::Said(format!(
            "{error}; what comes behind was not looked at"
        )));
    }
    Ok(error)
}

/// The lines that follow the last statement.
#[derive(Debug)]
enum Following {
    /// Data of a COPY, to be checked.
    Data(Data, u64),
    /// Data of a COPY that would not run, to be skipped.
    PassedOver,
}

/// One pass through the files.
struct Assessment {
    judge: Judge,
    causes: Causes,
    report: Report<BufWriter<Stdout>>,
    splitter: Splitter,
    /// Statements after a COPY on its line, which run after its data.
    waiting: VecDeque<Piece>,
    following: Option<Following>,
    /// Whether the current statement contains bytes that are not UTF-8.
    malformed: bool,
    file: String,
    /// Number of lines read from the file.
    line: u64,
}

impl Assessment {
    /// Begins the next file.
    fn begin(&mut self, file: &str) {
        self.splitter = Splitter::with_most(Limits::default().statement_bytes);
        file.clone_into(&mut self.file);
        self.line = 0;
    }

    /// Handles one line of the file; breaks at `\q`.
    async fn line(&mut self, bytes: &[u8]) -> Result<std::ops::ControlFlow<()>, Failure> {
        self.line += 1;
        if let Some(following) = &mut self.following {
            self.splitter.skip_line();
            let trimmed = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            if trimmed == b"\\." {
                self.end_data().await?;
                return self.go_on().await;
            }
            match following {
                Following::PassedOver => self.report.counts().lines_passed_over += 1,
                Following::Data(data, _) => {
                    if data.push(bytes, self.line) {
                        data.judge(&mut self.judge, &self.file, &mut self.report)
                            .await?;
                    }
                }
            }
            return Ok(std::ops::ControlFlow::Continue(()));
        }
        let line = String::from_utf8_lossy(bytes);
        self.malformed |= matches!(line, std::borrow::Cow::Owned(_));
        self.waiting.extend(self.splitter.push(&line));
        self.go_on().await
    }

    /// Handles the end of the file. An open statement ends there, as in psql.
    async fn end(&mut self) -> Result<(), Failure> {
        if let Some(Following::Data(_, line)) = self.following {
            self.end_data().await?;
            let why = "the file ends inside the data of this COPY: is it whole?";
            self.not_judged("COPY", line, why)?;
        }
        self.following = None;
        self.waiting.extend(self.splitter.finish());
        let _ = self.go_on().await?;
        Ok(())
    }

    async fn end_data(&mut self) -> Result<(), Failure> {
        if let Some(Following::Data(mut data, _)) = self.following.take() {
            data.judge(&mut self.judge, &self.file, &mut self.report)
                .await?;
        }
        Ok(())
    }

    /// Runs the waiting statements, up to a COPY whose data comes first; breaks at `\q`.
    async fn go_on(&mut self) -> Result<std::ops::ControlFlow<()>, Failure> {
        while self.following.is_none()
            && let Some(piece) = self.waiting.pop_front()
        {
            match piece {
                Piece::Statement { text, line } => self.statement(&text, line).await?,
                Piece::Command { text, line } => {
                    if self.command(&text, line).await? {
                        return Ok(std::ops::ControlFlow::Break(()));
                    }
                }
            }
        }
        Ok(std::ops::ControlFlow::Continue(()))
    }

    async fn statement(&mut self, text: &str, line: u64) -> Result<(), Failure> {
        self.report.counts().statements += 1;
        let judged = if std::mem::take(&mut self.malformed) {
            let message = "invalid byte sequence for encoding \"UTF8\"";
            Err(Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message))
        } else {
            self.judge.statement(text).await
        };
        match judged {
            Ok(Ran::Done) => self.causes.ran(text),
            Ok(Ran::WantsData) => {
                self.following = Some(Following::Data(Data::new(text), line));
            }
            Err(error) => {
                let error = answerable(error)?;
                let cause = self.causes.failed(text, line, &error);
                let place = ScriptLocation {
                    file: &self.file,
                    line,
                    statement: text,
                };
                self.report.fails(place, &error, cause)?;
                if wants_data(text) {
                    self.following = Some(Following::PassedOver);
                }
            }
        }
        Ok(())
    }

    /// Handles a psql command; returns whether the script ends with it.
    async fn command(&mut self, text: &str, line: u64) -> Result<bool, Failure> {
        let mut words = text.split_whitespace();
        match words.next().unwrap_or_default() {
            "q" | "quit" => return Ok(true),
            "c" | "connect" => {
                let connected = self.judge.reconnect();
                connected.map_err(|error| Failure::Said(error.to_string()))?;
            }
            "encoding" => {
                let encoding = words.next().unwrap_or("UTF8").replace('\'', "");
                let text = format!("SET client_encoding = '{encoding}'");
                self.statement(&text, line).await?;
            }
            // These commands affect psql only.
            "" | "." | "restrict" | "unrestrict" | "echo" | "qecho" | "warn" | "set" | "unset"
            | "pset" | "timing" | "o" | "out" | "a" | "t" | "x" | "H" | "f" | "C" | "T" | "r"
            | "reset" | "p" | "print" | "prompt" | "cd" | "setenv" | "errverbose" | "conninfo"
            | "s" | "g" | "gx" => {}
            _ => {
                let why = "a command to psql whose effect only psql knows";
                self.not_judged(&format!("\\{text}"), line, why)?;
            }
        }
        Ok(false)
    }

    fn not_judged(&mut self, statement: &str, line: u64, why: &str) -> Result<(), Failure> {
        let place = ScriptLocation {
            file: &self.file,
            line,
            statement,
        };
        Ok(self.report.not_judged(place, why)?)
    }
}
