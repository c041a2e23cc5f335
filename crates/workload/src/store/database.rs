//! A database under load: creates the tables of one workload, loads them, and opens
//! sessions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use coeval_txn::Engine;
use tokio_postgres::Config;

use super::Failure;
use super::client_session::{Backend, Pace, Session};
use super::contract::{self, Contract};
use super::loader::Loader;
use super::schema::Table;
use super::statement::{create_indexes, create_table};
use super::wire::{self, Server, Wire};

/// Location of the tables: an engine in this process, or a server.
#[derive(Clone)]
enum DatabaseBackend {
    Engine(Arc<dyn Engine>, Pace),
    Server(Arc<Server>),
}

/// A database under load. Cheap to clone.
#[derive(Clone)]
pub struct Database {
    place: DatabaseBackend,
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
    /// A database in an engine of this process that has no storages yet.
    #[must_use]
    pub fn in_process(engine: Arc<dyn Engine>, tables: Vec<Table>) -> Self {
        Self {
            place: DatabaseBackend::Engine(engine, Pace::default()),
            tables: tables.into(),
        }
    }

    /// A database on a server.
    #[must_use]
    pub fn over_wire(config: Config, tables: Vec<Table>) -> Self {
        Self {
            place: DatabaseBackend::Server(Arc::new(Server {
                config,
                simulated: false,
                turn: AtomicUsize::new(0),
            })),
            tables: tables.into(),
        }
    }

    /// Adapts the database for a simulation. Sessions in this process run at the given
    /// pace. A server is reached through the environment abstraction alone, and without
    /// prepared statements, because their names come from a process-wide counter, which
    /// is not deterministic.
    #[must_use]
    pub fn simulated(self, pace: Pace) -> Self {
        let place = match self.place {
            DatabaseBackend::Engine(engine, _) => DatabaseBackend::Engine(engine, pace),
            DatabaseBackend::Server(server) => DatabaseBackend::Server(Arc::new(Server {
                config: server.config.clone(),
                simulated: true,
                turn: AtomicUsize::new(0),
            })),
        };
        Self {
            place,
            tables: self.tables,
        }
    }

    /// The same database; in this process, sessions of one thread [take
    /// turns](Pace::interleaved) within their transactions, so that these overlap as they
    /// would with a core for each.
    #[must_use]
    pub fn interleaved(mut self) -> Self {
        if let DatabaseBackend::Engine(_, pace) = &mut self.place {
            pace.interleaved = true;
        }
        self
    }

    /// Name of the backend for reports: the engine's name, or `wire`.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        match &self.place {
            DatabaseBackend::Engine(engine, _) => engine.name(),
            DatabaseBackend::Server(_) => "wire",
        }
    }

    /// Whether the sessions connect to a server.
    #[must_use]
    pub const fn is_over_wire(&self) -> bool {
        matches!(self.place, DatabaseBackend::Server(_))
    }

    /// Creates the tables, empty. On a server, drops existing tables of the same names.
    pub async fn create(&self) -> Result<(), Failure> {
        match &self.place {
            DatabaseBackend::Engine(engine, _) => {
                contract::attach(&**engine, &self.tables).map_err(|error| Failure::aborted(&error))
            }
            DatabaseBackend::Server(_) => {
                let mut texts = Vec::new();
                for table in &*self.tables {
                    texts.push(format!("DROP TABLE IF EXISTS {}", table.name));
                    texts.push(create_table(table));
                }
                self.define(&texts).await
            }
        }
    }

    /// Completes a load after all rows are loaded: on a server, creates the secondary
    /// indexes.
    pub async fn finish_load(&self) -> Result<(), Failure> {
        let texts: Vec<String> = self.tables.iter().flat_map(create_indexes).collect();
        match &self.place {
            DatabaseBackend::Engine(..) => Ok(()),
            DatabaseBackend::Server(_) => self.define(&texts).await,
        }
    }

    async fn define(&self, texts: &[String]) -> Result<(), Failure> {
        let DatabaseBackend::Server(server) = &self.place else {
            return Ok(());
        };
        let connection = wire::connect(server).await?;
        for text in texts {
            let done = connection.client.batch_execute(text).await;
            done.map_err(|error| Failure::statement(&error))?;
        }
        Ok(())
    }

    /// A new session, which runs one transaction at a time. Over the wire it connects
    /// when the first one begins.
    #[must_use]
    pub fn session(&self) -> Session {
        let tables = Arc::clone(&self.tables);
        match &self.place {
            DatabaseBackend::Engine(engine, pace) => {
                let contract = Contract::new(Arc::clone(engine), Arc::clone(&tables));
                Session::new(Backend::Contract(contract), tables).at(*pace)
            }
            DatabaseBackend::Server(server) => {
                let wire = Wire::new(Arc::clone(server), Arc::clone(&tables));
                Session::new(Backend::Wire(wire), tables)
            }
        }
    }

    /// A loader for putting many rows into the tables.
    pub async fn loader(&self) -> Result<Loader, Failure> {
        let tables = Arc::clone(&self.tables);
        match &self.place {
            DatabaseBackend::Engine(..) => {
                let session = self.session().at(Pace::default());
                Ok(Loader::in_process(session, tables))
            }
            DatabaseBackend::Server(server) => {
                let connection = wire::connect(server).await?;
                Ok(Loader::over_wire(connection, !server.simulated, tables))
            }
        }
    }
}
