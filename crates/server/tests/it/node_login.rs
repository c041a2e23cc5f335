//! Logins on a node that follows: by its own certificate, with or without tables of its own;
//! what the leader does not take another node's word for; and that a session gains nothing by
//! the node that it came through.
//!
//! Two servers of one cluster run in the test's process.

use std::time::Duration;

use coeval_peers::{ClusterId, NodeId, PeerStream};
use coeval_server::settings::OptionalClusterId;
use coeval_server::{RunningServer, Server, Settings, Storage};
use coeval_testkit::scram::{begin, first, last, log_in, log_in_with, request};
use coeval_testkit::tls::{Certificate, connect};
use coeval_testkit::wire::{Wire, error, kinds, query, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::config::ChannelBinding as Binding;

use crate::two_nodes;

/// Two nodes of a cluster, each with a certificate of its own for clients.
struct Pair {
    leader: RunningServer,
    follower: RunningServer,
    /// The follower's.
    certificate: Certificate,
    others: Certificate,
    _directories: [tempfile::TempDir; 2],
}

impl Pair {
    async fn start() -> Self {
        let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut certificates = [(); 2].map(|()| Certificate::new());
        let members = two_nodes::members().await;
        let start = |node: usize| {
            let settings = Settings {
                cluster_node: node as u64 + 1,
                cluster_id: OptionalClusterId(Some(ClusterId(7))),
                cluster_members: members.clone(),
                cluster_found: true,
                data_dir: directories[node].path().to_owned(),
                ..certificates[node].settings()
            };
            coeval_env::spawn("server", Server::start(settings, Storage::Directory))
        };
        let (one, two) = (start(0), start(1));
        let (one, two) = (one.await.unwrap().unwrap(), two.await.unwrap().unwrap());
        let (leader, follower) = loop {
            match (one.leads(), two.leads()) {
                (true, _) => {
                    certificates.swap(0, 1);
                    break (one, two);
                }
                (_, true) => break (two, one),
                _ => coeval_env::sleep(Duration::from_millis(20)).await,
            }
        };
        let [certificate, others] = certificates;
        Self {
            leader,
            follower,
            certificate,
            others,
            _directories: directories,
        }
    }

    fn leader_number(&self) -> u64 {
        let node = self.leader.node().unwrap();
        let leader = node.node_status().borrow().leader;
        leader.expect("it leads").0
    }

    fn follower_number(&self) -> u64 {
        3 - self.leader_number()
    }

    /// A stream from the follower to the leader.
    async fn stream(&self) -> PeerStream {
        let streams = self.follower.node().unwrap().streams();
        streams.open(NodeId(self.leader_number())).await.unwrap()
    }

    /// What the leader answers to an opening that the follower sends.
    async fn answer(&self, opening: &[u8]) -> Vec<u8> {
        let mut stream = self.stream().await;
        let length = (opening.len() as u32).to_le_bytes();
        stream
            .write_all(&[&length, opening].concat())
            .await
            .unwrap();
        stream.flush().await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let read = coeval_env::timeout(Duration::from_secs(30), read).await;
        read.expect("the leader closes the stream").unwrap();
        answer
    }
}

fn run(test: impl AsyncFnOnce(&Pair)) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .thread_stack_size(8 << 20)
        .build()
        .unwrap();
    runtime.block_on(async {
        let pair = Pair::start().await;
        test(&pair).await;
        pair.follower.stop().await;
        pair.leader.stop().await;
    });
}

const ANY: (&str, &str) = ("options", "-c coeval.read_from=any");

/// The opening of a session, written by hand: see `session/opening.rs`.
fn opening(vouched: Option<(u32, bool)>, number: i32, user: &str) -> Vec<u8> {
    fn put(out: &mut Vec<u8>, bytes: &[u8]) {
        out.extend((bytes.len() as u32).to_le_bytes());
        out.extend(bytes);
    }
    let mut out = Vec::new();
    match vouched {
        None => out.push(1),
        Some((role, as_visitor)) => {
            out.push(3);
            out.extend(role.to_le_bytes());
            out.push(u8::from(as_visitor));
        }
    }
    out.extend(number.to_le_bytes());
    put(&mut out, b"secret");
    put(&mut out, b"127.0.0.1:9");
    out.push(0);
    put(&mut out, b"");
    // Protocol 3.0, nothing to negotiate, no options.
    out.extend([0, 0]);
    out.extend(0_u32.to_le_bytes());
    out.extend(1_u32.to_le_bytes());
    put(&mut out, b"user");
    put(&mut out, user.as_bytes());
    out.push(0);
    out
}

#[test]
fn an_opening_that_claims_too_much_is_refused() {
    run(async |pair| {
        let mut root = Wire::connect(pair.leader.address()).await;
        root.rows("create role nina nologin").await;
        root.rows("create role bob login password 'bob'").await;
        let mut own = Wire::connect_as(pair.follower.address(), "visitor").await;
        assert_eq!(own.value("select 1").await.as_deref(), Some("1"));
        root.rows("create role chief superuser login password 'chief'")
            .await;
        let oid = |rows: Vec<Vec<Option<String>>>| -> u32 {
            rows[0][0].as_deref().unwrap().parse().unwrap()
        };
        let bob = oid(root
            .rows("select oid from pg_roles where rolname = 'bob'")
            .await);
        let nina = oid(root
            .rows("select oid from pg_roles where rolname = 'nina'")
            .await);
        let follower = pair.follower_number();
        let number = |node: u64| (node as i32) << 20;
        let number_of_follower = number(follower) + 9_999;

        // One that is right begins a session.
        let right = opening(Some((bob, false)), number_of_follower, "bob");
        let mut stream = pair.stream().await;
        let length = (right.len() as u32).to_le_bytes();
        stream
            .write_all(&[&length[..], &right, &query("select current_user::text")].concat())
            .await
            .unwrap();
        stream.flush().await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'+');
        let mut said = Vec::new();
        while !said.windows(3).any(|part| part == b"bob") {
            said.push(stream.read_u8().await.unwrap());
        }
        drop(stream);

        for (claim, user, state) in [
            // A role that does not exist, one that may not log in.
            ((bob + 1000, false), "bob", "28000"),
            ((bob + 1000, false), "chief", "28000"),
            ((nina, false), "nina", "28000"),
            // A visitor of a database that is open no longer; under the name of a role.
            ((10, true), "visitor", "28000"),
            ((bob, true), "bob", "28000"),
            ((10, true), "chief", "28000"),
        ] {
            let answer = pair
                .answer(&opening(Some(claim), number_of_follower, user))
                .await;
            let text = String::from_utf8_lossy(&answer);
            assert!(
                answer.starts_with(b"+E") && text.contains(state),
                "{claim:?} {user}: {text}"
            );
        }
        // The name decides nothing: the session is the role's of that number.
        let mut stream = pair.stream().await;
        let named = opening(Some((bob, false)), number_of_follower, "chief");
        let length = (named.len() as u32).to_le_bytes();
        let asks = query("create role eve superuser");
        stream
            .write_all(&[&length[..], &named, &asks].concat())
            .await
            .unwrap();
        stream.flush().await.unwrap();
        let mut said = Vec::new();
        while !said.windows(5).any(|part| part == b"42501") {
            said.push(stream.read_u8().await.unwrap());
        }
        drop(stream);

        // The number of a session of another node; a session that no node vouches for; bytes
        // that are no opening.
        for stolen in [number(pair.leader_number()), 0, -1, number(3)] {
            let answer = pair
                .answer(&opening(Some((bob, false)), stolen, "bob"))
                .await;
            assert_eq!(answer, b"", "{stolen}");
        }
        let answer = pair.answer(&opening(None, number_of_follower, "bob")).await;
        assert_eq!(answer, b"^");
        let right = opening(Some((bob, false)), number_of_follower, "bob");
        for end in [1, 5, right.len() - 1] {
            assert_eq!(pair.answer(&right[..end]).await, b"", "cut at {end}");
        }
        // The client of the follower that was let in while the database was open stays.
        assert_eq!(own.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn a_password_is_bound_to_the_certificate_of_the_clients_node() {
    run(async |pair| {
        let mut root = Wire::connect(pair.leader.address()).await;
        root.rows("create role app login password 'secret'").await;
        let address = pair.follower.address();
        let tls = pair.certificate.client();
        let let_in = connect(address, tls.clone(), "app", "secret", Binding::Require).await;
        let rows = let_in
            .unwrap()
            .query("select current_user::text", &[])
            .await;
        assert_eq!(rows.unwrap()[0].get::<_, &str>(0), "app");
        let wrong = connect(address, tls.clone(), "app", "wrong", Binding::Require).await;
        assert_eq!(wrong.err().unwrap().code().unwrap().code(), "28P01");
        // A man in the middle who has the leader's certificate.
        let mut stolen = tls;
        stolen.binding = pair.others.client().binding;
        let stolen = connect(address, stolen, "app", "secret", Binding::Require).await;
        assert_eq!(stolen.err().unwrap().code().unwrap().code(), "28000");
    });
}

#[test]
fn a_node_without_tables_asks_the_leader_for_the_account() {
    run(async |pair| {
        let mut root = Wire::connect(pair.leader.address()).await;
        pair.follower.read_from(None);
        let address = pair.follower.address();
        // The database is open.
        let mut visitor = Wire::connect_as(address, "visitor").await;
        root.rows("create role chief superuser login password 'chief'")
            .await;
        for round in 0..20 {
            let text = format!("create role bob login password 'p{round}' connection limit 1");
            root.query(&text).await;
            let password = format!("p{round}");
            let mut wire = Wire::open(address).await;
            let parameters = [("user", "bob"), ("database", "bank"), ANY];
            let answers = log_in_with(&mut wire, &parameters, &password).await;
            assert_eq!(answers.last().unwrap().kind, 'Z', "{answers:?}");
            let user = wire.value("select current_user::text").await;
            assert_eq!(user.as_deref(), Some("bob"));
            let mut second = Wire::open(address).await;
            let refused = log_in(&mut second, "bob", &password).await;
            assert_eq!(error(&refused).sqlstate(), "53300");
            let mut wrong = Wire::open(address).await;
            let refused = log_in(&mut wrong, "bob", "wrong").await;
            assert_eq!(error(&refused).sqlstate(), "28P01");
            drop(wire);
            root.rows("alter role bob nologin").await;
            let mut late = Wire::open(address).await;
            let refused = log_in(&mut late, "bob", &password).await;
            assert_eq!(error(&refused).sqlstate(), "28000");
            root.rows("drop role bob").await;
        }
        assert_eq!(visitor.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn who_exists_is_not_told_by_a_follower_either() {
    run(async |pair| {
        let mut root = Wire::connect(pair.leader.address()).await;
        root.rows("create role app superuser login password 'secret'")
            .await;
        root.rows("create role mute login").await;
        let mut offers = Vec::new();
        for address in [pair.leader.address(), pair.follower.address()] {
            for user in ["nobody", "mute", "app"] {
                let mut wire = Wire::open(address).await;
                let mechanisms = begin(&mut wire, user).await;
                wire.send(&first()).await;
                let answer = wire.receive().await.unwrap();
                assert_eq!(request(&answer), 11);
                let text = String::from_utf8(answer.contents[4..].to_vec()).unwrap();
                let salt = text.split(',').nth(1).unwrap().to_owned();
                wire.send(&last(&answer, "wrong")).await;
                let refused = wire.until_closed().await;
                let message = error(&refused).field(b'M').unwrap().replace(user, "…");
                offers.push((user, salt, mechanisms, message));
            }
        }
        // The same salt, errors and offers on both nodes.
        assert_eq!(offers[..3], offers[3..]);
        assert_eq!(offers[0].3, offers[2].3);
    });
}

#[test]
fn a_session_that_began_elsewhere_is_what_its_role_is_on_the_leader() {
    run(async |pair| {
        let mut root = Wire::connect(pair.leader.address()).await;
        root.rows("create role bob login").await;
        root.rows("create role chief superuser login").await;
        let address = pair.follower.address();
        let open = async |user: &str| {
            let mut wire = Wire::open(address).await;
            wire.send(&start(&[("user", user), ("database", "bank"), ANY]))
                .await;
            let answers = wire.until('Z').await;
            let parameter = |name: &str| {
                let status = answers.iter().find(|answer| {
                    answer.kind == 'S' && answer.contents.starts_with(name.as_bytes())
                });
                String::from_utf8(status.unwrap().contents.clone()).unwrap()
            };
            assert!(kinds(&answers).starts_with('R'), "{}", kinds(&answers));
            let is_superuser = parameter("is_superuser").contains("on");
            assert_eq!(is_superuser, user != "bob");
            wire
        };
        // They read here; the leader has never heard of them.
        let (mut bob, mut chief, mut gone) =
            (open("bob").await, open("chief").await, open("bob").await);
        let sessions = pair.leader.sessions();
        for wire in [&mut bob, &mut chief, &mut gone] {
            wire.rows("select 1").await;
        }
        assert_eq!(pair.leader.sessions(), sessions);
        root.rows("alter role chief nosuperuser").await;
        let refused = chief.query("create role eve superuser").await;
        assert_eq!(error(&refused).sqlstate(), "42501");
        for refused in [
            "create role eve",
            "set session authorization chief",
            "select coeval.cluster_transfer(1)",
            "set log_min_duration_statement = 0",
        ] {
            let answers = bob.query(refused).await;
            assert_eq!(error(&answers).sqlstate(), "42501", "{refused}");
        }
        assert_eq!(pair.leader.sessions(), sessions + 2);
        // A role of the same name is another role.
        root.rows("drop role bob").await;
        root.rows("create role bob superuser login").await;
        gone.send(&query("create role eve")).await;
        let refused = gone.until_closed().await;
        assert_eq!(error(&refused).sqlstate(), "28000");
        // What the server's log is about, a client may not set at the start either.
        root.rows("create role small login").await;
        let mut wire = Wire::open(address).await;
        let options = (
            "options",
            "-c log_min_duration_statement=0 -c coeval.read_from=any",
        );
        wire.send(&start(&[("user", "small"), options])).await;
        let refused = wire.until_closed().await;
        assert_eq!(error(&refused).sqlstate(), "42501");
        // Bad settings are refused as on the leader.
        let mut refusals = Vec::new();
        for address in [address, pair.leader.address()] {
            let mut wire = Wire::open(address).await;
            let options = ("options", "-c nonsense=1 -c coeval.read_from=any");
            wire.send(&start(&[("user", "small"), options])).await;
            refusals.push(wire.until_closed().await);
        }
        assert_eq!(refusals[0], refusals[1]);
        assert_eq!(kinds(&refusals[0]), "E");
    });
}
