//! Commands of a transcript, and the cluster that executes them.

use bytes::Bytes;
use coeval_consensus::{
    Body, Change, Content, Entry, Lease, Membership, NodeId, Ready, Recovery, Settings, Spacing,
};
use coeval_types::{Lsn, Term};

use super::describe;
use crate::message_cluster::{Cluster, Failure, Packet};

/// A scenario that is being played.
#[derive(Default)]
pub struct Script {
    cluster: Option<Cluster>,
    cut: Vec<NodeId>,
    /// Effects of the current command.
    lines: Vec<String>,
    is_quiet: bool,
}

fn node(word: &str) -> NodeId {
    NodeId(
        word.parse()
            .unwrap_or_else(|_| panic!("no node is called {word}")),
    )
}

fn number(word: &str) -> u64 {
    word.parse()
        .unwrap_or_else(|_| panic!("{word} is no number"))
}

impl Script {
    /// Executes the commands of a transcript, and returns the transcript with the actual
    /// effects.
    pub fn play(told: &str) -> String {
        let mut script = Self::default();
        let mut happens = String::new();
        for line in told.lines() {
            if let Some(command) = line.strip_prefix('>') {
                happens += line;
                happens.push('\n');
                script.carry_out(command.trim());
                for line in script.lines.drain(..) {
                    happens += &line;
                    happens.push('\n');
                }
            } else if line.starts_with('#') || line.is_empty() {
                happens += line;
                happens.push('\n');
            }
        }
        happens
    }

    fn cluster(&mut self) -> &mut Cluster {
        self.cluster
            .as_mut()
            .expect("a transcript begins with its cluster")
    }

    fn carry_out(&mut self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["cluster", ref rest @ ..] => self.begin(rest),
            ["disk", ..] => self.disk(command),
            ["start", ref names @ ..] => self.start(names),
            ["crash", name] => {
                let result = self.cluster().crash(node(name), 0, 0);
                result.unwrap_or_else(|failure| self.fail(&failure));
            }
            ["tick", "all", count] => {
                for _ in 0..number(count) {
                    self.tick_all();
                }
            }
            ["pass", count] => {
                self.is_quiet = true;
                for _ in 0..number(count) {
                    self.tick_all();
                    self.settle();
                }
                self.is_quiet = false;
            }
            ["tick", name] => self.tick(node(name), 1),
            ["tick", name, count] => self.tick(node(name), number(count)),
            ["stand", name] => self.stand(node(name)),
            ["deliver"] => self.deliver(|_| true),
            ["deliver", way] => self.deliver_on(way, u64::MAX),
            ["deliver", way, count] => self.deliver_on(way, number(count)),
            ["drop", name] if !name.contains('>') => {
                let name = node(name);
                self.cluster()
                    .packets
                    .retain(|packet| packet.from() != name && packet.to() != name);
            }
            ["drop", way] => {
                let (from, to) = Self::way(way);
                self.cluster()
                    .packets
                    .retain(|packet| packet.from() != from || packet.to() != to);
            }
            ["cut", name] => self.cut.push(node(name)),
            ["heal"] => self.cut.clear(),
            ["persist", name] => self.persist(node(name), usize::MAX),
            ["persist", name, count] => self.persist(node(name), number(count) as usize),
            ["settle"] => self.settle(),
            ["settle", "quietly"] => {
                self.is_quiet = true;
                self.settle();
                self.is_quiet = false;
            }
            ["propose", name, payload] => {
                let payload = Bytes::copy_from_slice(payload.as_bytes());
                self.ask(node(name), |node| {
                    node.propose(payload).map(|at| format!("at {at}"))
                });
            }
            ["read", name, context] => self.ask(node(name), |node| {
                node.read(number(context)).map(|()| String::new())
            }),
            ["ask", name, context] => {
                let context = number(context);
                self.cluster().properties.asked(node(name), context);
                self.ask(node(name), |node| node.ask(context).map(|()| String::new()));
            }
            ["transfer", name, to] => self.ask(node(name), |consensus| {
                consensus.transfer(node(to)).map(|()| String::new())
            }),
            ["change", name, kind, who] => {
                let change = match kind {
                    "voter" => Change::Voter(node(who)),
                    "learner" => Change::Learner(node(who)),
                    "remove" => Change::Remove(node(who)),
                    other => panic!("no change is called {other}"),
                };
                self.ask(node(name), |node| {
                    node.change_membership(change).map(|at| format!("at {at}"))
                });
            }
            [hold @ ("hold" | "release"), name, follower] => {
                let held_back = hold == "hold";
                self.ask(node(name), |consensus| {
                    consensus.hold_back(node(follower), held_back);
                    Ok(String::new())
                });
            }
            ["tell", name] => self.ask(node(name), |consensus| {
                let is_news = consensus.has_commit_to_tell();
                consensus.tell_commit();
                Ok(if is_news {
                    ""
                } else {
                    "there is nothing to tell"
                }
                .to_owned())
            }),
            ["outruns", name, leader, times] => {
                let told = self.lines.len();
                for _ in 0..number(times) {
                    self.carry_out(&format!("to all {leader}"));
                    self.carry_out(&format!("propose {leader} x"));
                    self.carry_out(&format!("persist {leader}"));
                    self.carry_out(&format!("deliver {leader}>{name}"));
                    self.carry_out(&format!("persist {name}"));
                    self.settle();
                }
                self.lines.truncate(told);
            }
            ["to", "all", name] => self.ask(node(name), |consensus| {
                let waits = consensus.has_non_quorum_entries();
                consensus.send_to_all();
                Ok(if waits { "" } else { "nothing waits" }.to_owned())
            }),
            ["certain", name] => self.ask(node(name), |consensus| {
                Ok(format!(
                    "certain for {} ticks, unchallenged for {}",
                    consensus.certain_ticks(),
                    consensus.unchallenged_ticks()
                ))
            }),
            ["awaits", name] => self.ask(node(name), |consensus| {
                Ok(match consensus.awaits_durable() {
                    Some(end) => format!("its disk is waited for, up to {}", end.0),
                    None => "its disk is not waited for".to_owned(),
                })
            }),
            ["compact", name] => self.cluster().compact(node(name)),
            ["status"] => self.status(),
            ["under", "way"] => {
                let packets = self.cluster().packets.iter().map(describe::packet);
                let lines: Vec<String> = packets.map(|line| format!("  {line}")).collect();
                self.lines.extend(lines);
            }
            _ => panic!("no command is called {command}"),
        }
    }

    fn way(word: &str) -> (NodeId, NodeId) {
        let (from, to) = word.split_once('>').expect("a way is FROM>TO");
        (node(from), node(to))
    }

    fn begin(&mut self, words: &[&str]) {
        let mut settings = Settings {
            spacing: Spacing::Entries,
            ..Settings::default()
        };
        let (mut voters, mut learners, mut spare) = (Vec::new(), Vec::new(), Vec::new());
        let mut kind = &mut voters;
        let (mut seed, mut tells_commit) = (1, true);
        for word in words {
            match *word {
                "+" => kind = &mut learners,
                "spare" => kind = &mut spare,
                word => match word.split_once('=') {
                    None => kind.push(node(word)),
                    Some(("recovery", "marks")) => settings.recovery = Recovery::Marks,
                    Some(("recovery", "checking")) => settings.recovery = Recovery::Checking,
                    Some(("recovery", "truncating")) => settings.recovery = Recovery::Truncating,
                    Some(("lease", drift)) => {
                        settings.lease = Some(Lease {
                            drift_per_mille: number(drift) as u32,
                        });
                    }
                    Some(("seed", given)) => seed = number(given),
                    Some(("tells", "later")) => tells_commit = false,
                    Some(("unawaited", "batched")) => settings.batches_non_quorum = true,
                    Some(("window", entries)) => settings.window_entries = number(entries) as usize,
                    Some(("message", entries)) => {
                        settings.message_entries = number(entries) as usize;
                    }
                    Some(("recent", space)) => settings.entry_cache_bytes = number(space),
                    Some(_) => panic!("no setting is called {word}"),
                },
            }
        }
        let members = Membership::new(voters, learners);
        let mut cluster = Cluster::new(&members, &spare, settings, seed);
        cluster.tells_commit = tells_commit;
        self.cluster = Some(cluster);
    }

    /// Sets a node's initial disk: `disk 3 term=3 commit=2: S1 a b S3`.
    fn disk(&mut self, command: &str) {
        let (head, log) = command.split_once(':').expect("a log behind a colon");
        let mut words = head.split_whitespace().skip(1);
        let name = node(words.next().expect("a node"));
        let machine = self.cluster().machine(name);
        machine.node = None;
        let members = machine.disk.membership.clone();
        let state = &mut machine.disk.hard_state;
        for word in words {
            match word.split_once('=') {
                Some(("term", term)) => state.term = Term(number(term) as u32),
                Some(("commit", commit)) => state.commit = Lsn(number(commit)),
                Some(("vote", vote)) => state.vote = Some(node(vote)),
                _ => panic!("a disk has no {word}"),
            }
        }
        let entries = &mut machine.disk.entries;
        let mut term = Term(0);
        for (index, word) in log.split_whitespace().enumerate() {
            let mark = word.strip_prefix('S').and_then(|term| term.parse().ok());
            let content = match mark {
                Some(begun) => {
                    term = Term(begun);
                    Content::Mark(members.clone())
                }
                None => Content::Payload(Bytes::copy_from_slice(word.as_bytes())),
            };
            entries.push(Entry {
                start: Lsn(index as u64),
                end: Lsn(index as u64 + 1),
                term,
                content,
            });
        }
    }

    fn start(&mut self, names: &[&str]) {
        for name in names {
            let result = self.cluster().start(node(name), false);
            result.unwrap_or_else(|failure| self.fail(&failure));
        }
        for name in names {
            let ready = self.cluster().take(node(name));
            self.tell(node(name), ready);
        }
    }

    fn tick(&mut self, name: NodeId, count: u64) {
        for _ in 0..count {
            let ready = self.cluster().tick(name);
            self.tell(name, ready);
        }
    }

    fn tick_all(&mut self) {
        for name in self.cluster().names() {
            self.tick(name, 1);
        }
    }

    fn stand(&mut self, name: NodeId) {
        for _ in 0..100 {
            let before = self.cluster().packets.len();
            self.tick(name, 1);
            let asks = |packet: &Packet| {
                packet.from() == name
                    && matches!(packet, Packet::Message(message)
                        if matches!(message.body, Body::VoteRequest { .. }))
            };
            if self.cluster().packets[before..].iter().any(asks) {
                return;
            }
        }
        self.lines.push(format!("  {name} does not stand"));
    }

    fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cut.contains(&from) || self.cut.contains(&to)
    }

    fn persist(&mut self, name: NodeId, count: usize) {
        let ready = self.cluster().persist(name, count);
        self.tell(name, ready);
    }

    /// Delivers the first `count` messages of one link.
    fn deliver_on(&mut self, way: &str, count: u64) {
        let (from, to) = Self::way(way);
        let mut left = count;
        self.deliver(|packet| {
            let chosen = packet.from() == from && packet.to() == to && left > 0;
            left -= u64::from(chosen);
            chosen
        });
    }

    /// Delivers the chosen packets that are in flight now.
    fn deliver(&mut self, chosen: impl FnMut(&Packet) -> bool) {
        let packets = std::mem::take(&mut self.cluster().packets);
        let (now, later) = packets.into_iter().partition(chosen);
        self.cluster().packets = later;
        let now: Vec<Packet> = now;
        for packet in now {
            if self.is_cut(packet.from(), packet.to()) {
                continue;
            }
            self.say(format!("  {}", describe::packet(&packet)));
            let to = packet.to();
            let ready = self.cluster().deliver(packet);
            self.tell(to, ready);
        }
    }

    fn settle(&mut self) {
        for _ in 0..100 {
            let names = self.cluster().names();
            let mut idle = self.cluster().packets.is_empty();
            self.deliver(|_| true);
            for name in names {
                idle &= self.cluster().machine(name).writes.is_empty();
                let ready = self.cluster().persist(name, usize::MAX);
                self.tell(name, ready);
            }
            if idle {
                return;
            }
        }
        self.lines.push("  it does not settle".to_owned());
    }

    fn ask(
        &mut self,
        name: NodeId,
        question: impl FnOnce(
            &mut coeval_consensus::Consensus,
        ) -> Result<String, coeval_consensus::Refusal>,
    ) {
        let Some(consensus) = self.cluster().node(name) else {
            return self.lines.push(format!("  {name} is down"));
        };
        match question(consensus) {
            Ok(answer) if answer.is_empty() => {}
            Ok(answer) => self.lines.push(format!("  {answer}")),
            Err(refusal) => self.lines.push(format!("  refused: {refusal}")),
        }
        let ready = self.cluster().take(name);
        self.tell(name, ready);
    }

    fn status(&mut self) {
        let mut lines = Vec::new();
        for (name, machine) in &self.cluster().machines {
            let Some(consensus) = &machine.node else {
                lines.push(format!("  {name} is down"));
                continue;
            };
            let base = machine.disk.base;
            let from = if base.end == Lsn(0) {
                String::new()
            } else {
                format!("from {base}: ")
            };
            let log = format!("{from}{}", describe::entries(&machine.disk.entries));
            lines.push(describe::status(&consensus.status(), &log));
        }
        self.lines.extend(lines);
    }

    fn say(&mut self, line: String) {
        if !self.is_quiet {
            self.lines.push(line);
        }
    }

    fn fail(&mut self, failure: &Failure) {
        self.lines.push(format!("  FAILS: {failure}"));
    }

    fn tell(&mut self, name: NodeId, ready: Result<Ready, Failure>) {
        match ready {
            Ok(ready) => {
                for line in describe::ready(name, &ready) {
                    self.say(line);
                }
            }
            Err(failure) => self.fail(&failure),
        }
    }
}
