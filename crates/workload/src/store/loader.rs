//! Many rows at once: in transactions of some hundred rows, or by COPY.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use coeval_txn::Isolation;
use futures_util::SinkExt;
use tokio_postgres::Client;

use super::schema::Table;
use super::session::{Session, Way};
use super::wire::copy_line;
use super::{Failure, Row};

/// Rows of one transaction.
const BATCH: usize = 500;
/// Bytes of one COPY.
const COPY_BYTES: usize = 1 << 20;

/// How rows are put.
enum Kind {
    Session { session: Box<Session>, rows: usize },
    Copy { client: Client, lines: Vec<String> },
}

/// Puts rows into tables. What has not been [finished](Loader::finish) may be missing.
pub struct Loader {
    kind: Kind,
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
            kind: Kind::Session { session, rows: 0 },
            tables,
        }
    }

    pub(super) fn over_wire(client: Client, tables: Arc<[Table]>) -> Self {
        let lines = vec![String::new(); tables.len()];
        Self {
            kind: Kind::Copy { client, lines },
            tables,
        }
    }

    /// Puts a row whose key is new.
    pub async fn row(&mut self, table: usize, row: &Row) -> Result<(), Failure> {
        match &mut self.kind {
            Kind::Session { session, rows } => {
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
            Kind::Copy { client, lines } => {
                let text = &mut lines[table];
                copy_line(&self.tables[table], row.row(), text);
                if text.len() < COPY_BYTES {
                    return Ok(());
                }
                copy(client, &self.tables[table].name, std::mem::take(text)).await
            }
        }
    }

    /// Everything that was put is there, and durable.
    pub async fn finish(mut self) -> Result<(), Failure> {
        match &mut self.kind {
            Kind::Session { rows: 0, .. } => Ok(()),
            Kind::Session { session, .. } => session.commit().await,
            Kind::Copy { client, lines } => {
                for (table, text) in self.tables.iter().zip(lines) {
                    if !text.is_empty() {
                        copy(client, &table.name, std::mem::take(text)).await?;
                    }
                }
                Ok(())
            }
        }
    }
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
