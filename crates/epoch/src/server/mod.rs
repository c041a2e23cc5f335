//! A node as a running thing: threads, sockets and files around the step function and the
//! council.
//!
//! ```text
//!   thread "epoch node"   driver ─── EpochNode        connections of `peers`
//!   thread "epoch log"    the back end's log: one write and one sync for each sealed epoch
//!   thread "council"      on the council's members: their log, and the configuration
//! ```
//!
//! A node is *founded* first, in a data directory of its own ([`found`]), with the list of all
//! nodes; then it is started ([`Server::start`]) and stopped as often as one likes.
//!
//! | what | where |
//! | --- | --- |
//! | the data directory | `home` |
//! | the driver of the step function | `driver` |
//! | who is dead | `detector` |
//! | the log's thread | `disk` |
//! | kinds of frames, the council's transport | `link` |
//! | requests, bounded | `requests` |
//! | disk space for closes on a full disk | `reserve` |
//! | the listener for clients | `gate` |
//! | health and metrics over HTTP | `admin` |
//! | what a node says of itself | `status` |
//! | a look at the directory of a node that does not run | `verify` |
//!
//! # Invariants
//!
//! 1. An incarnation is durable before anything is said under it (`home`).
//! 2. The council's term in which this node manages is the one in which its proposals are made.
//! 3. A log write is reported durable after its sync.

mod admin;
mod detector;
mod disk;
mod driver;
mod gate;
mod home;
mod link;
mod requests;
mod reserve;
mod settings;
mod status;
mod verify;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_peers::{Identity, Inbox, Members, Peers, StartError};
use coeval_types::Protocol;
use tokio::sync::{mpsc, oneshot};

pub use admin::AdminError;
pub use gate::GateError;
pub(crate) use home::EPOCHS;
pub use home::{Founding, HomeError, found, founding};
pub use requests::{MOST_KEYS, MOST_REQUEST_BYTES, Outcome, Request};
pub use settings::{SettingError, Settings};
pub use status::{Counts, ManagerStatus, Status};
pub use verify::{NodeReport, VerifyError, verify};

use crate::client::Access;
use crate::directory::Directory;
use crate::log::LogError;
use crate::wire;
use detector::Patience;
use driver::{Driver, Input, Parts};
use gate::{Gate, Open};
use home::Home;
use requests::Requests;
use reserve::Reserve;

/// Why a node cannot start, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Fix: a setting cannot be.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The data directory.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The connections between nodes.
    #[error(transparent)]
    Peers(#[from] StartError),
    /// Fix: a host's name is no address to listen at.
    #[error("node {0} has a name among the members: say at which address it listens")]
    Listen(coeval_peers::NodeId),
    /// The listener for clients.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The listener for administrators.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The council.
    #[error("the council: {0}")]
    Council(#[from] coeval_council::Error),
    /// Fatal: the log on the disk.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The node has ended.
    #[error("the node has ended")]
    Ended,
}

impl Settings {
    fn tick(&self) -> Duration {
        Duration::from_millis(self.tick_milliseconds)
    }

    fn patience(&self) -> Patience {
        Patience {
            lost: self.lost_milliseconds.div_ceil(self.tick_milliseconds),
            absent: self.absent_milliseconds.div_ceil(self.tick_milliseconds),
        }
    }
}

/// Where a node listens.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    nodes: SocketAddr,
    clients: Option<SocketAddr>,
    admin: Option<SocketAddr>,
}

/// A running node. Dropping it leaves it running; its process may end at any moment.
#[derive(Debug)]
pub struct Server {
    requests: Requests,
    inputs: mpsc::UnboundedSender<Input>,
    addresses: Addresses,
    ended: JoinHandle<Result<(), ServerError>>,
}

/// Stops a node while another task waits for its end.
#[derive(Clone, Debug)]
pub struct Stopper(mpsc::UnboundedSender<Input>);

impl Stopper {
    /// Has the node end in order.
    pub fn stop(&self) {
        // One that has ended says why.
        let _ = self.0.send(Input::Stop);
    }
}

impl Server {
    /// Starts the node that was founded in the settings' directory.
    ///
    /// # Errors
    /// When a setting or the directory does not allow it, or the node cannot listen.
    pub async fn start(settings: Settings) -> Result<Self, ServerError> {
        settings.check()?;
        let (inputs, received) = mpsc::unbounded_channel();
        let requests = Requests::new(inputs.clone(), settings.request_bytes);
        let (told, starting) = oneshot::channel();
        let (sender, asked) = (inputs.clone(), requests.clone());
        let ended = coeval_env::spawn_dedicated("epoch node", move || async move {
            let opened = open(settings, sender, received, asked).await;
            match opened {
                Ok(opened) => {
                    if told.send(Ok(opened.addresses)).is_err() {
                        return Ok(());
                    }
                    let ended = opened.driver.run(opened.inbox).await;
                    drop(opened.listeners);
                    ended
                }
                Err(error) => {
                    // The starter may have gone.
                    let _ = told.send(Err(error));
                    Ok(())
                }
            }
        });
        let addresses = starting.await.map_err(|_| ServerError::Ended)??;
        Ok(Self {
            requests,
            inputs,
            addresses,
            ended,
        })
    }

    /// Where the node listens for other nodes.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.addresses.nodes
    }

    /// Where it listens for clients, if it does.
    #[must_use]
    pub fn client_address(&self) -> Option<SocketAddr> {
        self.addresses.clients
    }

    /// Where it listens for administrators, if it does.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.addresses.admin
    }

    /// Carries out a request at this node's front end. Waits while as many requests are under way
    /// as may, and as long as no majority, no front end or no copy is there.
    pub async fn request(&self, request: Request) -> Outcome {
        self.requests.ask(request).await
    }

    /// What the node says of itself.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn status(&self) -> Result<Status, ServerError> {
        self.requests.status().await.ok_or(ServerError::Ended)
    }

    /// What stops the node while [`Server::ended`] is waited for.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.inputs.clone())
    }

    /// Waits until the node ends, which it does by itself only when its disk or its council fails.
    ///
    /// # Errors
    /// Why it has ended.
    pub async fn ended(self) -> Result<(), ServerError> {
        self.ended.await.unwrap_or(Err(ServerError::Ended))
    }

    /// Stops the node in order.
    ///
    /// # Errors
    /// When it had ended before, or the council's log could not be closed.
    pub async fn stop(self) -> Result<(), ServerError> {
        self.stopper().stop();
        self.ended().await
    }
}

/// A node that is ready to run.
struct Opened {
    driver: Driver,
    inbox: Inbox,
    addresses: Addresses,
    listeners: Vec<Open>,
}

/// What is said of the orphans of dead front ends is one message, as long as their clients'
/// requests were that were under way: room for those of some.
const FRAME_BYTES: usize = 256 << 20;

fn peer_settings() -> coeval_peers::Settings {
    coeval_peers::Settings {
        frame_bytes: FRAME_BYTES,
        queue_bytes: FRAME_BYTES + (32 << 20),
        receive_bytes: FRAME_BYTES + (32 << 20),
        ..coeval_peers::Settings::default()
    }
}

/// Opens everything that a node uses, on the thread that will use it.
async fn open(
    settings: Settings,
    sender: mpsc::UnboundedSender<Input>,
    inputs: mpsc::UnboundedReceiver<Input>,
    requests: Requests,
) -> Result<Opened, ServerError> {
    let mut home = Home::open(&settings.directory).await?;
    home.begin().await?;
    let founding = &home.founding;
    let own = founding.node;
    let listen = settings.listens(founding.members.get(&own));
    let listen = listen.ok_or(ServerError::Listen(own))?;
    let members = Members {
        addresses: founding.members.clone(),
        version: wire::OLDEST.into(),
        reads: wire::VERSION.into(),
        protocol: Protocol::Epoch,
        ..Members::default()
    };
    let identity = Identity {
        cluster: founding.cluster,
        node: own,
    };
    let peers = Peers::start(
        identity,
        listen,
        members,
        settings.security.clone(),
        peer_settings(),
        link::KINDS,
    );
    let (peers, inbox) = peers.await?;
    let peers = Arc::new(peers);
    let mut addresses = Addresses {
        nodes: peers.address(),
        clients: None,
        admin: None,
    };
    // Before the disk and the council, which hold their files on threads of their own for a moment
    // after what could not be started was given up.
    let mut listeners = Vec::new();
    if let Some(address) = settings.clients {
        let gate = Gate {
            identity: (founding.cluster, own),
            security: settings.security.clone(),
            access: Access {
                roles: settings.roles.clone(),
                secret: settings.secret.clone(),
            },
            requests: requests.clone(),
        };
        let (listened, open) = gate.open(address).await?;
        addresses.clients = Some(listened);
        listeners.push(open);
    }
    if let Some(address) = settings.admin {
        let (listened, open) = admin::open(address, requests).await?;
        addresses.admin = Some(listened);
        listeners.push(open);
    }
    let reserve = Reserve::new(&settings.directory, settings.disk_reserve_bytes);
    let (disk, recovered) = disk::start(home.epochs(), reserve, sender.clone()).await?;
    let directory = Directory::default();
    let founders = founding.council();
    let council = match founders.contains(&own) {
        false => None,
        true => {
            let cluster = founding.cluster.0;
            let settings = coeval_council::Settings::new(home.council(), cluster, own, founders);
            let link = Arc::new(link::CouncilLink(Arc::clone(&peers)));
            let machine = Box::new(directory.clone());
            Some(coeval_council::start(settings, machine, link).await?)
        }
    };
    let parts = Parts {
        home,
        directory,
        council,
        peers,
        disk,
        inputs,
        sender,
    };
    Ok(Opened {
        driver: Driver::new(settings, parts, recovered),
        inbox,
        addresses,
        listeners,
    })
}
