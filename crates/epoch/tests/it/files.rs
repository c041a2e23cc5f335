//! The log's files on a simulated disk: power lost at every change, and damage.

use std::collections::BTreeMap;
use std::path::Path;

use coeval_env::sim::{Loss, World};
use coeval_epoch::{
    Checkpoint, Configuration, Decision, Directory, Epoch, EpochNode, Frame, FrontEndId, LogFiles,
    LogWrite, NodeId, Part, Recovered, Resolution, Rhythm, Start, Term, Write,
};

use crate::judge::value_of;
use crate::world::key_of;

const DIRECTORY: &str = "/epochs";

/// The log writes of a cluster of one node, which puts one transaction in each of its epochs, and
/// the checkpoint after the fourth.
fn writes() -> (Vec<LogWrite>, Checkpoint) {
    let directory = Directory::default();
    directory.decide(&Decision::Found(Configuration {
        partitions: vec![vec![NodeId(1)]; 2],
        back_ends: [(NodeId(1), 1)].into(),
        ..Configuration::default()
    }));
    let mut node = EpochNode::start(Start {
        node: NodeId(1),
        incarnation: 1,
        front_end: Some(FrontEndId(1)),
        back_end: Some(Recovered::default()),
    });
    node.configure(&directory.configuration());
    node.lead(Term(1), Rhythm::Unified { minimum_ticks: 1 });
    let (mut writes, mut checkpoint) = (Vec::new(), None);
    let mut put = 0;
    for _ in 0..100 {
        node.tick();
        loop {
            let output = node.take();
            let is_idle = output.writes.is_empty() && output.proposals.is_empty();
            for write in output.writes {
                node.persisted(write.number);
                writes.push(write);
            }
            for decision in output.proposals {
                directory.decide(&decision);
                node.configure(&directory.configuration());
                node.proposal_ended();
            }
            let committed = output.answers.len() as u64;
            if committed > 0 || put == 0 {
                put += 1;
                let keys = (0..4).map(|key| Write {
                    key: key_of((put + key) % 6),
                    operation: value_of(put),
                });
                node.put_all(put, keys.collect());
                if put == 5 {
                    checkpoint = node.checkpoint();
                }
            }
            if is_idle {
                break;
            }
        }
    }
    assert!(put > 10, "{put}");
    writes.truncate(10);
    (writes, checkpoint.expect("five puts"))
}

/// What a directory says: the newest closing record, and every version in the log and in the
/// checkpoint.
fn content(recovered: &Recovered) -> (Epoch, BTreeMap<u64, usize>) {
    let pieces = recovered.pieces.iter();
    let pieces = pieces.map(|(at, piece)| (at.to_bits(), piece.writes.len()));
    (recovered.sealed, pieces.collect())
}

#[test]
fn a_loss_of_power_at_any_change_keeps_every_write_that_returned() {
    let (writes, checkpoint) = writes();
    let mut changes = 0;
    for crash_at in 0.. {
        let world = World::new(crash_at);
        let machine = world.node();
        if crash_at % 3 == 0 {
            world.set_loss(machine, Loss::Everything);
        }
        world.crash_at(machine, Some(crash_at));
        let (written, kept) = (writes.clone(), checkpoint.clone());
        let done = std::sync::Arc::new(std::sync::Mutex::new((0, false)));
        let report = std::sync::Arc::clone(&done);
        let ended = world.run(machine, async move {
            let (mut files, _) = LogFiles::open(Path::new(DIRECTORY)).await.unwrap();
            for (index, write) in written.iter().enumerate() {
                files.append(write).await.unwrap();
                report.lock().unwrap().0 = index + 1;
                if index == 6 {
                    files.checkpoint(&kept).await.unwrap();
                    report.lock().unwrap().1 = true;
                }
            }
        });
        world.crash_at(machine, None);
        let (count, has_checkpoint) = *done.lock().unwrap();
        let read = world.run(machine, async {
            let first = LogFiles::open(Path::new(DIRECTORY)).await.unwrap().1;
            // A second start reads the same.
            let second = LogFiles::open(Path::new(DIRECTORY)).await.unwrap().1;
            assert_eq!(content(&first), content(&second));
            first
        });
        let read = read.unwrap();
        assert!(!has_checkpoint || read.checkpoint == Some(checkpoint.clone()));
        let mut expected = BTreeMap::new();
        for write in &writes[..count] {
            expected.insert(write.file, write.bytes.clone());
        }
        let expected = Recovered::read(read.checkpoint.clone(), &expected).unwrap();
        let (sealed, pieces) = content(&read);
        let (least, wanted) = content(&expected);
        assert!(sealed >= least || read.checkpoint.is_some(), "{crash_at}");
        for (at, keys) in wanted {
            assert_eq!(pieces.get(&at), Some(&keys), "{crash_at}: {at}");
        }
        changes = crash_at;
        if ended.is_ok() {
            break;
        }
    }
    assert!(changes > 30, "{changes}");
}

#[test]
fn damage_before_the_newest_file_is_refused_by_its_epoch() {
    let (writes, _) = writes();
    let mut files = BTreeMap::new();
    for write in &writes {
        files.insert(write.file, write.bytes.clone());
    }
    let epochs: Vec<Epoch> = files.keys().copied().collect();
    assert!(epochs.len() > 4);
    for bit in (0..files[&epochs[2]].len() * 8).step_by(7) {
        let mut bad = files.clone();
        let bytes = bad.get_mut(&epochs[2]).unwrap();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let refused = Recovered::read(None, &bad).unwrap_err();
        assert_eq!(refused.file, epochs[2], "bit {bit}");
    }
    // In the newest it is a write that was not finished.
    let newest = *epochs.last().unwrap();
    let bytes = files.get_mut(&newest).unwrap();
    bytes.truncate(bytes.len() - 1);
    let read = Recovered::read(None, &files).unwrap();
    assert!(read.sealed < newest);
}

/// A closing record that comes again, late and with decisions, changes nothing.
#[test]
fn a_late_seal_is_only_answered() {
    let mut node = EpochNode::start(Start {
        node: NodeId(1),
        incarnation: 1,
        front_end: None,
        back_end: Some(Recovered::default()),
    });
    let directory = Directory::default();
    directory.decide(&Decision::Found(Configuration {
        partitions: vec![vec![NodeId(1)]],
        back_ends: [(NodeId(1), 1)].into(),
        ..Configuration::default()
    }));
    node.configure(&directory.configuration());
    let order = |part: Part| Frame {
        from: NodeId(2),
        incarnation: 9,
        to: NodeId(1),
        version: 1,
        term: Term(3),
        parts: vec![part],
    };
    node.receive(&order(Part::Seal(Epoch(5), Resolution::default())));
    let written = node.take().writes;
    assert_eq!(written.len(), 1);
    assert!(
        node.take().frames.is_empty(),
        "not before it is on the disk"
    );
    node.persisted(written[0].number);
    assert_eq!(node.take().frames[0].parts, [Part::Sealed(Epoch(5))]);
    let horizon = coeval_epoch::EpochTimestamp::default();
    node.receive(&order(Part::Closed(Epoch(5), None, horizon)));
    node.receive(&order(Part::Seal(Epoch(4), Resolution::default())));
    let output = node.take();
    assert!(output.writes.is_empty());
    assert_eq!(output.frames[0].parts, [Part::Sealed(Epoch(4))]);
    // A manager of an earlier term is not obeyed.
    let mut late = order(Part::Seal(Epoch(9), Resolution::default()));
    late.term = Term(2);
    node.receive(&late);
    assert!(node.take().writes.is_empty());
}
