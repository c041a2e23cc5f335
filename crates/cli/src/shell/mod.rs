//! `coeval sql`: an SQL client for a terminal, a flag or a pipe, for machines without
//! psql.
//!
//! It sends simple queries. In a script, and interactively, the data of a COPY FROM STDIN
//! follows the statement, as `coeval dump` writes it.

mod copying;
mod table;

use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use rustyline::error::ReadlineError;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::client::{DEFAULT_URL, connect, explain, shown};
use crate::script::{Piece, Splitter, wants_data};
use copying::Copying;
pub(crate) use table::Table;

const HELP: &str = "\
A statement ends with a semicolon, and may take several lines.
  \\d         tables
  \\d NAME    the columns and indexes of a table
  \\?         this help
  \\q         end (or Ctrl-D)";

const TABLES: &str = "select c.relname as \"table\" from pg_catalog.pg_class c \
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
    where c.relkind = 'r' and n.nspname = 'public' order by 1";

/// Runs the given commands, or those from standard input.
pub(crate) fn run(url: Option<&str>, commands: Vec<String>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(converse(url.unwrap_or(DEFAULT_URL), commands)),
        Err(error) => Err(error.to_string()),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "coeval sql: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether all statements succeeded; an error when the connection failed.
async fn converse(url: &str, commands: Vec<String>) -> Result<bool, String> {
    let client = connect(url, "coeval sql").await?;
    if !commands.is_empty() {
        let mut good = true;
        for command in commands {
            good &= execute(&client, &command).await;
        }
        return Ok(good);
    }
    if std::io::stdin().is_terminal() {
        return interact(&client, url).await;
    }
    let mut shell = Shell::new(&client);
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    loop {
        line.clear();
        let read = input.read_line(&mut line);
        if read.map_err(|error| format!("standard input: {error}"))? == 0 {
            break;
        }
        // A carriage return may be data of a COPY.
        let line = line.strip_suffix('\n').unwrap_or(&line);
        if shell.line(line).await.is_break() {
            return Ok(shell.good);
        }
    }
    shell.finish().await;
    Ok(shell.good)
}

/// Joins lines into statements and commands, and runs them, interactively or from a
/// script.
struct Shell<'client> {
    client: &'client Client,
    lines: Splitter,
    /// The COPY whose data the shell is reading.
    copying: Option<Copying>,
    /// Statements and commands that have not run yet.
    waiting: VecDeque<Piece>,
    /// Whether all statements have succeeded so far.
    good: bool,
}

impl<'client> Shell<'client> {
    fn new(client: &'client Client) -> Self {
        Self {
            client,
            lines: Splitter::default(),
            copying: None,
            waiting: VecDeque::new(),
            good: true,
        }
    }

    /// The prompt for the next line.
    fn prompt(&self) -> &'static str {
        if self.copying.is_some() {
            ">> "
        } else if self.lines.is_empty() {
            "=> "
        } else {
            "-> "
        }
    }

    /// Handles one line; breaks at `\q`.
    async fn line(&mut self, line: &str) -> ControlFlow<()> {
        if let Some(copying) = &mut self.copying {
            self.lines.skip_line();
            if let Some(copied) = copying.line(line).await {
                self.copying = None;
                self.copied(copied);
                return self.run().await;
            }
            return ControlFlow::Continue(());
        }
        self.waiting.extend(self.lines.push(line));
        self.run().await
    }

    /// Runs the waiting statements, up to a COPY that needs its data first; breaks at
    /// `\q`.
    async fn run(&mut self) -> ControlFlow<()> {
        while self.copying.is_none()
            && let Some(piece) = self.waiting.pop_front()
        {
            match piece {
                Piece::Statement { text, .. } => self.statement(&text).await,
                Piece::Command { text, .. } => self.command(&text).await?,
            }
        }
        ControlFlow::Continue(())
    }

    async fn statement(&mut self, statement: &str) {
        if wants_data(statement) {
            let (copying, begun) = Copying::begin(self.client, statement).await;
            self.copying = Some(copying);
            if begun.is_err() {
                self.copied(begun.map(|()| None));
            }
        } else {
            self.good &= execute(self.client, statement).await;
        }
    }

    /// Runs a command of the shell; breaks at `\q`.
    async fn command(&mut self, command: &str) -> ControlFlow<()> {
        match command.split_whitespace().collect::<Vec<_>>()[..] {
            ["q"] => return ControlFlow::Break(()),
            ["d"] => self.good &= execute(self.client, TABLES).await,
            ["d", name] => self.good &= describe(self.client, name).await,
            ["?"] => println!("{HELP}"),
            // pg_dump writes these commands to keep psql from running commands in the
            // data. This shell has no commands that could do harm.
            ["restrict" | "unrestrict", _] => {}
            _ => {
                println!("There is no \\{command}.\n{HELP}");
                self.good = false;
            }
        }
        ControlFlow::Continue(())
    }

    /// Reports the result of a COPY; the error of a refused one was reported before.
    fn copied(&mut self, copied: Result<Option<u64>, tokio_postgres::Error>) {
        match copied {
            Ok(Some(rows)) => {
                let _ = writeln!(std::io::stdout(), "done ({rows} rows)");
            }
            Ok(None) => {}
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "{}", explain(&error));
                self.good = false;
            }
        }
    }

    /// Runs the last statement, which lacks its semicolon. A COPY without the end of its
    /// data is aborted.
    async fn finish(&mut self) {
        if self.copying.take().is_some() {
            let _ = writeln!(std::io::stderr(), "the input ended before the data did");
            self.good = false;
        }
        if let Some(Piece::Statement { text, .. }) = self.lines.finish() {
            self.good &= execute(self.client, &text).await;
        }
    }
}

async fn interact(client: &Client, url: &str) -> Result<bool, String> {
    let url = shown(url);
    println!("Connected to {url}. \\? helps, \\q ends.");
    let mut editor = rustyline::DefaultEditor::new().map_err(|error| error.to_string())?;
    let mut shell = Shell::new(client);
    loop {
        let line = match editor.readline(shell.prompt()) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                shell.lines = Splitter::default();
                shell.copying = None;
                shell.waiting.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(true),
            Err(error) => return Err(error.to_string()),
        };
        let _ = editor.add_history_entry(&line);
        if shell.line(&line).await.is_break() {
            return Ok(true);
        }
    }
}

/// Runs `\d NAME`.
async fn describe(client: &Client, name: &str) -> bool {
    let name = name.replace('\'', "''");
    let columns = format!(
        "select a.attname as \"column\", pg_catalog.format_type(a.atttypid, a.atttypmod) as \"type\", \
         a.attnotnull as \"not null\" from pg_catalog.pg_attribute a \
         where a.attrelid = '{name}'::pg_catalog.regclass and a.attnum > 0 \
         and not a.attisdropped order by a.attnum"
    );
    let described = execute(client, &columns).await;
    if described {
        let indexes = format!(
            "select pg_catalog.pg_get_indexdef(i.indexrelid) as \"index\" \
             from pg_catalog.pg_index i where i.indrelid = '{name}'::pg_catalog.regclass order by 1"
        );
        return execute(client, &indexes).await;
    }
    described
}

/// Runs one statement and prints its result; returns whether it succeeded.
async fn execute(client: &Client, statement: &str) -> bool {
    let messages = match client.simple_query(statement).await {
        Ok(messages) => messages,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{}", explain(&error));
            return false;
        }
    };
    let mut out = std::io::stdout().lock();
    let mut table: Option<Table> = None;
    for message in messages {
        let shown = match message {
            SimpleQueryMessage::RowDescription(columns) => {
                let names = columns.iter().map(|column| column.name().to_owned());
                table = Some(Table::new(names));
                Ok(())
            }
            SimpleQueryMessage::Row(row) => {
                let table = table.get_or_insert_with(|| {
                    Table::new(row.columns().iter().map(|column| column.name().to_owned()))
                });
                let values = (0..row.len()).map(|column| row.get(column).map(str::to_owned));
                table.push(values.collect());
                Ok(())
            }
            SimpleQueryMessage::CommandComplete(rows) => match table.take() {
                Some(table) => write!(out, "{table}"),
                None => writeln!(out, "done ({rows} rows)"),
            },
            _ => Ok(()),
        };
        if shown.is_err() {
            // The reader of the output has closed its pipe.
            return true;
        }
    }
    true
}
