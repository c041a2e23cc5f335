//! A database with the tables of one workload: made, filled, and worked on by many
//! sessions.

use std::fmt;
use std::sync::Arc;

use coeval_txn::Engine;
use tokio_postgres::Config;

use super::Failure;
use super::contract::{self, Contract};
use super::loader::Loader;
use super::schema::Table;
use super::session::{Backend, Session};
use super::statement::{create_indexes, create_table};
use super::wire::{self, Wire};

/// Where the tables are.
#[derive(Clone)]
enum Place {
    Engine(Arc<dyn Engine>),
    Server(Arc<Config>),
}

/// A database. Cheap to clone.
#[derive(Clone)]
pub struct Database {
    place: Place,
    tables: Arc<[Table]>,
}

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Database")
            .field("backend", &self.backend())
            .finish_non_exhaustive()
    }
}

impl Database {
    /// In an engine of this process that has no storages yet.
    #[must_use]
    pub fn in_process(engine: Arc<dyn Engine>, tables: Vec<Table>) -> Self {
        Self {
            place: Place::Engine(engine),
            tables: tables.into(),
        }
    }

    /// On a server.
    #[must_use]
    pub fn over_wire(config: Config, tables: Vec<Table>) -> Self {
        Self {
            place: Place::Server(Arc::new(config)),
            tables: tables.into(),
        }
    }

    /// What it is, for reports: the engine's name, or `wire`.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        match &self.place {
            Place::Engine(engine) => engine.name(),
            Place::Server(_) => "wire",
        }
    }

    /// Whether a server is between the load and the engine.
    #[must_use]
    pub const fn is_over_wire(&self) -> bool {
        matches!(self.place, Place::Server(_))
    }

    /// Makes the tables, empty. On a server, those of the same names go.
    pub async fn create(&self) -> Result<(), Failure> {
        match &self.place {
            Place::Engine(engine) => {
                contract::attach(&**engine, &self.tables).map_err(|error| Failure::aborted(&error))
            }
            Place::Server(_) => {
                let mut texts = Vec::new();
                for table in &*self.tables {
                    texts.push(format!("DROP TABLE IF EXISTS {}", table.name));
                    texts.push(create_table(table));
                }
                self.define(&texts).await
            }
        }
    }

    /// To be called when the rows are there: on a server, makes the secondary
    /// indexes.
    pub async fn finish_load(&self) -> Result<(), Failure> {
        let texts: Vec<String> = self.tables.iter().flat_map(create_indexes).collect();
        match &self.place {
            Place::Engine(_) => Ok(()),
            Place::Server(_) => self.define(&texts).await,
        }
    }

    async fn define(&self, texts: &[String]) -> Result<(), Failure> {
        let Place::Server(config) = &self.place else {
            return Ok(());
        };
        let client = wire::connect(config).await;
        let client = client.map_err(|error| Failure::statement(&error))?;
        for text in texts {
            let done = client.batch_execute(text).await;
            done.map_err(|error| Failure::statement(&error))?;
        }
        Ok(())
    }

    /// A session that runs transactions, one at a time. Over the wire connects when
    /// it begins the first.
    #[must_use]
    pub fn session(&self) -> Session {
        let tables = Arc::clone(&self.tables);
        Session::new(match &self.place {
            Place::Engine(engine) => Backend::Contract(Contract::new(Arc::clone(engine), tables)),
            Place::Server(config) => Backend::Wire(Wire::new(Arc::clone(config), tables)),
        })
    }

    /// What puts many rows into the tables.
    pub async fn loader(&self) -> Result<Loader, Failure> {
        let tables = Arc::clone(&self.tables);
        match &self.place {
            Place::Engine(_) => Ok(Loader::in_process(self.session(), tables)),
            Place::Server(config) => {
                let client = wire::connect(config).await;
                let client = client.map_err(|error| Failure::statement(&error))?;
                Ok(Loader::over_wire(client, tables))
            }
        }
    }
}
