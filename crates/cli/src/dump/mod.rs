//! `coeval dump`: a database as SQL that psql, and `coeval sql`, read back.
//!
//! ```text
//! CREATE TABLE public.account (
//!     id integer NOT NULL,
//!     owner character varying(20)
//! );
//!
//! COPY public.account (id, owner) FROM stdin;
//! 1       ada
//! \.
//!
//! ALTER TABLE ONLY public.account
//!     ADD CONSTRAINT account_pkey PRIMARY KEY (id);
//! ```
//!
//! The dump has the extensions, then all sequences and tables, then all rows, then where the
//! sequences are ([`sequences`]), then the constraints and indexes, which are cheaper to build
//! over existing rows, then views ([`views`]) and comments ([`comments`]), and last owners and
//! privileges ([`privileges`]).
//! With `--roles`, the roles precede all of it ([`roles`]), with their settings and those of the
//! database ([`settings`]).
//!
//! The command reads everything in one read-only transaction at REPEATABLE READ, schema
//! included: the dump shows the database at one moment, and blocks no other session.
//!
//! The last line is a comment that marks the dump as complete. A dump without it, or a
//! file still called `.partial`, is incomplete.

mod comments;
mod privileges;
mod roles;
mod schema;
mod sequences;
mod settings;
mod sink;
mod views;

use std::io::Write;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;

use futures_util::TryStreamExt;
use tokio_postgres::Client;

use crate::client::{self, explain, rows as ask};
use crate::progress::{ProgressBar, Unit};
use roles::Names;
use schema::{Table, text};
use sequences::Sequence;
use sink::Sink;
use views::View;

/// Settings of the dumping session that fix the format of values.
const BEGIN: &str = "\
    SET DateStyle = 'ISO'; \
    SET IntervalStyle = 'postgres'; \
    SET TimeZone = 'UTC'; \
    SET extra_float_digits = 1; \
    SET bytea_output = 'hex'; \
    SET statement_timeout = 0; \
    BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";

/// Settings at the beginning of the dump, which make it independent of the restoring
/// session's.
const PREAMBLE: &str = "\
SET statement_timeout = 0;
SET lock_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET DateStyle = 'ISO';
SET IntervalStyle = 'postgres';

";

const COMPLETE: &str = "-- The dump is complete.\n";

/// The optional parts of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Owners of tables and of the schema.
    pub(crate) owners: bool,
    /// Privileges on tables and on the schema.
    pub(crate) privileges: bool,
    /// The roles of the server.
    pub(crate) roles: bool,
}

/// Dumps the database at `url` to `output`, or to standard output.
pub(crate) fn run(url: &str, output: Option<&Path>, options: Options) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let dumped = match runtime {
        Ok(runtime) => runtime.block_on(dump(url, output, options)),
        Err(error) => Err(error.to_string()),
    };
    match dumped {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "coeval dump: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn dump(url: &str, output: Option<&Path>, options: Options) -> Result<(), String> {
    let client = client::connect(url, "coeval dump").await?;
    let begun = client.batch_execute(BEGIN).await;
    begun.map_err(|error| explain(&error))?;
    let version = ask(&client, "SELECT version()").await?;
    let version = version.first().map(|row| text(row, 0)).transpose()?;
    let extensions = schema::extensions(&client).await?;
    let sequences = sequences::read(&client).await?;
    let tables = schema::read(&client, &sequences).await?;
    let names = Names::read(&client).await?;
    let roles = match options.roles {
        true => roles::read(&client, &names).await?,
        false => Vec::new(),
    };
    let mut sink = match output {
        Some(path) => Sink::file(path).await?,
        None => Sink::standard(),
    };
    let head = format!(
        "-- A database as SQL, written by coeval {} from {}.\n\n{PREAMBLE}",
        env!("CARGO_PKG_VERSION"),
        one_line(version.unwrap_or("an unknown server"))
    );
    sink.write(head.as_bytes()).await?;
    // Defaults of columns call functions of extensions.
    for statement in roles.into_iter().chain(extensions) {
        sink.write(format!("{statement}\n\n").as_bytes()).await?;
    }
    let apart = || sequences.iter().filter(|sequence| !sequence.is_identity);
    for sequence in apart() {
        sink.write(format!("{}\n\n", sequence.create()).as_bytes())
            .await?;
        if options.owners
            && let Some(owner) =
                privileges::sequence_owner(&client, &names, &sequence.oid, &sequence.name).await?
        {
            sink.write(format!("{owner}\n\n").as_bytes()).await?;
        }
    }
    for Table {
        oid, name, create, ..
    } in &tables
    {
        sink.write(format!("{create}\n\n").as_bytes()).await?;
        if options.owners
            && let Some(owner) = privileges::table_owner(&client, &names, oid, name).await?
        {
            sink.write(format!("{owner}\n\n").as_bytes()).await?;
        }
    }
    for statement in apart().filter_map(Sequence::give) {
        sink.write(format!("{statement}\n\n").as_bytes()).await?;
    }
    let of = tables.iter().map(|table| table.rows).sum();
    let mut progress = ProgressBar::new("dumping", Unit::Of("rows"));
    let mut rows = 0;
    for table in &tables {
        copy(&client, table, &mut sink, |copied| {
            progress.at(rows + copied, of)
        })
        .await?;
        rows += table.rows;
    }
    for statement in sequences.iter().map(Sequence::set) {
        sink.write(format!("{statement}\n\n").as_bytes()).await?;
    }
    for statement in tables.iter().flat_map(|table| &table.afterwards) {
        sink.write(format!("{statement}\n\n").as_bytes()).await?;
    }
    let views = views::read(&client).await?;
    for View {
        oid,
        name,
        create,
        defaults,
    } in &views
    {
        sink.write(format!("{create}\n\n").as_bytes()).await?;
        for statement in defaults {
            sink.write(format!("{statement}\n\n").as_bytes()).await?;
        }
        if options.owners
            && let Some(owner) = privileges::table_owner(&client, &names, oid, name).await?
        {
            sink.write(format!("{owner}\n\n").as_bytes()).await?;
        }
    }
    for statement in comments::read(&client).await? {
        sink.write(format!("{statement}\n\n").as_bytes()).await?;
    }
    if options.privileges {
        let mut granted = Vec::new();
        for Table { oid, name, .. } in &tables {
            granted.extend(privileges::of_table(&client, &names, oid, name).await?);
        }
        for Sequence { oid, name, .. } in &sequences {
            granted.extend(privileges::of_sequence(&client, &names, oid, name).await?);
        }
        for View { oid, name, .. } in &views {
            granted.extend(privileges::of_table(&client, &names, oid, name).await?);
        }
        // Schema privileges come last, because grants by other roles on tables need
        // access to the schema.
        granted.extend(privileges::of_schema(&client, &names).await?);
        for statement in granted {
            sink.write(format!("{statement}\n\n").as_bytes()).await?;
        }
    }
    sink.write(COMPLETE.as_bytes()).await?;
    let ended = client.batch_execute("COMMIT").await;
    ended.map_err(|error| explain(&error))?;
    sink.finish().await
}

/// Makes a text fit a comment of one line.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Dumps the rows of one table. `copied` is called with the number of rows so far.
async fn copy(
    client: &Client,
    table: &Table,
    sink: &mut Sink,
    mut copied: impl FnMut(u64),
) -> Result<(), String> {
    // An empty list of columns is no SQL; without a list, COPY takes all columns: none.
    let columns = match &table.columns[..] {
        [] => table.name.clone(),
        columns => format!("{} ({})", table.name, columns.join(", ")),
    };
    sink.write(format!("COPY {columns} FROM stdin;\n").as_bytes())
        .await?;
    let told = |error| format!("{}: {}", table.name, explain(&error));
    let rows = client.copy_out(&format!("COPY {columns} TO STDOUT")).await;
    let mut rows = pin!(rows.map_err(told)?);
    let mut count = 0;
    while let Some(line) = rows.try_next().await.map_err(told)? {
        sink.write(&line).await?;
        count += 1;
        copied(count);
    }
    sink.write(b"\\.\n\n").await
}
