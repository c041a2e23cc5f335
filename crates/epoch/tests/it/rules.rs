//! The rules one by one, each in the smallest cluster that shows it.

use std::collections::BTreeSet;

use coeval_epoch::{
    Answer, Epoch, EpochTimestamp, Found, FrontEndId, NodeId, Reason, Rhythm, Write,
};

use crate::judge::value_of;
use crate::world::{Cluster, Layout, key_of};

fn settled(layout: Layout) -> Cluster {
    let mut cluster = Cluster::new(layout);
    cluster.settle(20);
    cluster
}

fn put_answer(cluster: &Cluster, handle: u64) -> Option<Answer> {
    let answer = cluster.judge.puts[&handle].answer.clone();
    answer.map(|(answer, _)| answer)
}

fn get_answer(cluster: &Cluster, handle: u64) -> Option<Answer> {
    let answer = cluster.judge.gets[&handle].answer.clone();
    answer.map(|(answer, _)| answer)
}

#[test]
fn a_put_is_committed_and_read_by_every_front_end() {
    let mut cluster = settled(Layout::of(3));
    let keys = BTreeSet::from([1, 2, 3, 4, 5]);
    let put = cluster.put(NodeId(1), &keys);
    cluster.settle(10);
    let Some(Answer::Committed(at)) = put_answer(&cluster, put) else {
        panic!("{:?}", put_answer(&cluster, put));
    };
    for node in 1..=3 {
        let get = cluster.get(NodeId(node), &keys, None);
        cluster.settle(10);
        let Some(Answer::Values(read, values)) = get_answer(&cluster, get) else {
            panic!("{:?}", get_answer(&cluster, get));
        };
        assert!(read > at);
        let expected = Found::from(&value_of(put));
        assert!(
            values.iter().all(|(_, found)| *found == expected),
            "{values:?}"
        );
    }
    cluster.judge.settle();
    assert_eq!(cluster.judge.objections, Vec::<String>::new());
}

/// With no client waiting nothing is said, and no epoch is closed.
#[test]
fn a_quiet_cluster_says_nothing() {
    for degree in [0, 2] {
        let mut cluster = settled(Layout {
            degree,
            ..Layout::of(5)
        });
        cluster.put(NodeId(2), &BTreeSet::from([1]));
        cluster.settle(10);
        let (said, closed) = (cluster.said, cluster.node(NodeId(1)).unwrap().closed());
        cluster.settle(50);
        assert_eq!(cluster.said, said);
        assert_eq!(cluster.node(NodeId(1)).unwrap().closed(), closed);
    }
}

/// One frame goes to each node, whatever the number of transactions and operations.
#[test]
fn a_batch_is_one_frame_for_each_node() {
    let mut cluster = settled(Layout::of(3));
    let node = cluster.node(NodeId(1)).unwrap();
    for handle in 100..150 {
        let writes = (0..6).map(|key| Write {
            key: key_of(key),
            operation: value_of(handle),
        });
        node.put_all(handle, writes.collect());
    }
    let frames = node.take().frames;
    let to: Vec<NodeId> = frames.iter().map(|frame| frame.to).collect();
    assert_eq!(to, [NodeId(2), NodeId(3)]);
}

#[test]
fn what_has_no_form_is_refused() {
    let mut cluster = settled(Layout::of(3));
    let node = cluster.node(NodeId(1)).unwrap();
    let write = |key| Write {
        key: key_of(key),
        operation: value_of(1),
    };
    node.put_all(1, Vec::new());
    node.put_all(2, vec![write(1), write(1)]);
    node.get_latest(3, Vec::new());
    let far = EpochTimestamp::new(Epoch(1 << 30), 0, FrontEndId(0));
    node.get_at(4, vec![key_of(1)], far);
    let refused = node.take().answers;
    let form = |handle| (handle, Answer::Aborted(Reason::Form));
    let far = (4, Answer::Aborted(Reason::TooFarAhead(far)));
    assert_eq!(refused, [form(1), form(2), form(3), far]);
}

/// A value that is too long on one back end takes the transaction back on the others.
#[test]
fn a_refusal_by_one_back_end_aborts_everywhere() {
    let mut cluster = settled(Layout::of(3));
    let long = vec![0; coeval_epoch::MOST_BYTES + 1];
    let mut writes: Vec<Write> = (0..8)
        .map(|key| Write {
            key: key_of(key),
            operation: value_of(77),
        })
        .collect();
    writes[3].operation = coeval_epoch::Operation::Value(long.into());
    cluster.judge.puts.insert(
        77,
        crate::judge::PutSeen {
            writes: writes.clone(),
            begun: 0,
            answer: None,
        },
    );
    cluster.node(NodeId(1)).unwrap().put_all(77, writes);
    cluster.take(NodeId(1));
    cluster.settle(10);
    let refused = Answer::Aborted(Reason::Refused(coeval_epoch::Refusal::TooLong));
    assert_eq!(put_answer(&cluster, 77), Some(refused));
    let get = cluster.get(NodeId(2), &(0..8).collect(), None);
    cluster.settle(10);
    let Some(Answer::Values(_, values)) = get_answer(&cluster, get) else {
        panic!("{:?}", get_answer(&cluster, get));
    };
    assert!(values.iter().all(|(_, found)| *found == Found::Nothing));
}

/// What a back end may hold of open epochs is refused above the limit, by its name; what is aborted or
/// closed gives it back.
#[test]
fn a_back_end_holds_no_more_than_its_limit() {
    let mut cluster = settled(Layout {
        // Three transactions of a key and a value each, on one of the back ends.
        limits: coeval_epoch::Limits {
            open_bytes: 3 * (5 + 8),
            ..coeval_epoch::Limits::default()
        },
        ..Layout::of(3)
    });
    let reason = Reason::Refused(coeval_epoch::Refusal::NoRoom);
    assert!(reason.to_string().contains("open_bytes"), "{reason}");
    let no_room = Answer::Aborted(reason);
    for _ in 0..4 {
        let puts: Vec<u64> = (0..8)
            .map(|_| cluster.put(NodeId(1), &BTreeSet::from([1])))
            .collect();
        // One is taken back before its epoch is closed.
        cluster.give_up(NodeId(1), puts[0]);
        cluster.settle(12);
        let answers: Vec<Option<Answer>> =
            puts.iter().map(|put| put_answer(&cluster, *put)).collect();
        let refused = answers
            .iter()
            .flatten()
            .filter(|answer| **answer == no_room);
        let committed = answers.iter().flatten();
        let committed = committed.filter(|answer| matches!(answer, Answer::Committed(_)));
        let counts = (refused.count(), committed.count());
        assert!(counts.0 >= 3 && counts.1 >= 2, "{answers:?}");
        assert!(answers.iter().all(Option::is_some), "{answers:?}");
    }
    cluster.finish();
    assert_eq!(cluster.judge.objections, Vec::<String>::new());
}

/// With the last copy of a partition gone nothing is committed, and the manager says which.
#[test]
fn the_last_copy_is_waited_for_by_name() {
    let mut cluster = settled(Layout {
        copies: 1,
        ..Layout::of(3)
    });
    cluster.crash(NodeId(2), 0, 0);
    let refused = cluster.node(NodeId(1)).unwrap().remove_back_end(NodeId(2));
    assert_eq!(refused, Err(vec![1]));
    // It was said once: what comes later is not refused.
    cluster.settle(5);
    let put = cluster.put(NodeId(1), &(0..12).collect());
    cluster.settle(20);
    assert_eq!(put_answer(&cluster, put), None);
    cluster.start(NodeId(2));
    cluster.settle(30);
    assert!(matches!(
        put_answer(&cluster, put),
        Some(Answer::Committed(_))
    ));
}

/// As long as the caller says that a back end with an only copy is dead, requests that come are
/// refused, and the partition is named; what had begun is answered once it is back.
#[test]
fn without_a_copy_what_comes_is_refused_by_the_partition() {
    let mut cluster = settled(Layout {
        copies: 1,
        ..Layout::of(3)
    });
    cluster.put(NodeId(3), &(0..12).collect());
    cluster.settle(6);
    let begun = cluster.put(NodeId(3), &(0..12).collect());
    cluster.crash(NodeId(2), 0, 0);
    let refused = Answer::Aborted(Reason::Lost(1));
    for _ in 0..3 {
        let dead = cluster.node(NodeId(1)).unwrap().remove_back_end(NodeId(2));
        assert_eq!(dead, Err(vec![1]));
        cluster.settle(1);
    }
    let manager = cluster.node(NodeId(1)).unwrap().manager().unwrap();
    assert_eq!(manager.lost(), [1]);
    let put = cluster.put(NodeId(3), &BTreeSet::from([1]));
    let get = cluster.get(NodeId(1), &BTreeSet::from([1]), None);
    for _ in 0..4 {
        let _ = cluster.node(NodeId(1)).unwrap().remove_back_end(NodeId(2));
        cluster.settle(1);
    }
    let answers = [put_answer(&cluster, put), get_answer(&cluster, get)];
    assert_eq!(get_answer(&cluster, get), Some(refused.clone()));
    // The put may have drawn a timestamp before: then it waits with the others.
    assert!([None, Some(refused)].contains(&answers[0]), "{answers:?}");
    assert_eq!(put_answer(&cluster, begun), None);
    cluster.start(NodeId(2));
    cluster.settle(30);
    assert!(matches!(
        put_answer(&cluster, begun),
        Some(Answer::Committed(_))
    ));
    let manager = cluster.node(NodeId(1)).unwrap().manager().unwrap();
    assert!(manager.lost().is_empty());
    cluster.finish();
    assert_eq!(cluster.judge.objections, Vec::<String>::new());
}

/// An epoch is closed when a client waits for it, and its length follows that of the closes.
#[test]
fn the_length_of_epochs_is_tuned() {
    let mut cluster = settled(Layout {
        rhythm: Rhythm::Tuned {
            minimum_ticks: 1,
            maximum_ticks: 9,
        },
        ..Layout::of(3)
    });
    let length = |cluster: &mut Cluster| {
        let manager = cluster.node(NodeId(1)).unwrap().manager().unwrap();
        manager.length_ticks()
    };
    let put = |cluster: &mut Cluster| cluster.put(NodeId(3), &BTreeSet::from([1, 2]));
    for _ in 0..20 {
        put(&mut cluster);
        cluster.settle(2);
    }
    assert_eq!(length(&mut cluster), 1);
    // A back end that answers late makes closes long, and epochs longer.
    for _ in 0..12 {
        put(&mut cluster);
        for _ in 0..4 {
            let late = std::mem::take(&mut cluster.in_flight);
            for id in cluster.up() {
                cluster.tick(id);
            }
            cluster.in_flight.extend(late);
        }
        cluster.settle(1);
    }
    assert!(length(&mut cluster) > 4, "{}", length(&mut cluster));
    cluster.finish();
    assert_eq!(cluster.judge.objections, Vec::<String>::new());
}

/// A back end is removed and its copies are made on the others; started again it comes in empty,
/// with what is then lacking.
#[test]
fn a_dead_back_end_is_replaced_beside_traffic() {
    let mut cluster = settled(Layout::of(3));
    let keys = (0..12).collect();
    for _ in 0..5 {
        cluster.put(NodeId(1), &keys);
        cluster.settle(3);
    }
    for (removed, copies) in [(NodeId(2), 2), (NodeId(3), 3)] {
        cluster.crash(removed, 0, 0);
        let manager = cluster.node(NodeId(1)).unwrap();
        assert_eq!(manager.remove_back_end(removed), Ok(()));
        cluster.take(NodeId(1));
        let put = cluster.put(NodeId(1), &BTreeSet::from([1, 2, 3]));
        cluster.settle(3);
        cluster.start(removed);
        // Its front end comes back; a put does not wait for the copies.
        cluster.settle(12);
        assert!(matches!(
            put_answer(&cluster, put),
            Some(Answer::Committed(_))
        ));
        cluster.put(NodeId(1), &keys);
        cluster.settle(40);
        let configuration = cluster.configuration();
        assert!(configuration.joining.is_empty(), "{configuration:?}");
        let counts: Vec<usize> = configuration.partitions.iter().map(Vec::len).collect();
        assert_eq!(counts, [2, 2, 2], "{configuration:?}");
        assert!(cluster.promoted >= copies, "{}", cluster.promoted);
    }
    cluster.finish();
    assert_eq!(cluster.judge.objections, Vec::<String>::new());
}

/// A node whose disk was lost with closed epochs on it does not come back as if it had them.
#[test]
fn a_lost_disk_is_no_copy() {
    let mut cluster = settled(Layout::of(3));
    for _ in 0..3 {
        cluster.put(NodeId(1), &(0..12).collect());
        cluster.settle(6);
    }
    let before = cluster.promoted;
    cluster.crash(NodeId(2), 0, 0);
    cluster.machines.get_mut(&NodeId(2)).unwrap().disk = crate::disk::Disk::default();
    cluster.start(NodeId(2));
    cluster.settle(60);
    assert!(cluster.promoted >= before + 2, "{}", cluster.promoted);
    cluster.finish();
    assert_eq!(cluster.judge.objections, Vec::<String>::new());
}

/// A front end dies in the middle of a transaction: it is whole or gone, and the others go on.
#[test]
fn a_dead_front_end_is_fenced_and_its_part_resolved() {
    for delivered in 0..6 {
        let mut cluster = settled(Layout::of(3));
        cluster.put(NodeId(1), &(0..12).collect());
        for frame in std::mem::take(&mut cluster.in_flight)
            .iter()
            .take(delivered)
        {
            cluster.deliver(frame);
        }
        cluster.in_flight.clear();
        cluster.crash(NodeId(1), 0, 0);
        cluster.elect(NodeId(2), false);
        // Node 1 held copies too: it comes back with its log, and a new front end.
        let put = cluster.put(NodeId(3), &BTreeSet::from([1, 2]));
        cluster.settle(5);
        cluster.start(NodeId(1));
        cluster.settle(40);
        assert!(matches!(
            put_answer(&cluster, put),
            Some(Answer::Committed(_))
        ));
        cluster.finish();
        assert_eq!(cluster.judge.objections, Vec::<String>::new());
    }
}

/// History is readable as far back as the configuration says, and refused by name before.
#[test]
fn collection_follows_the_horizon() {
    let mut cluster = settled(Layout {
        history: 3,
        ..Layout::of(3)
    });
    let mut at = Vec::new();
    for _ in 0..12 {
        let put = cluster.put(NodeId(1), &BTreeSet::from([1]));
        cluster.settle(6);
        match put_answer(&cluster, put) {
            Some(Answer::Committed(committed)) => at.push((committed, put)),
            other => panic!("{other:?}"),
        }
    }
    let mut answers = Vec::new();
    for (committed, put) in &at {
        let node = cluster.node(NodeId(2)).unwrap();
        let handle = 1000 + put;
        node.get_at(handle, vec![key_of(1)], *committed);
        cluster.judge.gets.insert(
            handle,
            crate::judge::GetSeen {
                begun: 0,
                answer: None,
                is_latest: false,
            },
        );
        cluster.take(NodeId(2));
        cluster.settle(6);
        answers.push(get_answer(&cluster, handle));
    }
    let readable = |answer: &Option<Answer>| matches!(answer, Some(Answer::Values(..)));
    let collected =
        |answer: &Option<Answer>| matches!(answer, Some(Answer::Aborted(Reason::Collected(_))));
    assert!(collected(&answers[0]), "{answers:?}");
    assert!(readable(answers.last().unwrap()), "{answers:?}");
    assert!(
        answers
            .iter()
            .all(|answer| readable(answer) || collected(answer))
    );
    cluster.judge.settle();
    assert_eq!(cluster.judge.objections, Vec::<String>::new());
}

/// Puts wait for an epoch of writes, and gets for one of reads.
#[test]
fn reads_and_writes_take_turns() {
    let mut cluster = settled(Layout {
        rhythm: Rhythm::Alternate {
            write_ticks: 2,
            read_ticks: 2,
        },
        ..Layout::of(3)
    });
    let keys = BTreeSet::from([1, 2]);
    let (mut puts, mut gets) = (BTreeSet::new(), BTreeSet::new());
    let (closed, written) = (cluster.node(NodeId(1)).unwrap().closed().0, cluster.written);
    for _ in 0..6 {
        let put = cluster.put(NodeId(1), &keys);
        let get = cluster.get(NodeId(2), &keys, None);
        cluster.settle(20);
        match (put_answer(&cluster, put), get_answer(&cluster, get)) {
            (Some(Answer::Committed(written)), Some(Answer::Values(read, _))) => {
                puts.insert(written.epoch());
                gets.insert(read.epoch());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(puts.is_disjoint(&gets), "{puts:?} {gets:?}");
    // Nothing is written for an epoch of reads: a write of each node for each one between.
    let closed = cluster.node(NodeId(1)).unwrap().closed().0 - closed;
    assert!(closed >= 10, "{closed}");
    let written = cluster.written - written;
    assert!(written <= 3 * closed.div_ceil(2), "{written} in {closed}");
    cluster.judge.settle();
    assert_eq!(cluster.judge.objections, Vec::<String>::new());
}
