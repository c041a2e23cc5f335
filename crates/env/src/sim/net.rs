//! The simulated network: listeners and connection setup.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;

use super::link::{Links, Passage};
use super::pipe::Connection;
use super::stream::ends;
pub(crate) use super::stream::{ReadHalf, Stream, WriteHalf};
use super::task::interleave;
use super::{Context, Node};

/// Most connections that wait to be accepted.
const BACKLOG: usize = 128;
/// The first port assigned when the caller asks for port 0.
const FIRST_FREE_PORT: u16 = 49152;
/// Number of attempts to connect over a blocked link: for a minute in all.
const TRIES: u32 = 6;
/// The wait before the second attempt; doubled before each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);

type Incoming = (Stream, SocketAddr);

/// A listening socket: its node, and the queue of its connections.
struct Door {
    node: Node,
    life: u64,
    sender: mpsc::Sender<Incoming>,
}

/// The listening sockets, links and connections of a world.
#[derive(Default)]
pub(crate) struct Network {
    doors: BTreeMap<SocketAddr, Door>,
    /// The addresses of host names.
    pub(super) names: BTreeMap<String, Vec<IpAddr>>,
    ports: u16,
    pub(super) links: Links,
    connections: Vec<Weak<Connection>>,
}

impl Network {
    fn free_port(&mut self) -> u16 {
        self.ports = self.ports.checked_add(1).unwrap_or_default();
        FIRST_FREE_PORT + self.ports % (u16::MAX - FIRST_FREE_PORT)
    }

    /// The connections that still exist.
    pub(super) fn connections(&mut self) -> Vec<Arc<Connection>> {
        self.connections
            .retain(|connection| connection.strong_count() > 0);
        self.connections.iter().filter_map(Weak::upgrade).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    incoming: tokio::sync::Mutex<mpsc::Receiver<Incoming>>,
}

impl Listener {
    pub(crate) async fn accept(&self) -> io::Result<Incoming> {
        let incoming = self.incoming.lock().await.recv().await;
        incoming.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

pub(crate) async fn listen(context: Context, mut address: SocketAddr) -> io::Result<Listener> {
    interleave(&context).await;
    let (sender, incoming) = mpsc::channel(BACKLOG);
    let mut network = context.shared.network();
    if address.port() == 0 {
        let port = network.free_port();
        address.set_port(port);
    }
    if let Some(other) = network.doors.get(&address)
        && !other.sender.is_closed()
    {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let door = Door {
        node: context.node,
        life: context.life,
        sender,
    };
    network.doors.insert(address, door);
    drop(network);
    context.trace("listen", &[u64::from(address.port())]);
    Ok(Listener {
        address,
        incoming: tokio::sync::Mutex::new(incoming),
    })
}

/// Looks a name up among those of the world, without a delay.
pub(crate) fn resolve(context: &Context, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let network = context.shared.network();
    let unknown = || io::Error::new(io::ErrorKind::NotFound, "no such name");
    let addresses = network.names.get(host).ok_or_else(unknown)?;
    Ok(addresses
        .iter()
        .map(|ip| SocketAddr::new(*ip, port))
        .collect())
}

pub(crate) async fn connect(context: Context, address: SocketAddr) -> io::Result<Stream> {
    interleave(&context).await;
    context.trace("connect", &[u64::from(address.port())]);
    let mut wait = FIRST_WAIT;
    for _ in 0..TRIES {
        let node = {
            let network = context.shared.network();
            network.doors.get(&address).map(|door| door.node)
        };
        let node = node.ok_or(io::ErrorKind::ConnectionRefused)?;
        match round_trip(&context, node) {
            Passage::After(time) => {
                if !time.is_zero() {
                    super::clock::sleep(time).await;
                }
                return knock(&context, address).await;
            }
            Passage::Reset => return Err(io::ErrorKind::ConnectionReset.into()),
            Passage::Blocked => super::clock::sleep(wait).await,
        }
        wait *= 2;
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Decides the fate of a request and its answer, and their total time.
fn round_trip(context: &Context, node: Node) -> Passage {
    let now = context.shared.now_nanos();
    let mut network = context.shared.network();
    let mut random = context.shared.random();
    let mut total = Duration::ZERO;
    for route in [(context.node, node), (node, context.node)] {
        match network.links.send(route, 0, now, &mut random) {
            Passage::After(time) => total += time,
            other => return other,
        }
    }
    Passage::After(total)
}

async fn knock(context: &Context, address: SocketAddr) -> io::Result<Stream> {
    let (sender, there, local, connection) = {
        let mut network = context.shared.network();
        let local = SocketAddr::new(address.ip(), network.free_port());
        let door = network.doors.get(&address);
        let door = door.ok_or(io::ErrorKind::ConnectionRefused)?;
        let there = Context {
            shared: Arc::clone(&context.shared),
            node: door.node,
            life: door.life,
        };
        let sender = door.sender.clone();
        let connection = Connection::new(&context.shared, context.node, there.node);
        network.connections();
        network.connections.push(Arc::downgrade(&connection));
        (sender, there, local, connection)
    };
    let contexts = [context.clone(), there];
    let [ours, theirs] = ends(&connection, contexts, [local, address]);
    sender
        .send((theirs, local))
        .await
        .map_err(|_| io::ErrorKind::ConnectionRefused)?;
    Ok(ours)
}
