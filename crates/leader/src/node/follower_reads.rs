//! The driver's part in reads on a follower: it sends the questions of the node's readers, and
//! keeps the engine that reads the tables which are being replayed.
//!
//! The engine belongs to one set of tables. The disk thread makes new ones when the node begins to
//! follow or has installed a checkpoint, and gives them up when it leads or installs one; the
//! driver orders both, so it *retires the engine before* it orders the disk thread to take the
//! tables from it. Tables that arrive after the driver has ordered others are not read.

use std::sync::Arc;

use coeval_consensus::{NodeId as Member, ReadAnswer, Role as Part};
use coeval_occ::{FollowedTables, FollowerEngine};

use super::cluster_version::FOLLOWER_READS;
use super::driver::Driver;
use super::questions::NodeQuestions;

/// Reads on this node while it follows.
#[derive(Debug, Default)]
pub(super) struct FollowerReads {
    pub(super) questions: NodeQuestions,
    /// The engine that reads the tables, while there are any that no order takes away.
    engine: Option<Arc<FollowerEngine>>,
    /// Orders to the disk thread after which it follows with other tables.
    orders: u64,
    /// Whether the membership in force lets the node ask, and has it as a member.
    may_ask: bool,
    is_member: bool,
}

impl FollowerReads {
    /// Whether the cluster version in force has what followers ask and report.
    pub(super) const fn may_ask(&self) -> bool {
        self.may_ask
    }

    /// Ends reads on the tables: the disk thread is about to be ordered to take them.
    pub(super) fn end(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.retire();
        }
    }

    /// Ends reads on the tables: the disk thread is about to be ordered to replace them.
    pub(super) fn replace(&mut self) {
        self.end();
        self.orders += 1;
    }
}

impl Drop for FollowerReads {
    fn drop(&mut self) {
        self.end();
    }
}

impl Driver {
    /// The disk thread follows with these tables, which are filled, after that many orders.
    pub(super) fn follows(&mut self, orders: u64, tables: FollowedTables) {
        let reads = &mut self.follower_reads;
        if self.lead.is_some() || orders != reads.orders {
            return;
        }
        reads.end();
        let questions = reads.questions.readers();
        reads.engine = Some(FollowerEngine::with_budget(tables, questions, self.budget));
    }

    /// The engine that reads this follower's tables, if it is a member that follows with tables.
    pub(super) fn reader(&self) -> Option<Arc<FollowerEngine>> {
        let is_shown = self.lead.is_none()
            && self.follower_reads.is_member
            && !self.consensus.is_newcomer()
            && self.standing.takes_part();
        self.follower_reads.engine.clone().filter(|_| is_shown)
    }

    /// Called when the membership in force may have changed.
    pub(super) fn look_who_may_ask(&mut self, membership: &coeval_consensus::Membership) {
        let own: Member = self.consensus.id();
        self.follower_reads.is_member = membership.is_member(own);
        self.follower_reads.may_ask =
            membership.is_member(own) && membership.version() >= FOLLOWER_READS;
    }

    /// Publishes whether readers may ask. The driver calls this after every step.
    pub(super) fn say_whether_to_ask(&mut self) {
        let now = self.consensus.role();
        let is_open = self.follower_reads.may_ask
            && self.lead.is_none()
            && now.role == Part::Follower
            && now.leader.is_some()
            && self.standing.takes_part();
        self.follower_reads.questions.set_open(is_open);
    }

    /// Sends the next question, if one is due.
    pub(super) fn ask_due(&mut self) {
        while let Some((question, silent)) = self.follower_reads.questions.begin_alone() {
            self.send_question(question, silent);
        }
        let due = self.follower_reads.questions.begin();
        self.ask(due);
    }

    /// Sends another question for readers that have waited too long.
    pub(super) fn tick_questions(&mut self) {
        let due = self.follower_reads.questions.tick();
        self.ask(due);
    }

    /// The node is connected to another one anew: what was on its way is lost.
    pub(super) fn ask_again(&mut self, node: Member) {
        if self.consensus.role().leader == Some(node) {
            let due = self.follower_reads.questions.repeat();
            self.ask(due);
        }
    }

    fn ask(&mut self, question: Option<u64>) {
        if let Some(question) = question {
            self.send_question(question, false);
        }
    }

    fn send_question(&mut self, question: u64, silent: bool) {
        if let Some(watch) = &self.watch {
            watch.asked(self.consensus.id(), question);
        }
        let sent = match silent {
            false => self.consensus.ask(question),
            true => self.consensus.ask_silently(question),
        };
        if let Err(refusal) = sent {
            tracing::debug!(%refusal, "the leader is not asked");
            self.follower_reads.questions.lose(question);
        }
    }

    /// Passes answers of the leader to the readers.
    pub(super) fn asked(&mut self, answers: Vec<ReadAnswer>) {
        let reached = self.consensus.reached();
        for answer in answers {
            let questions = &self.follower_reads.questions;
            match answer.outcome {
                Ok(at) => questions.answered(answer.context, at, reached),
                Err(refusal) => {
                    tracing::debug!(%refusal, "a question is lost");
                    questions.lose(answer.context);
                }
            }
        }
        // Readers that asked meanwhile share the next question.
        self.ask_due();
    }
}
