//! The target of a workload: opens it before the run, and closes it after.

use std::path::Path;
use std::sync::Arc;

use coeval_env::fs;
use coeval_occ::{Engine, Settings};
use coeval_txn::Serial;
use coeval_workload::store::{Database, Table};
use tokio_postgres::Config;

use super::{BenchTarget, Protocol};

/// An open database, and the engine that must be closed after the run.
pub(super) struct Opened {
    pub(super) database: Database,
    /// The failures that commits survive, for the report.
    pub(super) durability: String,
    engine: Option<Arc<Engine>>,
}

/// Opens the target, with an empty database if it is in this process.
pub(super) async fn open(place: &BenchTarget, tables: Vec<Table>) -> Result<Opened, String> {
    match place {
        BenchTarget::Server(url) => {
            let database = Database::over_wire(configuration(url)?, tables);
            Ok(Opened {
                database,
                durability: "as the server is set".to_owned(),
                engine: None,
            })
        }
        BenchTarget::Engine {
            protocol: Protocol::Serial,
            directory: None,
        } => Ok(Opened {
            database: Database::in_process(Arc::new(Serial::new()), tables),
            durability: "in memory".to_owned(),
            engine: None,
        }),
        BenchTarget::Engine {
            protocol: Protocol::Serial,
            directory: Some(_),
        } => Err("serial keeps everything in memory; --data-dir goes with occ".to_owned()),
        BenchTarget::Engine {
            protocol: Protocol::Occ,
            directory,
        } => {
            let (engine, durability) = match directory {
                None => (
                    Engine::ephemeral(Settings::default()).map_err(|error| error.to_string())?,
                    "in memory",
                ),
                Some(directory) => {
                    refuse_used(directory).await?;
                    let opened = Engine::open(directory, Settings::default()).await;
                    let (engine, _) = opened.map_err(|error| error.to_string())?;
                    (engine, "durable before it is acknowledged")
                }
            };
            let engine = Arc::new(engine);
            Ok(Opened {
                database: Database::in_process(engine.clone(), tables),
                durability: durability.to_owned(),
                engine: Some(engine),
            })
        }
    }
}

impl Opened {
    pub(super) async fn close(self) {
        if let Some(engine) = self.engine {
            // The run's result is valid even if the engine does not close cleanly.
            let _ = engine.close().await;
        }
    }
}

/// Refuses a directory that is not empty: it may hold a database.
async fn refuse_used(directory: &Path) -> Result<(), String> {
    let is_used = async {
        let there = fs::exists(directory).await?;
        Ok(there && !fs::read_dir(directory).await?.is_empty())
    };
    let is_used: std::io::Result<bool> = is_used.await;
    match is_used {
        Ok(false) => Ok(()),
        Ok(true) => Err(format!("{} is not empty", directory.display())),
        Err(error) => Err(format!("{}: {error}", directory.display())),
    }
}

/// Parses the URL; the default user is the one who runs the command.
fn configuration(url: &str) -> Result<Config, String> {
    let mut config: Config = url.parse().map_err(|error| format!("{url}: {error}"))?;
    crate::client::complete(&mut config);
    config.application_name("coeval bench");
    Ok(config)
}

/// Writes a file of results, replacing an existing one.
#[expect(
    clippy::disallowed_methods,
    reason = "the user's own file, outside of any database"
)]
pub(super) async fn write_file(name: &str, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(name, bytes).map_err(|error| format!("{name}: {error}"))
}
