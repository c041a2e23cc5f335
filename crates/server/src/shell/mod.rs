//! `coeval sql`: SQL from a terminal, a flag or a pipe, for machines without psql.
//!
//! It goes through the same protocol as everybody, by tokio-postgres' simple
//! queries, so it can talk to PostgreSQL too.

mod lines;
mod table;

use std::io::{IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use rustyline::error::ReadlineError;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use lines::Lines;
use table::Table;

const DEFAULT_URL: &str = "postgres://127.0.0.1:5433";

const HELP: &str = "\
A statement ends with a semicolon, and may take several lines.
  \\d         tables
  \\d NAME    the columns and indexes of a table
  \\?         this help
  \\q         end (or Ctrl-D)";

const TABLES: &str = "select c.relname as \"table\" from pg_catalog.pg_class c \
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
    where c.relkind = 'r' and n.nspname = 'public' order by 1";

/// Runs the commands, or what comes from standard input.
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

/// Whether all statements succeeded; an error when there was nobody to talk to.
async fn converse(url: &str, commands: Vec<String>) -> Result<bool, String> {
    let mut config: Config = url.parse().map_err(|error| format!("{url}: {error}"))?;
    if config.get_user().is_none() {
        let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
        config.user(user.unwrap_or_else(|| "coeval".to_owned()));
    }
    config.application_name("coeval sql");
    let connected = config.connect(NoTls).await;
    let (client, connection) = connected.map_err(|error| format!("{url}: {}", explain(&error)))?;
    // Notices come with the connection; it says them and goes on.
    coeval_env::spawn("connection", drive(connection));
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
    let mut script = String::new();
    let read = std::io::stdin().read_to_string(&mut script);
    read.map_err(|error| format!("standard input: {error}"))?;
    let mut shell = Shell::new(&client);
    for line in script.lines() {
        if shell.line(line).await.is_break() {
            return Ok(shell.good);
        }
    }
    shell.finish().await;
    Ok(shell.good)
}

/// Lines become statements and commands, whether somebody types them or not.
struct Shell<'client> {
    client: &'client Client,
    lines: Lines,
    /// Whether all statements have succeeded so far.
    good: bool,
}

impl<'client> Shell<'client> {
    fn new(client: &'client Client) -> Self {
        Self {
            client,
            lines: Lines::default(),
            good: true,
        }
    }

    /// Takes one line; breaks at `\q`.
    async fn line(&mut self, line: &str) -> ControlFlow<()> {
        if self.lines.is_empty()
            && let Some(command) = line.trim().strip_prefix('\\')
        {
            match command.split_whitespace().collect::<Vec<_>>()[..] {
                ["q"] => return ControlFlow::Break(()),
                ["d"] => self.good &= execute(self.client, TABLES).await,
                ["d", name] => self.good &= describe(self.client, name).await,
                ["?"] => println!("{HELP}"),
                _ => {
                    println!("There is no \\{command}.\n{HELP}");
                    self.good = false;
                }
            }
            return ControlFlow::Continue(());
        }
        for statement in self.lines.push(line) {
            self.good &= execute(self.client, &statement).await;
        }
        ControlFlow::Continue(())
    }

    /// Runs what is left, which lacks its semicolon.
    async fn finish(&mut self) {
        if let Some(statement) = std::mem::take(&mut self.lines).finish() {
            self.good &= execute(self.client, &statement).await;
        }
    }
}

async fn drive(
    mut connection: tokio_postgres::Connection<
        tokio_postgres::Socket,
        tokio_postgres::tls::NoTlsStream,
    >,
) {
    use tokio_postgres::AsyncMessage;
    loop {
        let message = std::future::poll_fn(|context| connection.poll_message(context)).await;
        match message {
            Some(Ok(AsyncMessage::Notice(notice))) => {
                let _ = writeln!(
                    std::io::stderr(),
                    "{}:  {}",
                    notice.severity(),
                    notice.message()
                );
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return,
        }
    }
}

async fn interact(client: &Client, url: &str) -> Result<bool, String> {
    println!("Connected to {url}. \\? helps, \\q ends.");
    let mut editor = rustyline::DefaultEditor::new().map_err(|error| error.to_string())?;
    let mut shell = Shell::new(client);
    loop {
        let prompt = if shell.lines.is_empty() { "=> " } else { "-> " };
        let line = match editor.readline(prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                shell.lines = Lines::default();
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

/// `\d NAME`.
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

/// Runs one statement and shows what it gives; says whether it succeeded.
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
            // Whoever read our output has seen enough.
            return true;
        }
    }
    true
}

fn explain(error: &tokio_postgres::Error) -> String {
    let Some(report) = error.as_db_error() else {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            text.push_str(&format!(": {inner}"));
            cause = inner.source();
        }
        return text;
    };
    let code = report.code().code();
    let mut text = format!("{}:  {} ({code})", report.severity(), report.message());
    for (name, part) in [("DETAIL", report.detail()), ("HINT", report.hint())] {
        if let Some(part) = part {
            text.push_str(&format!("\n{name}:  {part}"));
        }
    }
    text
}
