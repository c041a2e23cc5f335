//! The client's library against nodes in this process, over real connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use coeval_env::Location;
use coeval_epoch::client::{Client, ClientError, LoginError, Secret, Settings, delete, put};
use coeval_epoch::server::{Founding, Server, ServerError, Settings as NodeSettings, found};
use coeval_epoch::{EpochTimestamp, Reason};
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

/// A cluster in this process.
struct Cluster {
    nodes: BTreeMap<NodeId, (TempDir, Server)>,
}

impl Cluster {
    async fn start(count: u64, settle: impl Fn(NodeId, &mut NodeSettings)) -> Self {
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
            let founding = Founding::new(cluster, *id, members.clone());
            found(directory.path(), &founding).await.unwrap();
            let mut settings = NodeSettings::new(directory.path().to_owned());
            settings.clients = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
            settings.lost_milliseconds = 60_000;
            settle(*id, &mut settings);
            let server = Server::start(settings).await.unwrap();
            nodes.insert(*id, (directory, server));
        }
        Self { nodes }
    }

    fn settings(&self) -> Settings {
        let nodes = self.nodes.iter();
        let addresses = nodes.map(|(id, (_, server))| (*id, server.client_address().unwrap()));
        let mut settings = Settings::new(addresses.map(|(id, address)| (id, address.into())));
        // The machine may be slow; no test waits for this.
        settings.patience = Duration::from_secs(120);
        settings
    }

    async fn stop(self) {
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
