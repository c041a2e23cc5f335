//! Bulk loader: puts many rows into tables, in transactions of some hundred rows, by
//! COPY, or by multi-row INSERT statements.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use coeval_txn::Isolation;
use futures_util::SinkExt;
use tokio_postgres::Client;

use super::client_session::{Session, Way};
use super::schema::Table;
use super::wire::{Connection, copy_line, values_of};
use super::{Failure, Row};

/// Rows per transaction.
const BATCH: usize = 500;
/// Bytes per COPY.
const COPY_BYTES: usize = 1 << 20;
/// Bytes per INSERT.
const INSERT_BYTES: usize = 16 << 10;

/// How rows are loaded.
enum LoadMethod {
    Session {
        session: Box<Session>,
        rows: usize,
    },
    /// As VALUES of INSERT statements, instead of COPY, which the client library
    /// prepares.
    Values {
        connection: Connection,
        rows: Vec<String>,
    },
    Copy {
        connection: Connection,
        lines: Vec<String>,
    },
}

/// Puts rows into tables. Until the loader is [finished](Loader::finish), rows may be
/// missing.
pub struct Loader {
    kind: LoadMethod,
    tables: Arc<[Table]>,
}

impl fmt::Debug for Loader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Loader").finish_non_exhaustive()
    }
}

impl Loader {
    pub(super) fn in_process(session: Session, tables: Arc<[Table]>) -> Self {
        let session = Box::new(session);
        Self {
            kind: LoadMethod::Session { session, rows: 0 },
            tables,
        }
    }

    pub(super) fn over_wire(connection: Connection, copies: bool, tables: Arc<[Table]>) -> Self {
        let lines = vec![String::new(); tables.len()];
        let kind = if copies {
            LoadMethod::Copy { connection, lines }
        } else {
            let rows = lines;
            LoadMethod::Values { connection, rows }
        };
        Self { kind, tables }
    }

    /// Puts a row with a new key.
    pub async fn row(&mut self, table: usize, row: &Row) -> Result<(), Failure> {
        match &mut self.kind {
            LoadMethod::Session { session, rows } => {
                if *rows == 0 {
                    let way = Way {
                        isolation: Isolation::ReadCommitted,
                        read_only: false,
                        single: false,
                    };
                    session.begin(way).await?;
                }
                session.insert(table, row).await?;
                *rows += 1;
                if *rows == BATCH {
                    *rows = 0;
                    session.commit().await?;
                }
                Ok(())
            }
            LoadMethod::Values { connection, rows } => {
                let text = &mut rows[table];
                values_of(&self.tables[table], row.row(), text);
                if text.len() < INSERT_BYTES {
                    return Ok(());
                }
                let name = &self.tables[table].name;
                insert(&connection.client, name, std::mem::take(text)).await
            }
            LoadMethod::Copy { connection, lines } => {
                let text = &mut lines[table];
                copy_line(&self.tables[table], row.row(), text);
                if text.len() < COPY_BYTES {
                    return Ok(());
                }
                let name = &self.tables[table].name;
                copy(&connection.client, name, std::mem::take(text)).await
            }
        }
    }

    /// Completes the load: all rows are then in the tables, and durable.
    pub async fn finish(mut self) -> Result<(), Failure> {
        match &mut self.kind {
            LoadMethod::Session { rows: 0, .. } => Ok(()),
            LoadMethod::Session { session, .. } => session.commit().await,
            LoadMethod::Values { connection, rows } => {
                for (table, text) in self.tables.iter().zip(rows) {
                    if !text.is_empty() {
                        insert(&connection.client, &table.name, std::mem::take(text)).await?;
                    }
                }
                Ok(())
            }
            LoadMethod::Copy { connection, lines } => {
                for (table, text) in self.tables.iter().zip(lines) {
                    if !text.is_empty() {
                        copy(&connection.client, &table.name, std::mem::take(text)).await?;
                    }
                }
                Ok(())
            }
        }
    }
}

async fn insert(client: &Client, table: &str, rows: String) -> Result<(), Failure> {
    let statement = format!("INSERT INTO {table} VALUES {rows}");
    let inserted = client.batch_execute(&statement).await;
    inserted.map_err(|error| Failure::statement(&error))
}

async fn copy(client: &Client, table: &str, text: String) -> Result<(), Failure> {
    let copied = async {
        let statement = format!("COPY {table} FROM STDIN");
        let mut sink = pin!(client.copy_in::<_, Bytes>(&statement).await?);
        sink.send(Bytes::from(text)).await?;
        sink.finish().await
    };
    let copied: Result<u64, tokio_postgres::Error> = copied.await;
    copied.map(drop).map_err(|error| Failure::statement(&error))
}
