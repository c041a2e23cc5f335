//! The client's library against nodes in this process, over real connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use coeval_env::Location;
use coeval_epoch::client::{
    Access, Client, ClientError, LoginError, Secret, Settings, delete, put,
};
use coeval_epoch::server::{Founding, Server, ServerError, Settings as NodeSettings, found};
use coeval_epoch::{EpochTimestamp, NoImage, Reason, Refusal, Right};
use coeval_peers::{ClusterId, NodeId, Pem, Security, Tls, node_name};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub fn in_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

/// Ports that are free, each for one listener.
pub async fn free_ports(count: usize) -> Vec<u16> {
    let mut ports = Vec::new();
    for _ in 0..count {
        ports.push(coeval_env::free_port().await.unwrap());
    }
    ports
}

/// Starts the node in a directory.
pub async fn start(directory: &Path, settle: impl FnOnce(&mut NodeSettings)) -> Server {
    let mut settings = NodeSettings::new(directory.to_owned());
    settings.clients = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    settings.lost_milliseconds = 60_000;
    settle(&mut settings);
    Server::start(settings).await.unwrap()
}

/// A cluster in this process.
pub struct Cluster {
    pub nodes: BTreeMap<NodeId, (TempDir, Server)>,
}

impl Cluster {
    pub async fn start(count: u64, settle: impl Fn(NodeId, &mut NodeSettings)) -> Self {
        Self::founded(count, |_| {}, settle).await
    }

    /// Starts a cluster with another layout than the usual one.
    pub async fn founded(
        count: u64,
        lay_out: impl Fn(&mut Founding),
        settle: impl Fn(NodeId, &mut NodeSettings),
    ) -> Self {
        let ports = free_ports(count as usize).await;
        let cluster = ClusterId::draw();
        let members: BTreeMap<NodeId, Location> = (1..=count)
            .map(|id| {
                let location = Location::new("127.0.0.1", ports[id as usize - 1]);
                (NodeId(id), location.unwrap())
            })
            .collect();
        let mut nodes = BTreeMap::new();
        for id in members.keys() {
            let directory = tempfile::tempdir().unwrap();
            let mut founding = Founding::new(cluster, *id, members.clone());
            lay_out(&mut founding);
            found(directory.path(), &founding).await.unwrap();
            let server = start(directory.path(), |settings| settle(*id, settings)).await;
            nodes.insert(*id, (directory, server));
        }
        Self { nodes }
    }

    /// Stops the nodes: their directories.
    pub async fn directories(self) -> BTreeMap<NodeId, TempDir> {
        let mut directories = BTreeMap::new();
        for (id, (directory, server)) in self.nodes {
            server.stop().await.unwrap();
            directories.insert(id, directory);
        }
        directories
    }

    /// Starts the nodes in these directories.
    pub async fn resume(directories: BTreeMap<NodeId, TempDir>) -> Self {
        let mut nodes = BTreeMap::new();
        for (id, directory) in directories {
            let server = start(directory.path(), |_| {}).await;
            nodes.insert(id, (directory, server));
        }
        Self { nodes }
    }

    /// A client of each node alone.
    pub fn clients(&self) -> Vec<(NodeId, Client)> {
        let settings = self.settings();
        let clients = settings.nodes.iter().map(|(node, location)| {
            let alone = Settings {
                nodes: vec![(*node, location.clone())],
                ..settings.clone()
            };
            (*node, Client::new(alone))
        });
        clients.collect()
    }

    pub fn settings(&self) -> Settings {
        let nodes = self.nodes.iter();
        let addresses = nodes.map(|(id, (_, server))| (*id, server.client_address().unwrap()));
        let mut settings = Settings::new(addresses.map(|(id, address)| (id, address.into())));
        // The machine may be slow; no test waits for this.
        settings.patience = Duration::from_secs(120);
        settings
    }

    pub async fn stop(self) {
        for (_, server) in self.nodes.into_values() {
            server.stop().await.unwrap();
        }
    }
}

#[test]
fn transactions_through_any_node() {
    in_runtime(async {
        let cluster = Cluster::start(3, |_, _| {}).await;
        let mut last = EpochTimestamp::default();
        let mut first = None;
        for (round, node) in cluster.settings().nodes.into_iter().enumerate() {
            let client = Client::new(Settings {
                nodes: vec![node.clone()],
                ..cluster.settings()
            });
            let value = format!("value {round}");
            let keys = (0..20).map(|key| format!("key {key}"));
            let at = client
                .put_all(keys.map(|key| put(key, value.clone())))
                .await
                .unwrap();
            assert!(at > last, "a later transaction has the higher timestamp");
            first.get_or_insert(at);
            last = at;
            assert_eq!(client.connected().await.unwrap().1, node.0);
        }
        let client = Client::new(cluster.settings());
        let now = client
            .get_all((0..20).map(|key| format!("key {key}")))
            .await
            .unwrap();
        assert!(now.at > last);
        assert!(
            now.values
                .keys()
                .all(|key| now.value(key).unwrap() == "value 2")
        );
        // Many at once, on one connection.
        let many: Vec<_> = (0..100)
            .map(|_| {
                let client = client.clone();
                coeval_env::spawn("reader", async move { client.get("key 7").await })
            })
            .collect();
        for read in many {
            assert_eq!(read.await.unwrap().unwrap().unwrap(), "value 2");
        }
        client.put_all([delete("key 7")]).await.unwrap();
        assert_eq!(client.get("key 7").await.unwrap(), None);
        let then = client.get_at("key 7", first.unwrap()).await.unwrap();
        assert_eq!(then.unwrap(), "value 0");
        let wrong = client
            .put_all([put("a", "1"), put("a", "2")])
            .await
            .unwrap_err();
        assert!(
            matches!(wrong, ClientError::Refused(Reason::Form)),
            "{wrong}"
        );
        let far = EpochTimestamp::end_of(coeval_epoch::Epoch(1 << 39));
        let wrong = client.get_at("a", far).await.unwrap_err();
        assert!(matches!(
            wrong,
            ClientError::Refused(Reason::TooFarAhead(_))
        ));
        let long = (0..70_000).map(|key| format!("{key}"));
        let wrong = client.get_all(long).await.unwrap_err();
        assert!(matches!(wrong, ClientError::TooLong), "{wrong}");
        cluster.stop().await;
    });
}

/// The code and the body of an answer of the admin listener.
async fn http(address: SocketAddr, line: &str) -> (String, String) {
    let mut stream = coeval_env::connect(address).await.unwrap();
    let request = format!("{line}\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
}

#[test]
fn health_and_metrics_over_http() {
    in_runtime(async {
        let cluster = Cluster::start(3, |id, settings| {
            if id == NodeId(1) {
                settings.admin = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
            }
        });
        let cluster = cluster.await;
        let node = &cluster.nodes[&NodeId(1)].1;
        let address = node.admin_address().unwrap();
        let mut settings = cluster.settings();
        settings.nodes.truncate(1);
        let client = Client::new(settings);
        for value in 0..3 {
            client.put_all([put("a", value.to_string())]).await.unwrap();
        }
        client.get("a").await.unwrap();
        let (code, health) = http(address, "GET /health HTTP/1.1").await;
        assert_eq!(
            (code.as_str(), health.as_str()),
            ("200", "{\"status\":\"ready\"}\n")
        );
        let (_, metrics) = http(address, "GET /metrics HTTP/1.1").await;
        let metric = |name: &str| -> u64 {
            let line = metrics
                .lines()
                .find(|line| line.starts_with(&format!("{name} ")));
            line.unwrap().rsplit_once(' ').unwrap().1.parse().unwrap()
        };
        assert_eq!(metric("coeval_epoch_committed_total"), 3);
        assert_eq!(metric("coeval_epoch_read_total"), 1);
        assert!(metric("coeval_epoch_closed_epoch") >= 3);
        assert!(metric("coeval_epoch_log_writes_total") >= 3);
        assert!(metric("coeval_epoch_epoch_microseconds") > 0);
        let (_, status) = http(address, "GET /status HTTP/1.1").await;
        assert!(status.ends_with("serves yes\n"), "{status}");
        assert_eq!(http(address, "HEAD /health HTTP/1.1").await.1, "");
        for (line, code) in [
            ("GET /x HTTP/1.1", "404"),
            ("PUT / HTTP/1.1", "405"),
            ("hello", "400"),
        ] {
            assert_eq!(http(address, line).await.0, code);
        }
        // Without a majority the node says why it does not serve.
        let (mut one, mut rest) = (None, Vec::new());
        for (id, node) in cluster.nodes {
            match id {
                NodeId(1) => one = Some(node),
                _ => rest.push(node),
            }
        }
        for (_, node) in rest {
            node.stop().await.unwrap();
        }
        while http(address, "GET /health HTTP/1.1").await.0 != "503" {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        let (_, health) = http(address, "GET /health HTTP/1.1").await;
        assert!(
            health.contains("a majority of the council is not there"),
            "{health}"
        );
        one.unwrap().1.stop().await.unwrap();
    });
}

#[test]
fn a_client_goes_on_at_another_node() {
    in_runtime(async {
        let mut cluster = Cluster::start(3, |_, settings| settings.lost_milliseconds = 300).await;
        let client = Client::new(cluster.settings());
        client
            .put_all([put("a", "1"), put("b", "1")])
            .await
            .unwrap();
        let (_, first) = client.connected().await.unwrap();
        let (directory, server) = cluster.nodes.remove(&first).unwrap();
        server.stop().await.unwrap();
        // The read needs no copy of the node that is gone once it is removed.
        let read = client.get_all(["a", "b"]).await.unwrap();
        assert_eq!(read.value("b").unwrap(), "1");
        assert_ne!(client.connected().await.unwrap().1, first);
        drop(directory);
        cluster.stop().await;
        let settings = Settings {
            patience: Duration::from_millis(200),
            ..Settings::new([(first, "127.0.0.1:1".parse().unwrap())])
        };
        let gone = Client::new(settings).get("a").await.unwrap_err();
        assert!(matches!(gone, ClientError::Unreachable(_)), "{gone}");
    });
}

#[test]
fn only_who_knows_the_secret_is_served() {
    in_runtime(async {
        let secret = |text: &str| Some(Secret::new(text.as_bytes()).unwrap());
        let cluster = Cluster::start(1, |_, settings| {
            settings.secret = secret("a secret of some length");
        });
        let cluster = cluster.await;
        let client = |secret| {
            let mut settings = cluster.settings();
            settings.secret = secret;
            // No test waits for this: a refusal that lasts is told at once.
            settings.patience = Duration::from_secs(86_400);
            Client::new(settings)
        };
        client(secret("a secret of some length"))
            .put_all([put("a", "1")])
            .await
            .unwrap();
        let refused = client(None).get("a").await.unwrap_err();
        assert!(
            matches!(
                refused,
                ClientError::NotLetIn {
                    error: LoginError::SecretWanted,
                    ..
                }
            ),
            "{refused}"
        );
        let other = secret("another of some length");
        let refused = client(other).put_all([put("a", "2")]).await.unwrap_err();
        assert!(
            matches!(
                refused,
                ClientError::NotLetIn {
                    error: LoginError::Secret,
                    ..
                }
            ),
            "{refused}"
        );
        cluster.stop().await;
    });
}

/// Roles with a secret each, one with a certificate, and what each may do.
#[test]
fn a_role_does_what_it_may() {
    in_runtime(async {
        let cluster = Cluster::start(1, |_, settings| {
            settings.roles = Access::read(
                "app put,get secret the_secret_of_app\n\
                 feed put secret the_secret_of_feed\n\
                 reports get secret the_secret_of_reports\n",
            )
            .unwrap();
        });
        let cluster = cluster.await;
        let client = |role: &str, secret: Option<&str>| {
            let mut settings = cluster.settings();
            role.clone_into(&mut settings.role);
            settings.secret = secret.map(|secret| Secret::new(secret.as_bytes()).unwrap());
            settings.patience = Duration::from_secs(86_400);
            Client::new(settings)
        };
        let app = client("app", Some("the_secret_of_app"));
        app.put_all([put("a", "1")]).await.unwrap();
        assert_eq!(app.get("a").await.unwrap().unwrap(), "1");
        let reports = client("reports", Some("the_secret_of_reports"));
        assert_eq!(reports.get("a").await.unwrap().unwrap(), "1");
        reports.hold().await.unwrap();
        let refused = |result: Result<(), ClientError>, right| {
            let refused = result.unwrap_err();
            let ClientError::Refused(reason) = refused else {
                panic!("{refused}");
            };
            assert_eq!(
                (reason, reason.sqlstate()),
                (Reason::NotAllowed(right), "42501")
            );
        };
        let wrote = reports.put_all([put("a", "2")]).await.map(drop);
        refused(wrote, Right::Put);
        let feed = client("feed", Some("the_secret_of_feed"));
        feed.put_all([put("b", "1")]).await.unwrap();
        refused(feed.get("a").await.map(drop), Right::Get);
        let held = feed.hold().await.unwrap_err();
        assert!(
            matches!(held, ClientError::NoImage(NoImage::NotAllowed)),
            "{held}"
        );
        assert!(feed.status().await.is_ok());
        // Neither another's secret, nor none, nor a role that is none.
        for (role, secret) in [
            ("app", Some("the_secret_of_reports")),
            ("app", None),
            ("", Some("the_secret_of_app")),
            ("", None),
            ("stranger", Some("the_secret_of_app")),
        ] {
            let refused = client(role, secret).get("a").await.unwrap_err();
            assert!(
                matches!(refused, ClientError::NotLetIn { .. }),
                "{role}: {refused}"
            );
        }
        assert_eq!(app.get("a").await.unwrap().unwrap(), "1");
        cluster.stop().await;
    });
}

/// Two nodes put and get, two others hold the copies.
#[test]
fn front_ends_and_back_ends_are_apart() {
    in_runtime(async {
        let cluster = Cluster::founded(
            4,
            |founding| {
                founding.front_ends = [1, 4].map(NodeId).into();
                founding.back_ends = [2, 3].map(NodeId).into();
            },
            |_, _| {},
        );
        let cluster = cluster.await;
        let clients: BTreeMap<NodeId, Client> = cluster.clients().into_iter().collect();
        let at = clients[&NodeId(1)].put_all([put("a", "1"), put("b", "1")]);
        let at = at.await.unwrap();
        let now = clients[&NodeId(4)].get_all(["a", "b"]).await.unwrap();
        assert!(now.at > at);
        assert_eq!(now.value("b").unwrap(), "1");
        let status = clients[&NodeId(2)].status().await.unwrap();
        assert!(status.contains("runs back end\n"), "{status}");
        assert!(status.contains("serves yes\n"), "{status}");
        let status = clients[&NodeId(1)].status().await.unwrap();
        assert!(status.contains("runs front end\n"), "{status}");
        assert!(status.contains("memory_bytes 0\n"), "{status}");
        let refused = clients[&NodeId(3)].get("a").await.unwrap_err();
        assert!(
            matches!(refused, ClientError::Refused(Reason::NoFrontEnd)),
            "{refused}"
        );
        // A client of several goes on to one that runs a front end.
        let mut settings = cluster.settings();
        settings.nodes.rotate_left(1);
        let client = Client::new(settings);
        client.put_all([put("a", "2")]).await.unwrap();
        assert_eq!(client.connected().await.unwrap().1, NodeId(4));
        assert_eq!(client.get("a").await.unwrap().unwrap(), "2");
        cluster.stop().await;
    });
}

/// Above the budget no value is taken, what is there is read, and deletes make room.
#[test]
fn a_memory_budget_refuses_values_and_takes_deletes() {
    in_runtime(async {
        let cluster = Cluster::founded(
            1,
            |founding| founding.history_epochs = 1,
            |_, settings| settings.memory_bytes = 1 << 20,
        );
        let cluster = cluster.await;
        let client = Client::new(cluster.settings());
        let value = "v".repeat(100 << 10);
        let mut taken = 0;
        let refused = loop {
            match client
                .put_all([put(format!("key {taken}"), value.clone())])
                .await
            {
                Ok(_) => taken += 1,
                Err(refused) => break refused,
            }
        };
        let ClientError::Refused(reason) = refused else {
            panic!("{refused}");
        };
        let out_of_memory = Reason::Refused(Refusal::OutOfMemory);
        assert_eq!((reason, reason.sqlstate()), (out_of_memory, "53200"));
        assert!((8..=10).contains(&taken), "{taken}");
        let read = client.get("key 0").await.unwrap().unwrap();
        assert_eq!(read, value);
        let gone = (0..taken).map(|key| delete(format!("key {key}")));
        client.put_all(gone).await.unwrap();
        // What they hide is collected some epochs later.
        let mut attempts = 0;
        while client.put_all([put("new", value.clone())]).await.is_err() {
            attempts += 1;
            assert!(attempts < 100, "no room is made");
        }
        assert_eq!(client.get("new").await.unwrap().unwrap(), value);
        let status = client.status().await.unwrap();
        let memory = status
            .lines()
            .find_map(|line| line.strip_prefix("memory_bytes "));
        let memory: u64 = memory.unwrap().parse().unwrap();
        assert!((100 << 10..400 << 10).contains(&memory), "{memory}");
        cluster.stop().await;
    });
}

/// An authority, and certificates of these nodes.
fn certificates(nodes: &[NodeId]) -> BTreeMap<NodeId, Tls> {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let made = nodes.iter().map(|node| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![node_name(*node, "shop")]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        let text = key.serialize_pem();
        let pem = Pem {
            authority: authority.as_bytes(),
            certificate: certificate.as_bytes(),
            key: text.as_bytes(),
        };
        (*node, Tls::new(pem, "shop", *node).unwrap())
    });
    made.collect()
}

#[test]
fn certificates_are_for_nodes_and_clients_alike() {
    in_runtime(async {
        let nodes = [1, 2, 3, 100].map(NodeId);
        let tls = certificates(&nodes);
        let cluster = Cluster::start(3, |id, settings| {
            settings.security = Security::Tls(tls[&id].clone());
        });
        let cluster = cluster.await;
        let client = |security, patience| {
            Client::new(Settings {
                security,
                patience,
                ..cluster.settings()
            })
        };
        let long = Duration::from_secs(120);
        let own = client(Security::Tls(tls[&NodeId(100)].clone()), long);
        own.put_all([put("a", "1")]).await.unwrap();
        assert_eq!(own.get("a").await.unwrap().unwrap(), "1");
        let stranger = certificates(&nodes);
        let stranger = Security::Tls(stranger[&NodeId(100)].clone());
        let short = Duration::from_secs(2);
        // What is not TLS ends the connection, in words of the operating system.
        for (security, words) in [
            (stranger, "not of this cluster's authority"),
            (Security::Plain, ": node 1 at "),
        ] {
            let refused = client(security, short).get("a").await.unwrap_err();
            let refused = refused.to_string();
            assert!(refused.contains(words), "{refused}");
        }
        cluster.stop().await;
    });
}

#[test]
fn beyond_this_machine_clients_are_let_in_by_certificates_only() {
    in_runtime(async {
        let directory = tempfile::tempdir().unwrap();
        let own = NodeId(1);
        let members = [(own, "127.0.0.1:0".parse().unwrap())].into();
        let founding = Founding::new(ClusterId::draw(), own, members);
        found(directory.path(), &founding).await.unwrap();
        let mut settings = NodeSettings::new(directory.path().to_owned());
        settings.clients = Some("0.0.0.0:0".parse().unwrap());
        settings.secret = Some(Secret::new(b"a secret of some length").unwrap());
        let refused = Server::start(settings).await.unwrap_err();
        assert!(matches!(refused, ServerError::Gate(_)), "{refused}");
        assert!(refused.to_string().contains("TLS"), "{refused}");
        let mut settings = NodeSettings::new(directory.path().to_owned());
        settings.admin = Some("0.0.0.0:0".parse().unwrap());
        let refused = Server::start(settings).await.unwrap_err();
        assert!(
            refused.to_string().contains("no authentication"),
            "{refused}"
        );
    });
}
