use coeval_types::{DirectoryId, Lsn, Term};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::position::Position;

fn node() -> impl Strategy<Value = NodeId> {
    prop_oneof![0..9_u64, any::<u64>()].prop_map(NodeId)
}

fn place() -> impl Strategy<Value = Lsn> {
    prop_oneof![0..300_u64, 0..=Lsn::LIMIT.0].prop_map(Lsn)
}

fn term() -> impl Strategy<Value = Term> {
    prop_oneof![0..5_u32, 0..=Term::MAX.0].prop_map(Term)
}

fn position() -> impl Strategy<Value = Position> {
    (term(), place()).prop_map(|(term, end)| Position { term, end })
}

fn membership() -> impl Strategy<Value = Membership> {
    let ids = vec(any::<u128>(), 0..6);
    (vec(node(), 0..5), vec(node(), 0..5), 1..4_u32, ids).prop_map(
        |(voters, learners, version, ids)| {
            let members = Membership::new(voters, learners);
            let nodes: Vec<NodeId> = members.members().collect();
            let ids = ids.into_iter().map(DirectoryId);
            members.at_version(version, nodes.into_iter().zip(ids))
        },
    )
}

fn contents() -> impl Strategy<Value = Content> {
    prop_oneof![
        vec(any::<u8>(), 0..200).prop_map(|bytes| Content::Payload(bytes.into())),
        membership().prop_map(Content::Mark),
        membership().prop_map(Content::Membership),
    ]
}

/// Entries that follow a position, each of the previous term or a later one.
fn entries(previous: Position, parts: Vec<(u64, u32, Content)>) -> Vec<Entry> {
    let mut before = previous;
    let mut entries = Vec::new();
    for (space, above, content) in parts {
        let end = before.end.0 + space;
        let term = before.term.0 + above;
        if end > Lsn::LIMIT.0 || term > Term::MAX.0 {
            break;
        }
        let entry = Entry {
            start: before.end,
            end: Lsn(end),
            term: Term(term),
            content,
        };
        before = entry.position();
        entries.push(entry);
    }
    entries
}

fn body() -> impl Strategy<Value = Body> {
    let append = (
        position(),
        place(),
        vec((1..5000_u64, 0..3_u32, contents()), 0..5),
    );
    let verified =
        (place(), place()).prop_map(|(received, durable)| Verified { received, durable });
    prop_oneof![
        (position(), any::<bool>(), any::<bool>()).prop_map(|(last, preliminary, transfer)| {
            Body::VoteRequest {
                last,
                preliminary,
                transfer,
            }
        }),
        any::<(bool, bool)>().prop_map(|(preliminary, granted)| Body::Vote {
            preliminary,
            granted
        }),
        append.prop_map(|(previous, commit, parts)| Body::Append {
            previous,
            commit,
            entries: entries(previous, parts),
        }),
        place().prop_map(|matched| Body::Appended { matched }),
        (place(), any::<u64>()).prop_map(|(commit, round)| Body::Heartbeat { commit, round }),
        (any::<u64>(), proptest::option::of(verified))
            .prop_map(|(round, verified)| Body::HeartbeatAnswer { round, verified }),
        (place(), place()).prop_map(|(start, end)| Body::Recover(Request::Marks { start, end })),
        position().prop_map(|last| Body::Recover(Request::Check { last })),
        place().prop_map(|start| Body::Recover(Request::From { start })),
        (place(), contents()).prop_map(|(end, content)| Body::Differs {
            end,
            entry: Entry {
                start: Lsn(7),
                end: Lsn(9),
                term: Term(3),
                content,
            },
        }),
        Just(Body::Campaign),
        Just(Body::Stale),
        any::<u64>().prop_map(|number| Body::Ask { number }),
        (any::<u64>(), place()).prop_map(|(number, at)| Body::Asked { number, at }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    (node(), node(), term(), body()).prop_map(|(from, to, term, body)| Message {
        from,
        to,
        term,
        body,
    })
}

proptest! {
    #[test]
    fn messages_come_back(message in message()) {
        prop_assert_eq!(decode(&encode(&message)), Ok(message));
    }

    #[test]
    fn a_part_of_a_message_is_none(message in message(), more: u8) {
        let bytes = encode(&message);
        for length in 0..bytes.len() {
            prop_assert!(decode(&bytes.slice(..length)).is_err());
        }
        let longer: Bytes = bytes.iter().copied().chain([more]).collect::<Vec<u8>>().into();
        prop_assert!(decode(&longer).is_err());
    }

    #[test]
    fn there_is_one_way_to_write_it(message in message(), at: prop::sample::Index, value: u8) {
        let mut bytes = encode(&message).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = value;
        let bytes = Bytes::from(bytes);
        if let Ok(other) = decode(&bytes) {
            prop_assert_eq!(encode(&other), bytes);
        }
    }

    #[test]
    fn memberships_come_back(membership in membership()) {
        let bytes = encode_membership(&membership);
        prop_assert_eq!(bytes.len() as u64, membership_bytes(&membership));
        prop_assert_eq!(decode_membership(&bytes), Ok(membership));
    }
}

#[test]
fn an_append_is_small() {
    let message = Message {
        from: NodeId(1),
        to: NodeId(2),
        term: Term(7),
        body: Body::Append {
            previous: Position::new(7, 1 << 30),
            commit: Lsn(1 << 30),
            entries: entries(
                Position::new(7, 1 << 30),
                vec![(4096, 0, Content::Payload(vec![0; 4064].into()))],
            ),
        },
    };
    assert_eq!(encode(&message).len(), 4064 + 22);
}

#[test]
fn what_is_wrong_is_said() {
    let wrong: [(&[u8], &str); 6] = [
        (&[], "an early end"),
        (&[99, 1, 2, 3], "an unknown kind"),
        (
            &[4, 1, 2, 3, 0x80, 0],
            "a number in more bytes than it needs",
        ),
        (
            &[4, 1, 2, 0xFF, 0xFF, 0xFF, 0x7F, 0],
            "a term past the limit",
        ),
        (&[2, 1, 2, 3, 4], "an unknown flag"),
        (&[10, 1, 2, 3, 4], "more bytes than belong to it"),
    ];
    for (bytes, what) in wrong {
        let error = decode(&Bytes::copy_from_slice(bytes)).expect_err("no message");
        assert_eq!(error.what, what, "{bytes:?}");
    }
}

/// What builds that know no cluster version write and read: the bytes of version 1 are
/// those, and the bytes of a later version are none that such builds take for members.
#[test]
fn members_of_the_first_version_are_encoded_as_ever() {
    let members = Membership::new([NodeId(1), NodeId(2), NodeId(5)], [NodeId(9)]);
    assert_eq!(&encode_membership(&members)[..], [3, 1, 1, 3, 1, 9]);
    let named = members.at_version(2, [(NodeId(5), DirectoryId(0x0201))]);
    let bytes = encode_membership(&named);
    assert_eq!(&bytes[..9], [3, 1, 1, 3, 1, 9, 2, 1, 5]);
    assert_eq!(&bytes[9..12], [1, 2, 0]);
    assert_eq!(bytes.len(), 9 + 16);
}
