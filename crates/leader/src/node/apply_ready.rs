//! Applying a `Ready`: carries out the actions that consensus returns.

use coeval_consensus::{Committed, Message, Ready, Role as Part, RoleChange, Stage, encoding};
use coeval_peers::{Loss, NodeId};
use coeval_types::Lsn;

use super::disk::Command;
use super::driver::{Driver, TELL_COMMIT};
use super::frames;
use super::lead::Lead;
use super::{Error, NodeStatus};

impl Driver {
    /// Takes and carries out the actions of consensus until none are left.
    pub(super) fn apply_ready(&mut self) -> Result<(), Error> {
        loop {
            let ready = self.consensus.ready();
            if ready.is_empty() {
                break;
            }
            if let Some(watch) = &self.watch {
                watch.handed_out(self.consensus.id(), &ready);
            }
            self.one(ready)?;
        }
        self.tell_commit = match self.consensus.has_commit_to_tell() {
            true => self
                .tell_commit
                .or_else(|| Some(coeval_env::now() + TELL_COMMIT)),
            false => None,
        };
        self.say_when_batches_go();
        self.say_how_certain();
        self.update_peer_set();
        self.say_whether_to_ask();
        self.note_commit();
        self.show();
        Ok(())
    }

    fn one(&mut self, ready: Ready) -> Result<(), Error> {
        let Ready {
            messages,
            write,
            committed,
            role,
            reads,
            asked,
            fetches,
            checkpoints,
        } = ready;
        if let Some(change) = role {
            let mark = Lead::mark_of(write.as_ref());
            self.role_changed(change, mark.cloned().as_ref())?;
        }
        if let Some(write) = write {
            match &mut self.lead {
                Some(lead) => lead.wants(&write),
                None if write.install.is_some() => {
                    let receipt = self.transfers.take_receipt();
                    let receipt = receipt.ok_or(Error::Malformed(
                        "a checkpoint is to be installed that was not received",
                    ))?;
                    self.follower_reads.replace();
                    self.tell_disk(Command::Install(write, receipt))?;
                }
                None => self.tell_disk(Command::Write(write))?,
            }
        }
        // Before the messages, which may elect another leader.
        self.say_how_certain();
        messages.iter().for_each(|message| self.send(message));
        if let Some(committed) = committed {
            self.committed(committed)?;
        }
        for answer in reads {
            let Some(answer) = self.not_for_admission(answer) else {
                continue;
            };
            match (&self.read_index, answer.outcome) {
                (Some(read_index), Ok(_)) => read_index.confirmed(answer.context),
                // The role has changed, and the waiting readers have had an error.
                (None, _) => {}
                (Some(_), Err(refusal)) => tracing::debug!(%refusal, "reads are not confirmed"),
            }
        }
        // Readers that asked meanwhile share the next round.
        self.begin_round();
        self.asked(asked);
        for fetch in fetches {
            self.tell_disk(Command::Fetch(fetch))?;
        }
        for node in checkpoints {
            self.want_checkpoint(node);
        }
        Ok(())
    }

    /// Retains the log that connected followers need, up to a limit, and informs consensus
    /// where the retained log begins.
    pub(super) fn keep_log_for_followers(&mut self) {
        let Some(engine) = self.lead.as_ref().and_then(|lead| lead.engine.as_ref()) else {
            return;
        };
        let status = self.consensus.status();
        let followers = status.followers.iter().filter(|follower| {
            // For a follower that receives a checkpoint the transfer retains the log.
            self.transfers.is_connected(follower.node) && follower.stage != Stage::Checkpoint
        });
        let least = followers.map(|follower| follower.matched).min();
        let limit = Lsn(status.last.end.0.saturating_sub(self.follower_log_bytes));
        let from = least.unwrap_or(status.commit).max(limit);
        engine.log().keep_for_followers(from);
        let retained = engine.log().retained().min(status.commit);
        self.consensus.removed_before(retained);
    }

    pub(super) fn tell_disk(&self, command: Command) -> Result<(), Error> {
        self.disk.send(command).map_err(|_| Error::LogEnded)
    }

    fn role_changed(
        &mut self,
        change: RoleChange,
        mark: Option<&coeval_consensus::Entry>,
    ) -> Result<(), Error> {
        self.elections.note(&change);
        tracing::info!(term = %change.term, role = ?change.role, leader = ?change.leader, "role");
        match (change.role, &self.lead) {
            (Part::Leader { .. }, None) => {
                let mark = mark.ok_or(Error::Malformed("a term begins without its mark"))?;
                let members = mark.membership().cloned().unwrap_or_default();
                self.forget_receiving(None, "this node leads");
                self.follower_reads.end();
                self.tell_disk(Command::Lead(members))?;
                self.lead = Some(Lead::new(mark));
                self.apply_progress.forget();
            }
            (Part::Leader { .. }, Some(_)) | (_, None) => {}
            (_, Some(_)) => self.retire()?,
        }
        Ok(())
    }

    /// Ends this node's term.
    fn retire(&mut self) -> Result<(), Error> {
        let Some(lead) = self.lead.take() else {
            return Ok(());
        };
        self.end_read_index();
        self.forget_all_sending();
        self.apply_progress.forget();
        self.follower_reads.replace();
        self.tell_disk(Command::Retire(lead.end))?;
        self.tell_disk(Command::Committed(self.consensus.commit().min(lead.end)))?;
        let before = self.retiring.take().flatten();
        self.retiring = Some(lead.last_write().or(before));
        Ok(())
    }

    fn committed(&mut self, committed: Committed) -> Result<(), Error> {
        let end = committed.to.end;
        let Some(lead) = &self.lead else {
            return self.tell_disk(Command::Committed(end));
        };
        if let Some(engine) = &lead.engine {
            engine.log().set_committed(end);
            Ok(())
        } else if end >= lead.mark.1 {
            self.serve()
        } else {
            self.tell_disk(Command::Committed(end.min(lead.mark.0)))
        }
    }

    /// Everything before this term's mark is committed: asks for the engine on complete
    /// tables.
    pub(super) fn serve(&mut self) -> Result<(), Error> {
        let Some(lead) = self.lead.as_mut().filter(|lead| !lead.is_asked) else {
            return Ok(());
        };
        lead.is_asked = true;
        let mark = lead.mark.0;
        self.tell_disk(Command::Serve(mark))
    }

    fn send(&self, message: &Message) {
        let bytes = encoding::encode(message);
        let to = NodeId(message.to.0);
        // Consensus tolerates lost messages.
        if let Err(error) = self.peers.send(to, frames::CONSENSUS, bytes, Loss::Kept) {
            tracing::debug!(%to, %error, "a message is not sent");
        }
    }

    /// Updates the peer set if the membership has changed.
    fn update_peer_set(&mut self) {
        let changes = Some(self.consensus.membership_changes());
        if std::mem::replace(&mut self.met_at, changes) == changes {
            return;
        }
        let status = self.consensus.status();
        let committed = (!status.membership_is_open).then_some(&status.membership);
        let now = self.consensus.takes_part();
        let voters = self.consensus.voters_so_far();
        self.look_at_own_directory(&status.membership);
        self.look_who_may_ask(&status.membership);
        if self
            .peer_set
            .take_part(now, voters, committed, &status.membership)
        {
            tracing::info!(members = %status.membership, "who takes part");
            self.tell_peers();
        }
    }

    /// Passes the peer set to the connections.
    pub(super) fn tell_peers(&self) {
        if let Err(error) = self.peers.set_members(self.peer_set.members()) {
            tracing::error!(%error, "a member is not talked to");
        }
    }

    /// Publishes the node's status if it has changed.
    pub(super) fn show(&mut self) {
        let engine = self.lead.as_ref().and_then(|lead| lead.engine.clone());
        let now = NodeStatus {
            engine,
            reader: self.reader(),
            transfers: self.transfers.all(),
            shut_out: self.standing.shut_out(),
            founded_without: self.standing.went_without().clone(),
            ..NodeStatus::of(&self.consensus)
        };
        self.shown.send_if_modified(|shown| {
            let changed = !shown.is(&now);
            if changed {
                *shown = now;
            }
            changed
        });
    }
}
