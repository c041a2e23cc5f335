//! `coeval cert`: what it makes is what nodes accept, and nothing is overwritten.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at what another process has written"
)]

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use coeval_peers::{
    ClusterId, Event, Identity, Inbox, Kinds, Loss, Members, MessageKind, NodeId, Peers, Pem,
    Security, Settings, Tls,
};

const GREETING: MessageKind = MessageKind::new(1);
const KINDS: Kinds = Kinds {
    urgent: &[],
    other: &[GREETING],
};

/// Exit code, standard output and standard error.
fn cert(directory: &Path, arguments: &str) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .current_dir(directory)
        .arg("cert")
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().expect("it ends by itself");
    (code, text(output.stdout), text(output.stderr))
}

fn made(directory: &Path, arguments: &str) -> String {
    let (code, said, complaint) = cert(directory, arguments);
    assert_eq!((code, complaint.as_str()), (0, ""), "{arguments}");
    said
}

fn refused(directory: &Path, arguments: &str) -> String {
    let (code, said, complaint) = cert(directory, arguments);
    assert_eq!((code, said.as_str()), (1, ""), "{arguments}: {complaint}");
    complaint
}

fn tls(directory: &Path, node: u64) -> Tls {
    let read = |name: &str| std::fs::read(directory.join(name)).unwrap();
    let (authority, certificate, key) = (
        read("authority.pem"),
        read(&format!("node-{node}.pem")),
        read(&format!("node-{node}.key")),
    );
    let pem = Pem {
        authority: &authority,
        certificate: &certificate,
        key: &key,
    };
    Tls::new(pem, "shop", NodeId(node)).unwrap()
}

async fn start(directory: &Path, node: u64) -> (Peers, Inbox) {
    let own = Identity {
        cluster: ClusterId(7),
        node: NodeId(node),
    };
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let security = Security::Tls(tls(directory, node));
    let (members, settings) = (Members::default(), Settings::default());
    let started = Peers::start(own, listen, members, security, settings, KINDS);
    started.await.unwrap()
}

#[tokio::test]
async fn nodes_with_its_certificates_talk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let said = made(path, "authority --cluster shop");
    assert!(
        said.contains("authority.pem  the authority of cluster shop"),
        "{said}"
    );
    made(path, "node --cluster shop --node 1");
    let said = made(
        path,
        "node --cluster shop --node 2 --name db2.example.org --name 127.0.0.1",
    );
    assert!(
        said.contains("the certificate of node 2 of cluster shop"),
        "{said}"
    );

    for name in ["authority", "node-1", "node-2"] {
        for kind in ["pem", "key"] {
            let file = path.join(format!("{name}.{kind}"));
            let mode = std::fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
    }

    let (one, _of_one) = start(path, 1).await;
    let (two, mut of_two) = start(path, 2).await;
    let members = Members {
        addresses: [
            (NodeId(1), one.address().into()),
            (NodeId(2), two.address().into()),
        ]
        .into(),
        ..Members::default()
    };
    one.set_members(members.clone()).unwrap();
    two.set_members(members).unwrap();
    let say = async {
        while one
            .send(NodeId(2), GREETING, "hello".into(), Loss::Kept)
            .is_err()
        {
            coeval_env::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let hear = async {
        loop {
            if let Some(Event::Frame(frame)) = of_two.next().await {
                break frame.payload;
            }
        }
    };
    let (heard, ()) = tokio::join!(hear, say);
    assert_eq!(heard, "hello");
}

#[test]
fn what_is_there_is_replaced_only_by_force() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    made(path, "authority --cluster shop --to deep/ca");
    let key = path.join("deep/ca/authority.key");
    let before = std::fs::read(&key).unwrap();
    let complaint = refused(path, "authority --cluster shop --to deep/ca");
    assert!(
        complaint.contains("deep/ca/authority.pem is there already; say --force"),
        "{complaint}"
    );
    assert_eq!(std::fs::read(&key).unwrap(), before);

    // One of the two is enough.
    std::fs::write(path.join("node-1.key"), "mine").unwrap();
    let node = "node --cluster shop --node 1 --authority deep/ca";
    let complaint = refused(path, node);
    assert!(
        complaint.contains("node-1.key is there already"),
        "{complaint}"
    );
    assert!(!path.join("node-1.pem").exists());
    made(path, &format!("{node} --force"));
    let mode = std::fs::metadata(path.join("node-1.key")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    assert_ne!(std::fs::read(path.join("node-1.key")).unwrap(), b"mine");

    made(path, "authority --cluster shop --to deep/ca --force");
    assert_ne!(std::fs::read(&key).unwrap(), before);
    let left: Vec<_> = std::fs::read_dir(path.join("deep/ca")).unwrap().collect();
    assert_eq!(left.len(), 2);
}

#[test]
fn what_no_node_would_accept_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let complaint = refused(path, "node --cluster shop --node 1");
    assert!(
        complaint.contains("cannot read ./authority.pem")
            && complaint.contains("`coeval cert authority` makes it"),
        "{complaint}"
    );
    made(path, "authority --cluster shop");
    let complaint = refused(path, "node --cluster mill --node 1");
    assert!(
        complaint.contains("is not that of a cluster mill")
            && complaint.contains("not of this cluster's authority"),
        "{complaint}"
    );
    let complaint = refused(path, "authority --cluster two_words/ --to other");
    assert!(
        complaint.contains("cannot be a cluster's name"),
        "{complaint}"
    );
    let complaint = refused(path, "node --cluster shop --node 1 --name a/b");
    assert!(
        complaint.contains("\"a/b\" is neither a host name"),
        "{complaint}"
    );
    for name in ["node-2.shop", "NODE-2.Shop"] {
        let complaint = refused(path, &format!("node --cluster shop --node 1 --name {name}"));
        assert!(complaint.contains("names another node"), "{complaint}");
    }
    std::fs::write(path.join("authority.key"), "no key").unwrap();
    let complaint = refused(path, "node --cluster shop --node 1");
    assert!(complaint.contains("authority.key: "), "{complaint}");
    assert!(!path.join("node-1.pem").exists() && !path.join("node-1.key").exists());
    for nonsense in [
        "",
        "node --cluster shop",
        "node --cluster shop --node 0",
        "authority",
    ] {
        let (code, ..) = cert(path, nonsense);
        assert_eq!(code, 2, "{nonsense}");
    }
}
