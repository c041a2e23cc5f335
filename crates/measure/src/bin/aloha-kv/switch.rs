//! Figure 3.10: how long a switch of epochs takes, by the number of front ends.
//!
//! One node has the manager, a back end and a front end; every other one has a front end only. A client
//! reads, over and over: each read waits for the close of its epoch, so epochs follow each other without
//! pause, and nothing else happens. The nodes' payloads are bytes, encoded and decoded.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use coeval_epoch::{
    Answer, Configuration, Decision, Directory, Epoch, EpochNode, FrontEndId, FrontEndPlace, Key,
    NodeId, Recovered, Rhythm, Start, Term, wire,
};
use coeval_measure::{Failure, Output, processor_time};
use coeval_workload::plot::{Axis, Chart, Series};

/// Numbers of front ends: a timestamp has room for 255.
const FRONT_ENDS: [u64; 7] = [4, 8, 16, 32, 64, 128, 255];
/// Degrees of the barrier's tree; 0 is flat.
const DEGREES: [u8; 2] = [0, 8];
/// What the text says of 640 front ends: microseconds of a switch for each.
const TEXT: f64 = 3400.0 / 640.0;

struct Nodes {
    nodes: Vec<EpochNode>,
    links: VecDeque<(usize, usize, Bytes)>,
    /// Processor time of the first node, which has the manager, and of all.
    manager: Duration,
    all: Duration,
}

fn start(front_ends: u64, degree: u8) -> Nodes {
    let place = |node: u64| FrontEndPlace {
        node: NodeId(node),
        incarnation: 1,
        first: Epoch(1),
    };
    let ids = 1..=front_ends;
    let directory = Directory::default();
    directory.decide(&Decision::Found(Configuration {
        partitions: vec![vec![NodeId(1)]],
        back_ends: [(NodeId(1), 1)].into(),
        front_ends: ids
            .clone()
            .map(|node| (FrontEndId(node as u8), place(node)))
            .collect(),
        degree,
        history_epochs: 2,
        ..Configuration::default()
    }));
    let node = |node: u64| {
        let mut started = EpochNode::start(Start {
            node: NodeId(node),
            incarnation: 1,
            front_end: Some(FrontEndId(node as u8)),
            back_end: (node == 1).then(Recovered::default),
        });
        started.configure(&directory.configuration());
        match node {
            1 => started.lead(Term(1), Rhythm::Unified { minimum_ticks: 0 }),
            _ => started.leader_is(Term(1), NodeId(1)),
        }
        started
    };
    let mut nodes: Vec<EpochNode> = ids.map(node).collect();
    nodes[0].tick();
    Nodes {
        nodes,
        links: VecDeque::new(),
        manager: Duration::ZERO,
        all: Duration::ZERO,
    }
}

impl Nodes {
    /// Has a node take in payloads, and queues what it says. Returns its answers.
    fn turn(
        &mut self,
        node: usize,
        payloads: &[(usize, Bytes)],
    ) -> Result<Vec<(u64, Answer)>, Failure> {
        let before = processor_time();
        let own = NodeId(node as u64 + 1);
        for (from, payload) in payloads {
            let frame = wire::decode(NodeId(*from as u64 + 1), own, payload.clone())?;
            self.nodes[node].receive(&frame);
        }
        let mut answers = Vec::new();
        loop {
            let output = self.nodes[node].take();
            answers.extend(output.answers);
            for frame in &output.frames {
                let to = frame.to.0 as usize - 1;
                let payloads = wire::encode(frame).into_iter();
                self.links
                    .extend(payloads.map(|payload| (node, to, payload)));
            }
            let Some(newest) = output.writes.last() else {
                break;
            };
            self.nodes[node].persisted(newest.number);
        }
        let took = processor_time() - before;
        self.all += took;
        if node == 0 {
            self.manager += took;
        }
        Ok(answers)
    }

    /// Delivers what there is, each node's payloads at once.
    fn deliver(&mut self) -> Result<Vec<(u64, Answer)>, Failure> {
        let mut inboxes: Vec<Vec<(usize, Bytes)>> = vec![Vec::new(); self.nodes.len()];
        for (from, to, payload) in std::mem::take(&mut self.links) {
            inboxes[to].push((from, payload));
        }
        let mut answers = Vec::new();
        for (node, inbox) in inboxes
            .iter()
            .enumerate()
            .filter(|(_, inbox)| !inbox.is_empty())
        {
            answers.extend(self.turn(node, inbox)?);
        }
        Ok(answers)
    }

    fn closes(&self) -> u64 {
        self.nodes[0]
            .manager()
            .map_or(0, |manager| manager.closes())
    }
}

/// Switches until so much processor time is spent: how many, and the time of the manager's node and
/// of all.
fn switches(
    front_ends: u64,
    degree: u8,
    time: Duration,
) -> Result<(u64, Duration, Duration), Failure> {
    let mut nodes = start(front_ends, degree);
    // The client's front end is not the manager's node's.
    let client = 1;
    let key = Key::from_static(b"key");
    let mut handle = 0;
    let mut began: Option<(u64, Duration, Duration)> = None;
    let mut steps = 0_u64;
    let mut is_asked = false;
    loop {
        if !is_asked {
            handle += 1;
            nodes.nodes[client].get_latest(handle, vec![key.clone()]);
            nodes.turn(client, &[])?;
            is_asked = true;
        }
        let idle = nodes.links.is_empty();
        for (answered, answer) in nodes.deliver()? {
            if answered != handle || !matches!(answer, Answer::Values(..)) {
                return Err(format!("read {handle} was answered by {answer:?}").into());
            }
            is_asked = false;
        }
        if idle {
            // At the start, or what waits for a tick.
            for node in 0..nodes.nodes.len() {
                nodes.nodes[node].tick();
                nodes.turn(node, &[])?;
            }
        }
        steps += 1;
        let closes = nodes.closes();
        match began {
            None if closes > 20 => began = Some((closes, nodes.manager, nodes.all)),
            Some((first, manager, all)) if nodes.all - all >= time => {
                return Ok((closes - first, nodes.manager - manager, nodes.all - all));
            }
            _ if steps > 1_000_000_000 => return Err("epochs are not closed".into()),
            _ => {}
        }
    }
}

/// Measures the figure.
pub(crate) fn measure(seconds: f64, output: &mut Output) -> Result<(), Failure> {
    let time = Duration::from_secs_f64(seconds);
    output.say("figure 3.10: microseconds of processor time of a switch; for each front end");
    output.say("front ends  degree   manager's node   for each   all nodes   for each   the text, for each");
    let mut raw =
        String::from("front_ends,degree,switches,manager_microseconds,all_microseconds\n");
    let mut series = Vec::new();
    for degree in DEGREES {
        let mut points = Vec::new();
        for front_ends in FRONT_ENDS {
            let (count, manager, all) = switches(front_ends, degree, time)?;
            let each = |time: Duration| time.as_secs_f64() * 1e6 / count.max(1) as f64;
            let (manager, all) = (each(manager), each(all));
            let number = front_ends as f64;
            output.say(&format!(
                "{front_ends:>10} {degree:>7} {manager:>16.1} {:>10.2} {all:>11.1} {:>10.2} {TEXT:>20.1}",
                manager / number,
                all / number
            ));
            raw.push_str(&format!(
                "{front_ends},{degree},{count},{manager:.3},{all:.3}\n"
            ));
            points.push((number, manager));
        }
        series.push(Series {
            name: match degree {
                0 => "manager, flat".to_owned(),
                _ => format!("manager, tree of {degree}"),
            },
            points,
        });
    }
    let text = FRONT_ENDS.iter().map(|number| *number as f64);
    series.push(Series {
        name: "the text, passed".to_owned(),
        points: text.map(|number| (number, number * TEXT)).collect(),
    });
    output.file("aloha-kv-3.10.csv", raw.as_bytes())?;
    let chart = Chart {
        title: "Switch of epochs, after figure 3.10 of ALOHA-KV".to_owned(),
        x: Axis {
            name: "front ends".to_owned(),
            logarithmic: false,
        },
        y: Axis {
            name: "microseconds".to_owned(),
            logarithmic: false,
        },
        series,
    };
    output.chart("aloha-kv-3.10", &chart)?;
    Ok(())
}
