//! Following the session on the other node: the session that reads on the client's node
//! takes over what the leader's session has changed, and the leader's what a block at home
//! has changed, or the block itself.
//!
//! Statements stay asleep, as after a resume: most are executed by the leader.

use std::sync::Arc;

use super::encoding::{self, Record};
use super::resume::who;
use super::{ActsAs, HandoverRole, Session};
use crate::error::{Error, Result};
use crate::session::identity::Identity;

impl Session {
    /// Takes over the changes of the session on the other node, in the order in which it
    /// told them.
    ///
    /// # Errors
    /// When a change is not understood, or the role that it names cannot be looked up: then
    /// this session differs from the leader's, and must execute nothing more until the same
    /// pieces have been applied.
    pub async fn follow(&mut self, pieces: &[Vec<u8>]) -> Result<()> {
        for piece in pieces {
            let mut acts = None;
            let wrong = |error: encoding::Malformed| Error::internal(error.to_string());
            for record in encoding::records(piece).map_err(wrong)? {
                match record.map_err(wrong)? {
                    Record::ActsAs(now) => acts = Some(now),
                    other => self.follow_record(other)?,
                }
            }
            if let Some(acts) = acts {
                self.act_as(&acts).await?;
            }
            self.apply_settings();
        }
        Ok(())
    }

    fn follow_record(&mut self, record: Record<'_>) -> Result<()> {
        match record {
            Record::Set { name, value } => {
                Arc::make_mut(&mut self.settings).take_over(name, value)?;
            }
            Record::Reset { name } => Arc::make_mut(&mut self.settings).give_back(name),
            Record::Statement { name, statement } => {
                self.forget(name);
                let charge = self.memory.charge_anyway(statement.bytes(name));
                self.asleep.insert(name.to_owned(), statement);
                match &mut self.asleep_charge {
                    Some(all) => all.join(charge),
                    None => self.asleep_charge = Some(charge),
                }
            }
            Record::Forget { name } => {
                self.forget(name);
            }
            Record::ForgetAll => self.forget_all(),
            Record::Block(block) => self.take_block(&block)?,
            Record::Mark(mark) => self.mark(mark),
            Record::Sequence(used) => self.info.sequences.take_over(used),
            Record::ForgetSequences => self.info.sequences.forget(),
            // They concern the node that keeps the handover state.
            Record::ActsAs(_)
            | Record::Login(_)
            | Record::Committed(_)
            | Record::Marked { .. }
            | Record::Pinned(_) => {}
        }
        Ok(())
    }

    async fn act_as(&mut self, acts: &ActsAs) -> Result<()> {
        let catalog = self.database.newest_catalog().await?;
        let known = |role: &Option<HandoverRole>| role.as_ref().map(|role| who(role, &catalog));
        let identity = Identity {
            login: self.settings.identity().login.clone(),
            session: known(&acts.session),
            current: known(&acts.current),
        };
        Arc::make_mut(&mut self.settings).set_identity(identity, false);
        Ok(())
    }
}
