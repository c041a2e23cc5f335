//! The fuzz target `epoch`: bytes that a node may receive from another one or from a client, or
//! find on its disk.
//!
//! The input's first byte selects the parser for the rest: a message, a log file, a checkpoint,
//! an entry of the council, or what a client and a node say to each other. No input makes the parser panic, nor the node that is given what
//! was parsed; what was parsed keeps its meaning when it is encoded again.
//!
//! A target of the folder `fuzz` includes this file; the test below replays the corpus of
//! its runs.

use std::collections::BTreeMap;

use bytes::Bytes;
use coeval_epoch::client::protocol::{Asked, Reply};
use coeval_epoch::{
    Checkpoint, Configuration, Decision, Directory, Epoch, EpochNode, FrontEndId, FrontEndPlace,
    NodeId, Recovered, Rhythm, Start, Term, mend, wire,
};

/// A node of a small cluster, which has all three parts.
fn node(recovered: Recovered) -> EpochNode {
    let place = |node, incarnation| FrontEndPlace {
        node: NodeId(node),
        incarnation,
        first: Epoch(1),
    };
    let directory = Directory::default();
    directory.decide(&Decision::Found(Configuration {
        partitions: vec![vec![NodeId(1), NodeId(2)]; 2],
        back_ends: [(NodeId(1), 5), (NodeId(2), 6)].into(),
        front_ends: [(FrontEndId(1), place(1, 5)), (FrontEndId(2), place(2, 6))].into(),
        degree: 2,
        ..Configuration::default()
    }));
    let mut node = EpochNode::start(Start {
        node: NodeId(1),
        incarnation: 5,
        front_end: Some(FrontEndId(1)),
        back_end: Some(recovered),
    });
    node.configure(&directory.configuration());
    node.lead(Term(3), Rhythm::Unified { minimum_ticks: 0 });
    node
}

fn message(bytes: &[u8]) {
    let payload = Bytes::copy_from_slice(bytes);
    let Ok(frame) = wire::decode(NodeId(2), NodeId(1), payload) else {
        return;
    };
    let again = wire::encode(&frame);
    let parts = again.into_iter().flat_map(|payload| {
        let frame = wire::decode(NodeId(2), NodeId(1), payload);
        frame.expect("our own words").parts
    });
    assert_eq!(parts.collect::<Vec<_>>(), frame.parts);
    let mut node = node(Recovered::default());
    for _ in 0..2 {
        node.receive(&frame);
        let output = node.take();
        for write in &output.writes {
            node.persisted(write.number);
        }
        for said in &output.frames {
            assert!(!wire::encode(said).is_empty());
        }
        node.tick();
        node.take();
    }
}

/// Two files: the first byte says how much of the rest is the older one.
fn log(bytes: &[u8]) {
    let Some((share, bytes)) = bytes.split_first() else {
        return;
    };
    let (older, newer) = bytes.split_at(bytes.len() * usize::from(*share) / 255);
    let mut newer = newer.to_vec();
    let mut files = BTreeMap::from([(Epoch(7), older.to_vec()), (Epoch(8), newer.clone())]);
    let Ok(recovered) = Recovered::read(None, &files) else {
        return;
    };
    // A file that was mended says the same, and needs it no more.
    if mend(&mut newer) {
        assert!(!mend(&mut newer.clone()));
    }
    files.insert(Epoch(8), newer);
    let mended = Recovered::read(None, &files).expect("the older file is whole");
    assert_eq!(mended.pieces, recovered.pieces);
    assert_eq!(mended.sealed, recovered.sealed);
    let mut node = node(recovered);
    node.tick();
    node.take();
    let _ = node.checkpoint();
}

fn checkpoint(bytes: &[u8]) {
    // The checksum is the fuzzer's to leave out, or no input would come behind it.
    let mut whole = bytes.to_vec();
    whole.extend(crc32c::crc32c(bytes).to_le_bytes());
    let Ok(checkpoint) = Checkpoint::decode(&whole) else {
        return;
    };
    assert_eq!(
        Checkpoint::decode(&checkpoint.encode()),
        Ok(checkpoint.clone())
    );
    let recovered = Recovered {
        partitions: checkpoint.partitions.min(64),
        checkpoint: Some(checkpoint),
        ..Recovered::default()
    };
    let _ = node(recovered).checkpoint();
}

fn decision(bytes: &[u8]) {
    let Ok(decision) = Decision::decode(bytes) else {
        return;
    };
    assert_eq!(Decision::decode(&decision.encode()).as_ref(), Ok(&decision));
    let directory = Directory::default();
    directory.decide(&decision);
    directory.decide(&decision);
}

fn client(bytes: &[u8]) {
    let payload = Bytes::copy_from_slice(bytes);
    if let Ok((number, asked)) = Asked::decode(payload.clone()) {
        let again = Asked::decode(asked.encode(number).into());
        assert_eq!(again, Ok((number, asked)));
    }
    if let Ok((number, reply)) = Reply::decode(payload) {
        let again = Reply::decode(reply.encode(number).into());
        assert_eq!(again, Ok((number, reply)));
    }
}

/// Runs one input: the parser's number, then its bytes.
pub fn run(input: &[u8]) {
    match input.split_first() {
        Some((0, bytes)) => message(bytes),
        Some((1, bytes)) => log(bytes),
        Some((2, bytes)) => checkpoint(bytes),
        Some((3, bytes)) => decision(bytes),
        Some((_, bytes)) => client(bytes),
        None => {}
    }
}

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
#[test]
fn the_corpus_means_what_it_says() {
    replay::replay("epoch", run);
}
