//! The body of the fuzz target `consensus` in the folder `fuzz`, and a test that replays
//! its corpus.
//!
//! An input is a sequence of pieces, each preceded by a byte with its length and one that
//! selects one of three nodes: a leader, a follower, and a node without members. A piece is
//! refused or is a message, which must encode to the same bytes and is then received. No
//! node may panic, whatever the messages contain; their effects are not checked, because no
//! node would send them.

use bytes::Bytes;
use coeval_consensus::{
    Consensus, HardState, Membership, Message, NodeId, Position, Restored, Settings, encoding,
};

#[cfg(test)]
#[path = "../../../../../fuzz/replay.rs"]
mod replay;

/// Carries out the local part of a node's output.
fn take(node: &mut Consensus) {
    for _ in 0..3 {
        let ready = node.ready();
        for message in &ready.messages {
            let bytes = encoding::encode(message);
            assert_eq!(encoding::decode(&bytes).as_ref(), Ok(message));
        }
        for fetch in ready.fetches {
            let _ = node.fetched(fetch, None);
        }
        for to in ready.checkpoints {
            node.checkpoint_sent(to);
        }
        if let Some(write) = ready.write {
            node.persisted(write.number).expect("a write it asked for");
        }
    }
}

/// A leader that was a cluster of one node, to which other nodes have been added.
fn leader() -> Consensus {
    let alone = Restored::empty(Membership::new([NodeId(1)], []));
    let settings = Settings {
        entry_cache_bytes: 200,
        ..Settings::default()
    };
    let mut node = Consensus::new(NodeId(1), settings, &alone, 1).expect("a sound start");
    for _ in 0..20 {
        node.tick();
        take(&mut node);
    }
    for change in [
        coeval_consensus::Change::Learner(NodeId(2)),
        coeval_consensus::Change::Voter(NodeId(3)),
    ] {
        for _ in 0..4 {
            let _ = node.propose(Bytes::from_static(b"payload"));
        }
        node.change_membership(change)
            .expect("the one before is committed");
        take(&mut node);
    }
    node
}

/// Plays an input.
pub fn run(mut input: &[u8]) {
    let members = Membership::new([NodeId(1), NodeId(2), NodeId(3)], []);
    let mut source = leader();
    let log = source.entry_cache(coeval_types::Lsn(0)).unwrap_or_default();
    let state = HardState::default();
    let restored = Restored::from_entries(state, Position::EMPTY, members, &log);
    let follower = Consensus::new(NodeId(2), Settings::default(), &restored, 2);
    let nothing = Restored::empty(Membership::default());
    let newcomer = Consensus::new(NodeId(3), Settings::default(), &nothing, 3);
    take(&mut source);
    let mut nodes = [
        source,
        follower.expect("a sound start"),
        newcomer.expect("a sound start"),
    ];
    while let [length, which, rest @ ..] = input {
        let length = usize::from(*length).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        input = rest;
        let node = &mut nodes[usize::from(*which) % 3];
        if which & 0x40 != 0 {
            node.tick();
        }
        let piece = Bytes::copy_from_slice(piece);
        if let Ok(message) = encoding::decode(&piece) {
            assert_eq!(encoding::encode(&message), piece, "written in another way");
            let to = node.id();
            let _ = node.receive(Message { to, ..message });
        }
        take(node);
    }
}

#[cfg(test)]
#[test]
fn messages_are_refused_or_received_without_a_panic() {
    replay::replay("consensus", run);
}

/// A short search that runs on every toolchain: corpus inputs with a few bytes changed.
#[cfg(test)]
#[test]
#[expect(clippy::disallowed_methods, reason = "the inputs are files beside us")]
fn changed_messages_are_refused_or_received_without_a_panic() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/consensus");
    let mut state = 1_u64;
    let mut draw = |limit: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % limit
    };
    for entry in std::fs::read_dir(folder).expect("a folder that can be listed") {
        let path = entry.expect("a file").path();
        let kept = std::fs::read(path).expect("a file that can be read");
        for _ in 0..200 {
            let mut input = kept.clone();
            for _ in 0..1 + draw(8) {
                let at = draw(input.len());
                input[at] = if draw(2) == 0 {
                    draw(256) as u8
                } else {
                    input[draw(input.len())]
                };
            }
            run(&input);
        }
    }
}

/// Seed inputs for a fuzzer, made of messages that nodes do send: `cargo test -p
/// coeval-consensus --test it -- --ignored write_corpus`.
#[cfg(test)]
#[test]
#[ignore = "no test: writes the first inputs of a fuzz target into fuzz/corpus, when messages change"]
#[expect(clippy::disallowed_methods, reason = "the files are beside us")]
fn write_corpus() {
    use crate::message_cluster::{Cluster, Packet};

    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/consensus");
    std::fs::create_dir_all(&folder).expect("a folder that can be made");
    let members = Membership::new([NodeId(1), NodeId(2), NodeId(3)], []);
    for (seed, name) in ["a-first-term", "another-node", "a-third", "questions"]
        .iter()
        .enumerate()
    {
        let mut cluster = Cluster::new(&members, &[], Settings::default(), seed as u64);
        let mut input = Vec::new();
        for _ in 0..60 {
            for node in cluster.names() {
                cluster.tick(node).expect("a sound step");
                if let Some(consensus) = cluster.node(node) {
                    let _ = consensus.propose(Bytes::from_static(b"entry"));
                }
                if *name == "questions" {
                    // Refused while it follows no leader.
                    cluster.ask(node, seed as u64);
                }
                cluster.persist(node, 9).expect("a sound step");
            }
            for packet in std::mem::take(&mut cluster.packets) {
                if let Packet::Message(message) = &packet
                    && input.len() < 3000
                {
                    let bytes = encoding::encode(message);
                    input.push(bytes.len() as u8);
                    input.push(message.to.0 as u8 - 1);
                    input.extend_from_slice(&bytes);
                }
                cluster.deliver(packet).expect("a sound step");
            }
        }
        std::fs::write(folder.join(name), input).expect("a file that can be written");
    }
}
