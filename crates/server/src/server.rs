//! A server: starts, runs and stops an engine, a database over it, and a listener.
//!
//! ```no_run
//! # async fn example() -> Result<(), coeval_server::StartError> {
//! use coeval_server::{Server, Settings, Storage};
//!
//! let settings = Settings { listen: ([127, 0, 0, 1], 0).into(), ..Settings::default() };
//! let server = Server::start(settings, Storage::Memory).await?;
//! println!("postgres://someone@{}/coeval", server.address());
//! server.stop().await;
//! # Ok(())
//! # }
//! ```

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coeval_env::Listener;
use coeval_leader::node::{Node, Observer};
use coeval_sql::instance::AdmissionCounts;
use coeval_types::Remedy;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::access::{FileError, Rules};
use crate::admin::{Admin, Health};
use crate::engine::{self, StartSummary};
use crate::memory::{self, MemoryReport};
use crate::metrics::ServerHost;
use crate::reader::Reader;
use crate::serving_term::{Lead, SESSIONS_SHARE, ServingTerm};
use crate::settings::{self, SettingsError};
use crate::shared::{Doors, Shared};
use crate::tls::{Tls, TlsError};
use crate::workers::Workers;
use crate::{Effective, Settings, cluster_view, gamma, serving_terms};

/// The location of a database's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In the data directory of the settings.
    Directory,
    /// In memory; the data is lost when the server stops.
    Memory,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The data directory cannot be used.
    #[error("data directory {}: {error}", .path.display())]
    DataDirectory {
        /// The data directory.
        path: PathBuf,
        /// The cause, and a remedy.
        #[source]
        error: coeval_log::Error,
    },
    /// The database in it cannot be opened.
    #[error("the database cannot be opened: {0}")]
    Database(#[source] coeval_sql::Error),
    /// The host-based access file is wrong.
    #[error(transparent)]
    Access(#[from] FileError),
    /// The TLS certificate or key is wrong.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The node of the cluster cannot run.
    #[error("node of a cluster: {0}")]
    Node(#[from] coeval_leader::node::Error),
    /// The certificates or keys for connections between nodes are wrong.
    #[error("TLS between nodes: {0}")]
    NodeTls(#[from] coeval_peers::TlsError),
    /// The server cannot listen at the address.
    #[error("cannot listen at {address}: {error}{}", in_use(.error))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        #[source]
        error: io::Error,
    },
}

fn in_use(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::AddrInUse {
        "; is another server running? --listen takes another port"
    } else {
        ""
    }
}

impl StartError {
    /// What the administrator or the program that started the server can do about it.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Settings(_)
            | Self::Access(_)
            | Self::Tls(_)
            | Self::Node(_)
            | Self::NodeTls(_)
            | Self::Listen { .. } => Remedy::Fix,
            Self::DataDirectory { error, .. } => error.remedy(),
            Self::Database(error) => error.remedy(),
        }
    }
}

/// Starts servers.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Opens the database, recovers it from its log, and listens. Sessions run on threads
    /// of their own; all other tasks run on the caller's executor.
    ///
    /// # Errors
    /// [`StartError`]; the server has then stopped all that it had started.
    pub async fn start(
        settings: impl Into<Effective>,
        storage: Storage,
    ) -> Result<RunningServer, StartError> {
        Self::start_observed(settings, storage, None).await
    }

    /// As [`Server::start`]; on a node of a cluster, the observer sees every step of its
    /// consensus.
    ///
    /// # Errors
    /// [`StartError`]; the server has then stopped all that it had started.
    pub async fn start_observed(
        settings: impl Into<Effective>,
        storage: Storage,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<RunningServer, StartError> {
        let effective = settings.into();
        let settings = effective.settings.clone();
        settings.check()?;
        coeval_env::fs::allow_group_access(settings.allow_group_access);
        let doors = doors(&settings).await?;
        let health = Arc::<Health>::default();
        let admin = match &settings.admin_listen {
            Some(location) => {
                let address = settings::address("admin_listen", location).await?;
                let started = Admin::start(address, Arc::clone(&health)).await;
                Some(started.map_err(|error| StartError::Listen { address, error })?)
            }
            None => None,
        };
        let started = coeval_env::now();
        memory::preallocate(&settings).await?;
        let failure = watch::Sender::new(None);
        let of_node = settings.is_node();
        let (shared, listener, address, found) = if of_node {
            if storage == Storage::Memory {
                return Err(StartError::Settings(SettingsError::Value {
                    name: "cluster_node",
                    origin: None,
                    reason: "a node keeps its log in a directory, and cannot be ephemeral".into(),
                }));
            }
            let (listener, address) = listen(&settings).await?;
            let found = StartSummary {
                place: settings.data_dir.display().to_string(),
                recovery: format!("node {} of a cluster", settings.cluster_node),
            };
            let node = Arc::new(serving_terms::start_node(&settings, observer).await?);
            let limit = memory::budget(&settings).await.limit;
            let shared = Arc::new(Shared::new(settings, Some(node), failure, doors));
            shared.relayed.set_limit(limit / SESSIONS_SHARE);
            (shared, listener, address, found)
        } else {
            let recovering = Arc::clone(&health);
            let progress = move |progress| recovering.recovering(progress);
            let opened = engine::open(&settings, storage, &failure, progress).await?;
            let own = opened.engine;
            let shared = Arc::new(Shared::new(settings, None, failure, doors));
            let ready = async {
                let host = ServerHost::new(Arc::downgrade(&shared), effective.clone());
                let serving_term =
                    ServingTerm::open(Arc::clone(&own), &shared.settings, host).await;
                let serving_term = serving_term.map_err(StartError::Database)?;
                let (listener, address) = listen(&shared.settings).await?;
                shared.lead.send_replace(Lead::Here(serving_term));
                Ok((listener, address))
            };
            match ready.await {
                Ok((listener, address)) => (shared, listener, address, opened.found),
                Err(error) => {
                    engine::close(&own).await;
                    return Err(error);
                }
            }
        };
        shared.metrics.started_after(started.elapsed());
        health.ready(&shared);
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        info!(
            %address,
            storage = found.place,
            recovery = found.recovery,
            milliseconds,
            version = env!("CARGO_PKG_VERSION"),
            profile = coeval_env::BUILD_PROFILE,
            "ready for connections"
        );
        if shared.settings.insecure && !address.ip().is_loopback() {
            warn!(
                %address,
                "insecure: every client that reaches this address is let in, under any name"
            );
        }
        let following = of_node.then(|| {
            let following = serving_terms::follow(Arc::clone(&shared), effective.clone());
            coeval_env::spawn("serving_terms", following)
        });
        if of_node {
            let watching = cluster_view::watch(Arc::downgrade(&shared));
            coeval_env::spawn("cluster", watching);
        }
        let probe = gamma::start(&shared);
        Ok(RunningServer {
            address,
            probe,
            workers: Workers::start(&shared, listener),
            following,
            health,
            admin,
            effective,
            shared,
        })
    }
}

async fn listen(settings: &Settings) -> Result<(Listener, SocketAddr), StartError> {
    let address = settings::address("listen", &settings.listen).await?;
    let refused = |error| StartError::Listen { address, error };
    let listening = coeval_env::listen(address).await;
    let listener = listening.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// Reads the access rules and the TLS certificate.
async fn doors(settings: &Settings) -> Result<Doors, StartError> {
    let rules = match &settings.hba_file.0 {
        Some(path) => Rules::read(path).await?,
        None if settings.insecure => Rules::Insecure,
        None => Rules::Default,
    };
    if let Some(line) = rules.careless_line()
        && !settings.insecure
        && !settings.listen.is_loopback()
    {
        return Err(StartError::Settings(SettingsError::Value {
            name: "hba_file",
            origin: None,
            reason: format!(
                "line {line} lets others than this machine in without a password; say \
                 --insecure if that is meant"
            ),
        }));
    }
    let files = (&settings.tls_certificate_file.0, &settings.tls_key_file.0);
    let tls = match files {
        (Some(certificate), Some(key)) => Some(Tls::read(certificate, key).await?),
        _ => None,
    };
    Ok(Doors { rules, tls })
}

/// A running server. When it is dropped, it refuses new sessions, and its sessions end as
/// soon as they can; [`RunningServer::stop`] also waits for that.
pub struct RunningServer {
    address: SocketAddr,
    workers: Workers,
    /// The task that opens and ends the serving terms of a cluster's node.
    following: Option<coeval_env::JoinHandle<()>>,
    /// The probe of Γ, if there is one.
    probe: Option<coeval_env::JoinHandle<()>>,
    health: Arc<Health>,
    admin: Option<Admin>,
    effective: Effective,
    shared: Arc<Shared>,
}

impl RunningServer {
    /// Has the sessions of this node's clients read from an engine that follows, and this
    /// node's sessions tell what other nodes need for that: for tests of the way there and
    /// back, with tables that are not the leader's.
    #[doc(hidden)]
    pub fn read_from(&self, engine: Option<Arc<dyn coeval_txn::Engine>>) {
        let host = || ServerHost::new(Arc::downgrade(&self.shared), self.effective.clone());
        let reader = engine.map(|engine| Reader::of(engine, &self.shared.settings, host()));
        self.shared.reader_is_given.store(true, Ordering::Relaxed);
        self.shared.tells_reads.store(true, Ordering::Relaxed);
        self.shared.carries_blocks.store(true, Ordering::Relaxed);
        self.shared.reader.send_replace(reader);
    }

    /// The address that the server listens at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the admin listener, which serves metrics and health.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Admin::address)
    }

    /// The number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.shared.registry.len()
    }

    /// How many transactions run, and how many wait for admission.
    #[must_use]
    pub fn admission(&self) -> AdmissionCounts {
        let serving_term = self.shared.serving_term();
        serving_term.map_or_else(Default::default, |serving_term| {
            serving_term.database.admission().counts()
        })
    }

    /// Whether sessions run on this server: on a node of a cluster while it leads, on a
    /// single server always.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.shared.serving_term().is_some()
    }

    /// The consensus node, if the server is a node of a cluster.
    #[must_use]
    pub fn node(&self) -> Option<Arc<Node>> {
        self.shared.node.clone()
    }

    /// The memory accounts of the engine that leads or follows here, and the process's
    /// resident size.
    pub async fn memory(&self) -> MemoryReport {
        let leads = self.shared.serving_term();
        let leads = leads.map(|serving_term| serving_term.own.memory());
        let follows = || {
            let reader = self.shared.reader.borrow();
            reader.as_ref().map(|reader| reader.memory())
        };
        MemoryReport {
            accounts: leads.or_else(follows).unwrap_or_default(),
            resident: memory::resident().await.unwrap_or(0),
        }
    }

    /// Reads the host-based access file and the TLS certificates and keys again, those for
    /// other nodes of the cluster too, for connections from now on. Existing ones stay.
    ///
    /// # Errors
    /// [`StartError`]; the server then keeps its present rules and certificates.
    pub async fn reload(&self) -> Result<(), StartError> {
        let doors = doors(&self.shared.settings).await?;
        serving_terms::reload_security(&self.shared).await?;
        self.shared.set_access(doors);
        Ok(())
    }

    /// Waits until the engine has stopped by itself, because a disk failed, say, and
    /// returns the reason; without a failure it never returns. After that the server must
    /// be restarted.
    pub async fn failed(&self) -> String {
        let mut failure = self.shared.failure.subscribe();
        let failed = failure.wait_for(Option::is_some).await;
        match failed.ok().and_then(|failure| failure.clone()) {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Stops: refuses new sessions, gives running statements the grace period to finish,
    /// cancels them, and waits until every session has ended.
    pub async fn stop(self) {
        self.health.stopping();
        self.workers.close();
        let registry = &self.shared.registry;
        let sessions = registry.len();
        if sessions > 0 {
            info!(sessions, "stopping");
        }
        registry.close();
        let grace = Duration::from_millis(self.shared.settings.stop_grace_milliseconds);
        if coeval_env::timeout(grace, registry.empty()).await.is_err() {
            registry.cancel_all();
            // A canceled session ends at once, unless its client does not read its
            // answers; that has a timeout of its own.
            let patience = Duration::from_secs(10);
            if coeval_env::timeout(patience, registry.empty())
                .await
                .is_err()
            {
                warn!(sessions = registry.len(), "sessions did not end");
            }
        }
        for task in [&self.following, &self.probe].into_iter().flatten() {
            task.abort();
        }
        match (&self.shared.node, self.shared.serving_term()) {
            (Some(node), serving_term) => {
                if serving_term.is_some() {
                    serving_terms::hand_over(node).await;
                }
                if let Err(error) = node.stop().await {
                    warn!(%error, "the node did not end in order; its next start recovers");
                }
            }
            (None, Some(serving_term)) => engine::close(&serving_term.own).await,
            (None, None) => {}
        }
        info!("stopped");
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.health.stopping();
        for task in [&self.following, &self.probe].into_iter().flatten() {
            task.abort();
        }
        self.workers.close();
        self.shared.registry.close();
        self.shared.registry.cancel_all();
    }
}

impl std::fmt::Debug for RunningServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RunningServer")
            .field("address", &self.address)
            .field("sessions", &self.sessions())
            .finish_non_exhaustive()
    }
}
