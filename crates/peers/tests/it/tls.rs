//! Mutual TLS, over real sockets of the local machine.

use std::time::Duration;

use coeval_peers::{
    ClusterId, Event, Identity, Inbox, Loss, Members, NodeId, Peers, Pem, Security, Settings, Tls,
    TlsError, node_name,
};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

use crate::support::{CHECKPOINT, KINDS, LOG};

/// A certificate authority.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// Signs a certificate and its key, for these names, valid until this year.
    fn sign(&self, names: &[&str], year: i32) -> (String, String) {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn tls(&self, node: u64) -> Tls {
        let (certificate, key) = self.sign(&[&node_name(NodeId(node), "shop")], 2200);
        tls(&self.pem, &certificate, &key, node).unwrap()
    }
}

fn tls(authority: &str, certificate: &str, key: &str, node: u64) -> Result<Tls, TlsError> {
    let pem = Pem {
        authority: authority.as_bytes(),
        certificate: certificate.as_bytes(),
        key: key.as_bytes(),
    };
    Tls::new(pem, "shop", NodeId(node))
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

async fn start(node: u64, security: Security) -> (Peers, Inbox) {
    let own = Identity {
        cluster: ClusterId(7),
        node: NodeId(node),
    };
    let listen = "127.0.0.1:0".parse().unwrap();
    let settings = Settings::default();
    Peers::start(own, listen, Members::default(), security, settings, KINDS)
        .await
        .unwrap()
}

fn introduce(nodes: &[(u64, &Peers)]) {
    let addresses = nodes
        .iter()
        .map(|(node, peers)| (NodeId(*node), peers.address().into()));
    let members = Members {
        addresses: addresses.collect(),
        ..Members::default()
    };
    for (_, peers) in nodes {
        peers.set_members(members.clone()).unwrap();
    }
}

/// Two nodes that cannot connect, with the fault that each reports of the other: node 1
/// connects to node 2, and node 2 to node 1.
fn strangers(one: Security, two: Security) -> [String; 2] {
    run(async {
        let (one, _inbox) = start(1, one).await;
        let (two, _other) = start(2, two).await;
        introduce(&[(1, &one), (2, &two)]);
        let fault = async |peers: &Peers| {
            loop {
                let status = peers.status().remove(0);
                assert_eq!(status.connects, 0);
                if let Some(fault) = status.fault {
                    return fault;
                }
                coeval_env::sleep(Duration::from_millis(5)).await;
            }
        };
        let faults = [fault(&one).await, fault(&two).await];
        assert_eq!(one.door().let_in + two.door().let_in, 0);
        faults
    })
}

#[test]
fn nodes_of_one_authority_talk() {
    let authority = Authority::new("shop");
    run(async {
        let (one, mut of_one) = start(1, Security::Tls(authority.tls(1))).await;
        let (two, mut of_two) = start(2, Security::Tls(authority.tls(2))).await;
        introduce(&[(1, &one), (2, &two)]);
        crate::support::connected(&mut of_one, 2).await;
        let payload: Vec<u8> = (0..1_000_000u32).map(|byte| byte as u8).collect();
        for number in 0..10u8 {
            let kind = CHECKPOINT;
            one.send(NodeId(2), kind, payload.clone().into(), Loss::Kept)
                .unwrap();
            one.send(NodeId(2), LOG, vec![number].into(), Loss::Kept)
                .unwrap();
        }
        let (mut pieces, mut numbers) = (0, Vec::new());
        while pieces < 10 || numbers.len() < 10 {
            let frame = crate::support::frame(&mut of_two).await;
            assert_eq!(frame.from, NodeId(1));
            match frame.kind {
                CHECKPOINT => {
                    assert_eq!(frame.payload, payload);
                    pieces += 1;
                }
                _ => numbers.push(frame.payload[0]),
            }
        }
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
        // One node restarts, and reconnects.
        drop((one, of_one));
        while !matches!(of_two.next().await, Some(Event::Disconnected(..))) {}
    });
}

#[test]
fn streams_are_guarded_as_frames_are() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let authority = Authority::new("shop");
    run(async {
        let (one, _inbox) = start(1, Security::Tls(authority.tls(1))).await;
        let (two, _other) = start(2, Security::Tls(authority.tls(2))).await;
        let (nine, _ninth) = start(9, Security::Tls(authority.tls(9))).await;
        introduce(&[(1, &one), (2, &two), (3, &nine)]);
        let mut stream = one.open_stream(NodeId(2)).await.unwrap();
        let (from, mut other) = two.streams().next().await.unwrap();
        assert_eq!((from, stream.node()), (NodeId(1), NodeId(2)));
        let said: Vec<u8> = (0..1_000_000u32).map(|byte| byte as u8).collect();
        let saying = async {
            stream.write_all(&said).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let hearing = async {
            let mut heard = Vec::new();
            other.read_to_end(&mut heard).await.unwrap();
            other.write_all(b"heard").await.unwrap();
            other.shutdown().await.unwrap();
            heard
        };
        let (answer, heard) = tokio::join!(saying, hearing);
        assert_eq!((answer.as_str(), heard == said), ("heard", true));
        // At node 3's address another node listens.
        let refused = one.open_stream(NodeId(3)).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "no stream to node 3: TLS: the certificate does not name node-3.shop, but node-9.shop"
        );
    });
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let (ours, theirs) = (Authority::new("shop"), Authority::new("shop"));
    let faults = strangers(Security::Tls(ours.tls(1)), Security::Tls(theirs.tls(2)));
    for fault in faults {
        assert_eq!(
            fault,
            "TLS: the certificate is not of this cluster's authority"
        );
    }
}

#[test]
fn without_a_certificate_nobody_comes_in() {
    let authority = Authority::new("shop");
    let [plain, guarded] = strangers(Security::Plain, Security::Tls(authority.tls(2)));
    // The answer of node 2's TLS to a plain hello.
    assert!(
        plain.contains("does not speak the protocol") || plain.contains("ended"),
        "{plain}"
    );
    assert!(guarded.starts_with("TLS: "), "{guarded}");
}

/// The error of a node whose certificate node 2 would not accept.
fn told(certificate: (String, String), authority: &Authority) -> String {
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};

    run(async {
        let (two, _inbox) = start(2, Security::Tls(authority.tls(2))).await;
        introduce(&[(1, &two), (2, &two)]);
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap();
        roots.add(root).unwrap();
        let config = ClientConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.0.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(certificate.1.as_bytes()).unwrap(),
            )
            .unwrap();
        let stream = coeval_env::connect(two.address()).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
        let name = ServerName::try_from("node-2.shop").unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        let hello = coeval_peers::handshake::Hello {
            versions: coeval_peers::handshake::VERSIONS,
            from: Identity {
                cluster: ClusterId(7),
                node: NodeId(1),
            },
            to: NodeId(2),
            purpose: coeval_peers::handshake::Purpose::Frames,
            listens: ([127, 0, 0, 1], 7001).into(),
            newcomer: None,
            announced: None,
            protocol: Some(coeval_types::Protocol::Leader),
        };
        let answer = coeval_peers::handshake::greet(&mut stream, &hello).await;
        match answer {
            Ok(answer) => answer.verdict.unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    })
}

#[test]
fn the_certificate_of_another_node_is_refused_with_its_reason() {
    let authority = Authority::new("shop");
    let said = told(authority.sign(&["node-9.shop"], 2200), &authority);
    assert_eq!(
        said,
        "the certificate does not name node-1.shop, but node-9.shop"
    );
    let said = told(authority.sign(&["node-1.mill"], 2200), &authority);
    assert_eq!(
        said,
        "the certificate does not name node-1.shop, but node-1.mill"
    );
}

#[test]
fn an_expired_certificate_is_refused_with_its_reason() {
    let authority = Authority::new("shop");
    let said = told(authority.sign(&["node-1.shop"], 2010), &authority);
    assert!(said.contains("CertificateExpired"), "{said}");
    // The node that uses the certificate is refused at start.
    let (certificate, key) = authority.sign(&["node-1.shop"], 2010);
    let refused = tls(&authority.pem, &certificate, &key, 1).err().unwrap();
    let words = refused.to_string();
    assert!(
        words.starts_with("this certificate is of no use to node 1: the certificate has expired, "),
        "{words}"
    );
}

#[test]
fn a_node_that_answers_for_another_is_not_believed() {
    let authority = Authority::new("shop");
    run(async {
        let (one, _inbox) = start(1, Security::Tls(authority.tls(1))).await;
        let (nine, _other) = start(9, Security::Tls(authority.tls(9))).await;
        // Node 9 listens at node 2's address.
        introduce(&[(1, &one), (2, &nine)]);
        let fault = loop {
            if let Some(fault) = one.status()[0].fault.clone() {
                break fault;
            }
            coeval_env::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!(
            fault,
            "TLS: the certificate does not name node-2.shop, but node-9.shop"
        );
    });
}

#[test]
fn what_other_nodes_would_refuse_is_refused_at_the_start() {
    let authority = Authority::new("shop");
    let (certificate, key) = authority.sign(&["node-1.shop"], 2200);
    let (_, another_key) = authority.sign(&["node-1.shop"], 2200);
    let other = Authority::new("shop");
    let text = authority.pem.as_str();
    for (authority, certificate, key, node, words) in [
        (
            text,
            &*certificate,
            &*key,
            2,
            "does not name node-2.shop, but node-1.shop",
        ),
        (
            &other.pem,
            &certificate,
            &key,
            1,
            "not of this cluster's authority",
        ),
        (text, &certificate, &another_key, 1, "cannot be used"),
        (
            "",
            &certificate,
            &key,
            1,
            "the authority: there is no certificate in it",
        ),
        (
            text,
            "",
            &key,
            1,
            "the certificate: there is no certificate in it",
        ),
        (text, &certificate, "", 1, "the key: "),
    ] {
        let refused = tls(authority, certificate, key, node).err().unwrap();
        assert!(refused.to_string().contains(words), "{refused}");
    }
    tls(text, &certificate, &key, 1).unwrap();
}

#[test]
fn a_new_certificate_serves_new_connections() {
    let (before, after) = (Authority::new("shop"), Authority::new("shop"));
    run(async {
        let (one, mut of_one) = start(1, Security::Tls(before.tls(1))).await;
        let (two, _inbox) = start(2, Security::Tls(before.tls(2))).await;
        introduce(&[(1, &one), (2, &two)]);
        crate::support::connected(&mut of_one, 2).await;
        one.set_security(Security::Tls(after.tls(1))).unwrap();
        two.set_security(Security::Tls(after.tls(2))).unwrap();
        let address = two.address();
        drop(two);
        while !matches!(of_one.next().await, Some(Event::Disconnected(..))) {}
        let own = Identity {
            cluster: ClusterId(7),
            node: NodeId(2),
        };
        let members = Members {
            addresses: [(NodeId(1), one.address().into())].into(),
            ..Members::default()
        };
        let security = Security::Tls(after.tls(2));
        let settings = Settings::default();
        let again = Peers::start(own, address, members, security, settings, KINDS).await;
        let (two, _inbox) = again.unwrap();
        crate::support::connected(&mut of_one, 2).await;
        // The authority of before is trusted no more, in neither direction.
        let (three, _inbox) = start(3, Security::Tls(before.tls(3))).await;
        introduce(&[(1, &one), (2, &two), (3, &three)]);
        for (peers, other) in [(&one, 3), (&three, 1)] {
            let fault = loop {
                let status = peers.status();
                let status = status.iter().find(|peer| peer.node == NodeId(other));
                let status = status.expect("it is a member");
                assert_eq!(status.connects, 0);
                if let Some(fault) = &status.fault {
                    break fault.clone();
                }
                coeval_env::sleep(Duration::from_millis(5)).await;
            };
            assert!(fault.contains("certificate"), "{fault}");
        }
        assert_eq!(three.door().let_in, 0);
    });
}
