//! Tests of the handshake: what comes back, what is refused, and what earlier builds send.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;

fn hello() -> Hello {
    Hello {
        versions: VERSIONS,
        from: identity_of(3),
        to: NodeId(1),
        purpose: Purpose::Stream,
        listens: ([10, 0, 0, 3], 7003).into(),
        newcomer: None,
        announced: Some(announced()),
        protocol: Some(Protocol::Leader),
    }
}

fn announced() -> Announcement {
    Announcement {
        reads: 2,
        directory: Some(DirectoryId(33)),
        founds: false,
        founders: Some(11),
    }
}

/// A hello as a build that speaks no more than version 4 sends it.
fn old_hello() -> Hello {
    Hello {
        versions: 4..=4,
        announced: None,
        ..hello()
    }
}

fn identity_of(node: u64) -> Identity {
    Identity {
        cluster: ClusterId(0xc0e7a1),
        node: NodeId(node),
    }
}

fn members() -> Members {
    let address = SocketAddr::from(([127, 0, 0, 1], 7000));
    Members {
        addresses: (1..=3).map(|node| (NodeId(node), address.into())).collect(),
        expected: BTreeSet::from([NodeId(5)]),
        removed: BTreeSet::from([NodeId(4)]),
        voters: BTreeSet::from([NodeId(3)]),
        ..Members::default()
    }
}

/// Reading from a slice never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).as_mut().poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("a slice never keeps its caller waiting"),
    }
}

#[test]
fn each_refusal_has_its_reason_and_says_it() {
    let own = identity_of(1);
    assert_eq!(hello().judge(&own, &members()), Ok(5));
    assert_eq!(old_hello().judge(&own, &members()), Ok(4));
    let expected = Hello {
        from: identity_of(5),
        ..hello()
    };
    assert_eq!(expected.judge(&own, &members()), Ok(5));
    let versions = |versions| Hello {
        versions,
        ..hello()
    };
    assert_eq!(versions(0..=9).judge(&own, &members()), Ok(5));
    let from = |node| Hello {
        from: identity_of(node),
        ..hello()
    };
    let mut other_cluster = hello();
    other_cluster.from.cluster = ClusterId(2);
    let other_purpose = Hello {
        purpose: Purpose::Other(9),
        ..hello()
    };
    let newcomer = |node| Hello {
        from: identity_of(node),
        newcomer: NonZeroU64::new(7),
        ..hello()
    };
    assert_eq!(newcomer(2).judge(&own, &members()), Ok(5));
    let other_addressee = Hello {
        to: NodeId(2),
        ..hello()
    };
    for (hello, reason, words) in [
        (
            versions(6..=7),
            Reason::Version,
            "node 3 speaks 6 to 7, node 1 speaks 4 to 5",
        ),
        (versions(0..=0), Reason::Version, "node 3 speaks 0"),
        (versions(RangeInclusive::new(6, 1)), Reason::Version, ""),
        (
            other_cluster,
            Reason::Cluster,
            "node 3 of cluster 00000000000000000000000000000002",
        ),
        (
            newcomer(3),
            Reason::Forgotten,
            "what it had acknowledged is lost",
        ),
        (from(1), Reason::OwnId, "every node has an id of its own"),
        (
            other_addressee,
            Reason::Addressee,
            "this is node 1, not node 2",
        ),
        (from(4), Reason::Removed, "takes a new id"),
        (from(9), Reason::Unknown, "no member with the id 9"),
        (other_purpose, Reason::Other, "knows no purpose 9"),
    ] {
        let refusal = hello.judge(&own, &members()).unwrap_err();
        assert_eq!(refusal.reason, reason);
        assert!(refusal.words().contains(words), "{refusal}");
    }
}

#[test]
fn a_member_is_known_by_its_directory_and_by_what_it_reads() {
    let own = identity_of(1);
    let named = |id, version| Members {
        directories: [(NodeId(3), DirectoryId(id))].into(),
        version,
        ..members()
    };
    let said = |announced| Hello {
        announced: Some(announced),
        ..hello()
    };
    assert_eq!(hello().judge(&own, &named(33, 2)), Ok(5));
    let founds = Announcement {
        founds: true,
        ..announced()
    };
    // Its directory is known: it has crashed before it had founded.
    assert_eq!(said(founds).judge(&own, &named(33, 2)), Ok(5));
    let founding = Members {
        founds: true,
        ..members()
    };
    assert_eq!(said(founds).judge(&own, &founding), Ok(5));
    let founded = Members {
        founders: [(NodeId(3), DirectoryId(33))].into(),
        ..members()
    };
    assert_eq!(said(founds).judge(&own, &founded), Ok(5));
    // The log has come to name the directory of a founder that was left out.
    let adopted = Members {
        vouched: [NodeId(3)].into(),
        ..named(33, 2)
    };
    assert_eq!(hello().judge(&own, &adopted), Ok(5));
    for (hello, members, reason, words) in [
        (
            hello(),
            named(34, 2),
            Reason::Directory,
            "another directory",
        ),
        (
            old_hello(),
            named(33, 2),
            Reason::Reads,
            "node 3 says that it reads up to 1: it runs a build that reads no more",
        ),
        (
            hello(),
            named(33, 3),
            Reason::Reads,
            "node 3 says that it reads up to 2: its cluster_version_limit is 2, or",
        ),
        (
            hello(),
            Members {
                vouched: [NodeId(3)].into(),
                ..members()
            },
            Reason::Founded,
            "left out when the cluster was founded (--cluster-without 3)",
        ),
        (
            hello(),
            Members {
                is_removed: true,
                ..members()
            },
            Reason::Other,
            "node 1 has been removed from the cluster",
        ),
        (
            said(founds),
            members(),
            Reason::Founded,
            "what it had acknowledged is lost",
        ),
    ] {
        let refusal = hello.judge(&own, &members).unwrap_err();
        assert_eq!(refusal.reason, reason);
        assert!(refusal.words().contains(words), "{refusal}");
    }
}

#[test]
fn a_node_of_version_four_hears_what_it_has_always_heard() {
    let old = old_hello().encode();
    let new = hello().encode();
    let fields = 16 + HELLO_BYTES - CHECKSUM_BYTES + 1 + 2 + 16 + 8;
    assert_eq!(old.len(), fields + CHECKSUM_BYTES);
    assert_eq!(old[16..fields], new[16..fields]);
    let answer = |version| Answer {
        from: identity_of(1),
        announced: Some(announced()),
        verdict: Ok(version),
    };
    let (old, new) = (answer(4).encode(), answer(5).encode());
    assert_eq!(old.len(), HEAD_BYTES + ANSWER_BYTES);
    assert_eq!(new.len(), old.len() + 37);
    assert_eq!(now(Answer::read(&mut &old[..])).unwrap().announced, None);
}

#[test]
fn both_read_back_what_they_say_and_find_every_flipped_bit() {
    let bytes = hello().encode();
    assert_eq!(now(Hello::read(&mut &bytes[..])).unwrap(), hello());
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(now(Hello::read(&mut &flipped[..])).is_err(), "bit {bit}");
    }
    for end in 0..bytes.len() {
        let torn = now(Hello::read(&mut &bytes[..end]));
        assert!(matches!(torn, Err(HandshakeError::Ended)), "{torn:?}");
    }
    let refusal = Refusal::new(Reason::Removed, "gone");
    for verdict in [Ok(4), Ok(5), Err(refusal)] {
        let answer = Answer {
            from: identity_of(1),
            announced: verdict
                .as_ref()
                .ok()
                .filter(|version| **version == 5)
                .map(|_| announced()),
            verdict,
        };
        let bytes = answer.encode();
        assert_eq!(now(Answer::read(&mut &bytes[..])).unwrap(), answer);
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(now(Answer::read(&mut &flipped[..])).is_err(), "bit {bit}");
        }
    }
}

#[test]
fn a_later_version_may_say_more() {
    let mut bytes = hello().encode();
    bytes.truncate(bytes.len() - CHECKSUM_BYTES);
    bytes.extend_from_slice(b"and more");
    let bytes = seal(bytes);
    assert_eq!(now(Hello::read(&mut &bytes[..])).unwrap(), hello());
}

#[test]
fn an_earlier_version_may_say_less_and_is_told_so() {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[1, 0, 1, 0, 0, 0, 0, 0]);
    put_identity(&mut bytes, &identity_of(3));
    bytes.extend_from_slice(&1u64.to_le_bytes());
    let hello = now(Hello::read(&mut &seal(bytes)[..])).unwrap();
    let refusal = hello.judge(&identity_of(1), &members()).unwrap_err();
    assert_eq!(refusal.reason, Reason::Version);
}

#[test]
fn addresses_of_both_kinds_come_back() {
    for listens in ["10.1.2.3:7001", "[2001:db8::1]:7001", "0.0.0.0:1", "[::]:0"] {
        let hello = Hello {
            listens: listens.parse().unwrap(),
            ..hello()
        };
        let read = now(Hello::read(&mut &hello.encode()[..])).unwrap();
        assert_eq!(read, hello, "{listens}");
    }
}

#[test]
fn a_name_comes_back_and_an_earlier_version_reads_an_open_address() {
    let long = ["a".repeat(63).as_str(); 4].join(".")[2..].to_owned();
    for host in ["db1", "db1.example.com.", &long] {
        let hello = Hello {
            listens: Location::new(host, 7003).unwrap(),
            ..hello()
        };
        let mut bytes = hello.encode();
        let read = now(Hello::read(&mut &bytes[..])).unwrap();
        assert_eq!(read, hello);
        // As a build reads it that knows nothing after the newcomer.
        bytes.truncate(bytes.len() - CHECKSUM_BYTES);
        bytes[10..12].copy_from_slice(&4u16.to_le_bytes());
        let read = now(Hello::read(&mut &seal(bytes)[..])).unwrap();
        assert_eq!(read.listens.to_string(), "[::]:7003");
        // A node that announces nothing else says where it listens.
        let silent = Hello {
            announced: None,
            ..hello
        };
        let read = now(Hello::read(&mut &silent.encode()[..])).unwrap();
        assert_eq!(read.listens, silent.listens);
        assert_eq!(read.announced, Some(Announcement::NOTHING));
    }
}

#[test]
fn a_protocol_comes_back_and_another_one_is_refused() {
    let epochs = Members {
        protocol: Protocol::Epoch,
        ..members()
    };
    for listens in [hello().listens, Location::new("db1", 7003).unwrap()] {
        for said in [Some(announced()), Some(Announcement::NOTHING)] {
            let of = |protocol| Hello {
                listens: listens.clone(),
                announced: said,
                protocol,
                ..hello()
            };
            let read = |hello: &Hello| now(Hello::read(&mut &hello.encode()[..])).unwrap();
            let epoch = of(Some(Protocol::Epoch));
            assert_eq!(read(&epoch), epoch);
            // A node of the usual protocol says nothing of it, as every build before.
            let leader = of(Some(Protocol::Leader));
            assert_eq!(read(&leader), leader);
            assert!(leader.encode().len() < epoch.encode().len());
            assert_eq!(epoch.judge(&identity_of(1), &epochs), Ok(5));
            let refused = |hello: &Hello, members: &Members| {
                let refusal = hello.judge(&identity_of(1), members).unwrap_err();
                assert_eq!(refusal.reason, Reason::Protocol);
                refusal.words().to_owned()
            };
            let words = refused(&epoch, &members());
            assert!(words.contains("of the protocol leader, node 3 of one of epoch"));
            refused(&leader, &epochs);
            // One of a later build.
            let mut bytes = epoch.encode();
            bytes.truncate(bytes.len() - CHECKSUM_BYTES);
            *bytes.last_mut().unwrap() = 77;
            let later = now(Hello::read(&mut &seal(bytes)[..])).unwrap();
            assert_eq!(later.protocol, None);
            assert!(refused(&later, &epochs).contains("does not know"));
        }
    }
}

#[test]
fn strangers_are_known_by_their_first_bytes() {
    for stranger in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
    ] {
        let error = now(Hello::read(&mut &stranger[..])).unwrap_err();
        assert!(matches!(error, HandshakeError::Magic), "{error}");
    }
    let mut lie = hello().encode();
    lie[12..14].copy_from_slice(&u16::MAX.to_le_bytes());
    let error = now(Hello::read(&mut &lie[..])).unwrap_err();
    assert!(matches!(error, HandshakeError::Length(65535)), "{error}");
}

#[test]
fn a_version_that_was_not_offered_is_not_spoken() {
    let answer = Answer {
        from: identity_of(1),
        announced: None,
        verdict: Ok(6),
    };
    let error = now(Answer::read(&mut &answer.encode()[..])).unwrap_err();
    assert!(matches!(error, HandshakeError::Version(6)), "{error}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(rest: Vec<u8>) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&rest);
        let _ = now(Hello::read(&mut &bytes[..]));
        let _ = now(Answer::read(&mut &bytes[..]));
    }
}
