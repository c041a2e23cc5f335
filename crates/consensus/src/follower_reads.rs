//! Read index asked by a follower: how a node that does not lead learns up to where its own
//! state must be applied before it answers a read.
//!
//! A follower's state is old by an unknown amount: commits that were acknowledged, and that a
//! reader may know of, may not have come here yet. So the follower asks the leader for its
//! commit index, and reads once its own state has reached the answer. As for a leader's own
//! reads ([`reads`](crate::reads)), the leader may have been deposed without knowing, and a
//! majority has to confirm that it was not.
//!
//! # The asker counts as a voter
//!
//! A question carries the term of its sender, as every message does. A leader that receives it
//! in the same term knows of two nodes that were in no later term after the read came: itself
//! and the asker. A leader of a later term that had committed anything before the read came
//! would have the votes of a majority, and each of them in that later term. So of three nodes
//! the leader answers at once, with no message to the third; of five it needs the answer of one
//! more to a round of heartbeats.
//!
//! ```text
//!   2 follows             1 leads                3 follows
//!   read, ask ──────────▶ in the same term:
//!   log up to 80 ◀─────── commit index is 80
//!   waits for 80
//!
//!   of five: ask ───────▶ heartbeat ───────────▶ 3, 4
//!                 ◀────── 80                ◀─── the first of them answers
//! ```
//!
//! The asker counts only if it is a voter of the membership in force at the leader, because only
//! voters elect. A learner's question needs a whole round.
//!
//! # No question is used twice
//!
//! All of this says something about reads that came *before the question was written*. A reader
//! that comes later needs another question, and so does a caller that has waited too long: the
//! question that it repeats is a new one, with a new number. Numbers begin at random at each
//! start, so that no answer to a question from before a restart is taken for one of after it.
//! Messages that are late, repeated or out of order do no harm then: an answer that comes late is
//! right for the readers that had asked.
//!
//! # What comes with the answer
//!
//! The leader does not let entries wait for a follower that has asked (`quorum_set`), and sends
//! what it lacks up to the answer. The answer is a commit index of the leader of this term: the
//! follower treats its own log as committed up to there, as far as it is verified, at once or
//! when it gets there.
//!
//! # Leases, terms, membership
//!
//! With a lease the leader needs no confirmation, as for its own reads. A leader whose mark is
//! not committed may lack the commit index of earlier terms: the question waits for the mark. A
//! leader in another term than the question's does not answer. A follower that changes its term
//! or loses its leader gives up its questions, and its caller learns it: the answer would come
//! too late or never. A change of members is in force at the leader when it is in its log, and
//! differs by one node from the one before, so a majority of it meets every majority that can
//! have elected a later leader by then, as for rounds.
//!
//! Invariant: an answer includes everything that any node had acknowledged when the question was
//! asked, and nothing that is not committed.
//!
//! Source: read index, Raft dissertation §6.4, which lets followers forward it; that the asker
//! counts is this project's own. Decision 0046.

use std::collections::VecDeque;

use coeval_types::{Lsn, planted};

use crate::consensus::{Consensus, State};
use crate::message::Body;
use crate::position::NodeId;
use crate::random::Chance;
use crate::ready::ReadAnswer;
use crate::refusal::Refusal;

/// Most unanswered questions of one follower, at the follower and at the leader.
const MOST_OPEN: usize = 16;

/// The questions of a follower that are not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Questions {
    /// Number of the newest question.
    number: u64,
    /// The questions under way, oldest first.
    open: VecDeque<Open>,
}

/// A question under way.
#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    context: u64,
    /// Whether the answer moves nothing here.
    silent: bool,
}

impl Questions {
    /// Questions of a node that starts with this seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x005A_5EED_0F45_4B5A);
        let mut half = || u64::from(chance.below(u32::MAX));
        Self {
            // Room for more numbers than any node asks.
            number: (half() << 31) | half(),
            open: VecDeque::new(),
        }
    }
}

/// A follower's question that its leader has not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    asker: NodeId,
    number: u64,
    /// The round of heartbeats that would confirm it, with the asker's own vote.
    pub(crate) round: u64,
}

impl Consensus {
    /// Asks the leader up to where the log must be applied here for a read, so that nothing is
    /// missing that was acknowledged before this call. The answer comes in
    /// [`Ready::asked`](crate::Ready::asked), with this `context`; a refusal there means that
    /// the leader or the term has changed, and that the caller may ask anew. A question may be
    /// lost and never be answered: the caller asks anew after a time, and still gets the answer
    /// to the first one if it was only late.
    ///
    /// # Errors
    /// When this node follows no leader.
    pub fn ask(&mut self, context: u64) -> Result<(), Refusal> {
        self.ask_as(context, false)
    }

    /// As [`Consensus::ask`], and the answer does not advance this node's commit index: for
    /// measurements of what the node would know without it.
    ///
    /// # Errors
    /// When this node follows no leader.
    pub fn ask_silently(&mut self, context: u64) -> Result<(), Refusal> {
        self.ask_as(context, true)
    }

    /// Up to where this node's log is on its disk, and its commit index.
    #[must_use]
    pub fn reached(&self) -> (Lsn, Lsn) {
        (self.durability.end(), self.shape.commit())
    }

    fn ask_as(&mut self, context: u64, silent: bool) -> Result<(), Refusal> {
        let (State::Follower(_), Some(leader), false) = (&self.state, self.leader, self.newcomer)
        else {
            return Err(Refusal::NoLeader);
        };
        if planted!(SkipQuestion) {
            let outcome = Ok(self.shape.commit());
            self.outbox.asked.push(ReadAnswer { context, outcome });
            return Ok(());
        }
        if planted!(ReuseQuestion)
            && let Some(Open { number, .. }) = self.questions.open.back().copied()
        {
            self.questions.open.push_back(Open {
                number,
                context,
                silent,
            });
            return Ok(());
        }
        self.questions.number += 1;
        let number = self.questions.number;
        self.questions.open.push_back(Open {
            number,
            context,
            silent,
        });
        if self.questions.open.len() > MOST_OPEN
            && let Some(lost) = self.questions.open.pop_front()
        {
            self.outbox.asked.push(lost.lost());
        }
        if planted!(AskOldTerm) {
            self.ask_old_term(number);
        }
        self.send(leader, Body::Ask { number });
        Ok(())
    }

    /// Gives up the questions under way: the term or the leader changes.
    pub(crate) fn lose_questions(&mut self) {
        let lost = self.questions.open.drain(..).map(Open::lost);
        self.outbox.asked.extend(lost);
    }

    /// Handles the leader's answer to a question.
    pub(crate) fn asked_received(&mut self, from: NodeId, number: u64, at: Lsn) {
        let is_leaders = self.leader == Some(from) || planted!(AskOldTerm);
        let State::Follower(follower) = &mut self.state else {
            return;
        };
        let mut open = self.questions.open.iter();
        let Some(found) = open.rposition(|open| open.number == number) else {
            return;
        };
        if !is_leaders {
            return;
        }
        // Readers that asked before this question was written are answered by it, too.
        let mut is_silent = true;
        for open in self.questions.open.drain(..=found) {
            is_silent &= open.silent;
            self.outbox.asked.push(ReadAnswer {
                context: open.context,
                outcome: Ok(at),
            });
        }
        if !is_silent {
            follower.heard(at);
            self.learn_commit(at);
        }
    }

    /// Handles a follower's question in this node's term.
    pub(crate) fn ask_received(&mut self, from: NodeId, number: u64) {
        let commit = self.shape.commit();
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let Some(progress) = leader.progress.get_mut(&from) else {
            return;
        };
        progress.active = true;
        progress.wanted = progress.wanted.max(commit);
        let reads = &mut leader.reads;
        let open = reads.asking.iter().filter(|asking| asking.asker == from);
        if open.count() < MOST_OPEN {
            reads.asking.push_back(Asking {
                asker: from,
                number,
                round: reads.round + 1,
            });
        }
    }

    /// Answers the questions that are confirmed.
    pub(crate) fn answer_questions(&mut self) {
        if self.check_serving().is_err() {
            return;
        }
        let (id, commit) = (self.id, self.shape.commit());
        let lease = self.settings.lease_ticks();
        let membership = self.shape.membership();
        let State::Leader(leader) = &mut self.state else {
            return;
        };
        let is_leased = leader.reads.lease_left(leader.now, lease) > 0;
        let progress = &leader.progress;
        let is_confirmed = |asking: &Asking| {
            let reached = membership.reached_by_majority(|voter| {
                if voter == id || voter == asking.asker {
                    asking.round
                } else {
                    progress.get(&voter).map_or(0, |progress| progress.round)
                }
            });
            is_leased || reached >= Some(asking.round) || planted!(TrustAsker)
        };
        let (confirmed, open): (VecDeque<_>, _) =
            leader.reads.asking.drain(..).partition(is_confirmed);
        leader.reads.asking = open;
        for Asking { asker, number, .. } in confirmed {
            let State::Leader(leader) = &mut self.state else {
                return;
            };
            // A follower may have been removed since it asked.
            let Some(progress) = leader.progress.get_mut(&asker) else {
                continue;
            };
            progress.answered_question(commit);
            self.send(asker, Body::Asked { number, at: commit });
        }
    }
}

impl Open {
    fn lost(self) -> ReadAnswer {
        ReadAnswer {
            context: self.context,
            outcome: Err(Refusal::NoLeader),
        }
    }
}

#[cfg(test)]
mod tests {
    use coeval_types::Term;

    use super::*;
    use crate::membership::Membership;
    use crate::message::Message;
    use crate::restored::Restored;
    use crate::settings::Settings;

    /// Node 2 of three, which follows node 1 in this term, at its start of this number.
    fn follower(term: u32, start: u64) -> Consensus {
        let members = Membership::new([1, 2, 3].map(NodeId), []);
        let restored = Restored::empty(members);
        let node = Consensus::new(NodeId(2), Settings::default(), &restored, start);
        let mut node = node.expect("a sound start");
        hear(&mut node, 1, term);
        node
    }

    fn receive(node: &mut Consensus, from: u64, term: u32, body: Body) {
        let message = Message {
            from: NodeId(from),
            to: NodeId(2),
            term: Term(term),
            body,
        };
        node.receive(message).expect("a sound message");
        while let Some(write) = node.ready().write {
            node.persisted(write.number).expect("its own");
        }
    }

    fn hear(node: &mut Consensus, leader: u64, term: u32) {
        let commit = Lsn(0);
        receive(node, leader, term, Body::Heartbeat { commit, round: 1 });
    }

    /// The number of the question that the node sends.
    fn question(node: &mut Consensus, context: u64) -> u64 {
        node.ask(context).expect("it follows");
        let sent = node.ready().messages;
        match sent[..] {
            [
                Message {
                    to: NodeId(1),
                    body: Body::Ask { number },
                    ..
                },
            ] => number,
            _ => panic!("{sent:?}"),
        }
    }

    /// What the node's caller learns of its questions after this answer.
    fn answered(node: &mut Consensus, from: u64, term: u32, number: u64) -> Vec<(u64, bool)> {
        let message = Message {
            from: NodeId(from),
            to: NodeId(2),
            term: Term(term),
            body: Body::Asked { number, at: Lsn(9) },
        };
        node.receive(message).expect("a sound message");
        let asked = node.ready().asked.into_iter();
        asked
            .map(|answer| (answer.context, answer.outcome.is_ok()))
            .collect()
    }

    #[test]
    fn an_answer_is_for_those_who_asked_before_it() {
        let mut node = follower(1, 1);
        let first = question(&mut node, 10);
        let second = question(&mut node, 11);
        let third = question(&mut node, 12);
        assert_eq!(answered(&mut node, 1, 1, second), [(10, true), (11, true)]);
        assert_eq!(answered(&mut node, 1, 1, first), []);
        assert_eq!(answered(&mut node, 1, 1, second), [], "a copy");
        assert_eq!(answered(&mut node, 3, 1, third), [], "not the leader's");
        assert_eq!(answered(&mut node, 1, 1, third + 1), [], "never asked");
        assert_eq!(answered(&mut node, 1, 1, third), [(12, true)]);
    }

    #[test]
    fn an_answer_of_before_a_restart_is_not_taken() {
        let mut before = follower(1, 1);
        let asked = question(&mut before, 10);
        let mut after = follower(1, 2);
        question(&mut after, 10);
        assert_eq!(answered(&mut after, 1, 1, asked), []);
    }

    #[test]
    fn questions_are_lost_with_the_term() {
        let mut node = follower(1, 1);
        let asked = question(&mut node, 10);
        let higher = Body::Heartbeat {
            commit: Lsn(0),
            round: 1,
        };
        let message = Message {
            from: NodeId(3),
            to: NodeId(2),
            term: Term(2),
            body: higher,
        };
        node.receive(message).expect("a sound message");
        let lost = node.ready().asked;
        let outcome = Err(Refusal::NoLeader);
        assert_eq!(
            lost,
            [ReadAnswer {
                context: 10,
                outcome
            }]
        );
        assert_eq!(answered(&mut node, 1, 1, asked), []);
        let again = node.ask(11).and_then(|()| node.ask(12));
        assert_eq!(again, Ok(()), "it follows another leader");
    }

    #[test]
    fn nobody_asks_without_a_leader() {
        let members = Membership::new([1, 2, 3].map(NodeId), []);
        let restored = Restored::empty(members.clone());
        let node = Consensus::new(NodeId(2), Settings::default(), &restored, 1);
        let mut node = node.expect("a sound start");
        assert_eq!(node.ask(1), Err(Refusal::NoLeader));
        // What a newcomer has promised under its number is lost, its terms included.
        let restored = Restored {
            newcomer: true,
            ..Restored::empty(members)
        };
        let node = Consensus::new(NodeId(2), Settings::default(), &restored, 1);
        let mut node = node.expect("a sound start");
        hear(&mut node, 1, 1);
        assert_eq!(node.ask(1), Err(Refusal::NoLeader));
        node.admit();
        assert_eq!(node.ask(1), Ok(()));
    }

    #[test]
    fn a_silent_answer_is_told_and_moves_nothing() {
        let mut node = follower(1, 1);
        let heard = |node: &Consensus| match &node.state {
            State::Follower(follower) => follower.newest_heard(),
            State::Candidate(_) | State::Leader(_) => panic!("it follows"),
        };
        node.ask_silently(10).expect("it follows");
        let sent = node.ready().messages;
        let [
            Message {
                body: Body::Ask { number },
                ..
            },
        ] = sent[..]
        else {
            panic!("{sent:?}");
        };
        assert_eq!(answered(&mut node, 1, 1, number), [(10, true)]);
        assert_eq!(heard(&node), Lsn(0));
        let loud = question(&mut node, 11);
        assert_eq!(answered(&mut node, 1, 1, loud), [(11, true)]);
        assert_eq!(heard(&node), Lsn(9));
    }

    #[test]
    fn questions_that_nobody_answers_do_not_pile_up() {
        let mut node = follower(1, 1);
        let mut lost = Vec::new();
        for context in 0..MOST_OPEN as u64 + 3 {
            node.ask(context).expect("it follows");
            lost.extend(node.ready().asked.into_iter().map(|answer| answer.context));
        }
        assert_eq!(lost, [0, 1, 2]);
    }
}
