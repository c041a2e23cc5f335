//! Transaction control statements: BEGIN, COMMIT, ROLLBACK, SAVEPOINT, SET TRANSACTION.

use std::sync::Arc;

use super::transaction::{Block, Committed, Kept, Running};
use super::{LostBlock, Session, lost_transaction};
use crate::error::{Error, Result, SqlState};
use crate::expression::EvaluationContext;
use crate::instance::activity::AnswerWait;
use crate::instance::noting;
use crate::output::{CommandTag, Notice, Severity, Sink};
use crate::statement::{Command, Modes};

fn warning(state: SqlState, message: &str) -> Notice {
    Notice::new(Severity::Warning, state, message)
}

fn only_in_blocks(what: &str) -> Error {
    Error::new(
        SqlState::NO_ACTIVE_SQL_TRANSACTION,
        format!("{what} can only be used in transaction blocks"),
    )
}

impl Session {
    /// Runs a transaction control statement. Returns `None` for any other statement.
    pub(super) async fn control(
        &mut self,
        command: &Command,
        sink: &mut dyn Sink,
    ) -> Result<Option<CommandTag>> {
        let tag = match command {
            Command::Begin { modes, tag } => {
                self.begin_block(*modes, sink)?;
                tag
            }
            Command::Commit { chain } => return self.commit_command(*chain, sink).await.map(Some),
            Command::Rollback { chain } => {
                self.rollback_command(*chain, sink)?;
                "ROLLBACK"
            }
            Command::Savepoint(name) => {
                if self.block != Block::Explicit {
                    return Err(only_in_blocks("SAVEPOINT"));
                }
                self.ensure_running().await?;
                let kept = Kept {
                    settings: Arc::clone(&self.settings),
                    modes: self.modes,
                    portals: self.portals.next(),
                };
                self.running()?.set_savepoint(name.clone(), kept);
                "SAVEPOINT"
            }
            Command::RollbackTo(name) => {
                self.rollback_to(name)?;
                "ROLLBACK"
            }
            Command::Release(name) => {
                if self.block != Block::Explicit {
                    return Err(only_in_blocks("RELEASE SAVEPOINT"));
                }
                match &mut self.running {
                    Some(running) => {
                        let kept = running.release(name)?;
                        self.restore_read_only(kept.modes);
                    }
                    None => return Err(no_savepoint(name)),
                }
                "RELEASE"
            }
            Command::SetTransaction(modes) => {
                if self.block == Block::Explicit {
                    self.change_modes(modes)?;
                } else {
                    sink.notice(warning(
                        SqlState::NO_ACTIVE_SQL_TRANSACTION,
                        "SET TRANSACTION can only be used in transaction blocks",
                    ));
                }
                "SET"
            }
            _ => return Ok(None),
        };
        Ok(Some(CommandTag::new(tag)))
    }

    fn begin_block(&mut self, modes: Modes, sink: &mut dyn Sink) -> Result<()> {
        if self.block == Block::Explicit {
            sink.notice(warning(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "there is already a transaction in progress",
            ));
        }
        self.enter_block();
        self.block = Block::Explicit;
        self.change_modes(&modes)
    }

    /// Sets the transaction's modes; modes not given stay as they are. The isolation
    /// level cannot change once the transaction has read or written anything.
    pub(super) fn change_modes(&mut self, modes: &Modes) -> Result<()> {
        let elsewhere = self.modes.isolation.filter(|_| self.has_read_elsewhere);
        let isolation = self.running.as_ref().map(Running::isolation).or(elsewhere);
        if let Some(now) = isolation {
            let renamed =
                self.modes.isolation.is_some() && modes.uncommitted != self.modes.uncommitted;
            let differs = |isolation| isolation != now || renamed;
            if modes.isolation.is_some_and(differs) {
                return Err(Error::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION ISOLATION LEVEL must be called before any query",
                ));
            }
            if modes.read_only == Some(false) && self.is_read_only() {
                return Err(Error::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "transaction read-write mode must be set before any query",
                ));
            }
        }
        self.modes = Modes {
            isolation: modes.isolation.or(self.modes.isolation),
            uncommitted: match modes.isolation {
                Some(_) => modes.uncommitted,
                None => self.modes.uncommitted,
            },
            read_only: modes.read_only.or(self.modes.read_only),
            deferrable: modes.deferrable.or(self.modes.deferrable),
        };
        Ok(())
    }

    async fn commit_command(&mut self, chain: bool, sink: &mut dyn Sink) -> Result<CommandTag> {
        let modes = self.modes;
        let tag = match self.block {
            Block::Failed => {
                // Many clients do not check the command tag, and would take the
                // transaction for committed.
                let lost = self.lost_block.tell();
                self.roll_back();
                if lost {
                    return Err(lost_transaction());
                }
                "ROLLBACK"
            }
            Block::Explicit => {
                self.commit_block().await?;
                "COMMIT"
            }
            Block::Idle | Block::Implicit => {
                if chain {
                    return Err(only_in_blocks("COMMIT AND CHAIN"));
                }
                sink.notice(warning(
                    SqlState::NO_ACTIVE_SQL_TRANSACTION,
                    "there is no transaction in progress",
                ));
                self.commit_block().await?;
                "COMMIT"
            }
        };
        if chain {
            self.begin_block(modes, sink)?;
        }
        Ok(CommandTag::new(tag))
    }

    fn rollback_command(&mut self, chain: bool, sink: &mut dyn Sink) -> Result<()> {
        let modes = self.modes;
        if matches!(self.block, Block::Idle | Block::Implicit) {
            if chain {
                return Err(only_in_blocks("ROLLBACK AND CHAIN"));
            }
            sink.notice(warning(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "there is no transaction in progress",
            ));
        }
        self.roll_back();
        if chain {
            self.begin_block(modes, sink)?;
        }
        Ok(())
    }

    fn rollback_to(&mut self, name: &str) -> Result<()> {
        match self.block {
            Block::Explicit | Block::Failed => {}
            Block::Idle | Block::Implicit => {
                return Err(only_in_blocks("ROLLBACK TO SAVEPOINT"));
            }
        }
        match &mut self.running {
            Some(running) => {
                let kept = running.rollback_to(name)?;
                self.settings = kept.settings;
                self.portals.undo(kept.portals);
                self.undo_cursors(kept.portals);
                self.restore_read_only(kept.modes);
            }
            None if self.lost_block.tell() => return Err(lost_transaction()),
            None => return Err(no_savepoint(name)),
        }
        self.apply_settings();
        self.block = Block::Explicit;
        Ok(())
    }

    /// At the end of a subtransaction, also of one that is released, the transaction is
    /// read-only if it was so before: READ ONLY there says what the subtransaction does.
    fn restore_read_only(&mut self, before: Modes) {
        self.modes.read_only = before.read_only;
    }

    /// Puts the session into a transaction, implicit unless BEGIN made it explicit,
    /// because the statement belongs to one even if it only sets a setting.
    pub(super) fn enter_block(&mut self) {
        if self.block == Block::Idle {
            self.block = Block::Implicit;
            self.settings_at_begin = Some(Arc::clone(&self.settings));
            self.info.style.now = EvaluationContext::clock();
            if self.settings.parsed().transaction_timeout.is_some() {
                self.update_transaction_clock();
            }
        }
    }

    /// Begins the engine's transaction, unless one runs. Returns whether it began one.
    pub(super) async fn ensure_running(&mut self) -> Result<bool> {
        self.enter_block();
        if self.running.is_some() {
            return Ok(false);
        }
        let entering = self.ticket.enter(&self.info.cancel);
        noting(self.listed.page(), AnswerWait::Admission, entering).await?;
        let running = Running::begin(
            &*self.database.engine,
            &self.modes,
            &self.settings,
            &self.info,
            self.listed.page(),
            self.minimum,
        )
        .await?;
        let running = match &self.temporary {
            Some(temporary) => running.reach(temporary)?,
            None => running,
        };
        self.listed.transaction(self.info.style.now);
        self.read_confirmation.transaction_began();
        self.running = Some(running);
        Ok(true)
    }

    pub(super) fn running(&mut self) -> Result<&mut Running> {
        self.running
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction runs"))
    }

    /// Whether the transaction is read-only.
    pub(super) fn is_read_only(&self) -> bool {
        self.modes
            .read_only
            .unwrap_or(self.settings.parsed().read_only)
    }

    /// Commits the running transaction and leaves the block.
    pub(super) async fn commit_block(&mut self) -> Result<()> {
        if let Err(error) = self.hold_cursors().await {
            self.roll_back();
            return Err(error);
        }
        if let Some(running) = self.running.take() {
            self.listed.transaction(0);
            let committing = running.commit(&*self.database.engine);
            // Apart from locks, only full log space makes a commit wait.
            match noting(self.listed.page(), AnswerWait::LogSpace, committing).await {
                Ok(Committed { seen, own }) => {
                    self.newest_seen = self.newest_seen.max(seen);
                    if let Some(timestamp) = own {
                        self.read_confirmation.committed(timestamp);
                    }
                }
                Err(error) => {
                    self.leave_block(false);
                    return Err(error);
                }
            }
        }
        self.leave_block(true);
        Ok(())
    }

    /// Rolls back the running transaction and leaves the block.
    pub(super) fn roll_back(&mut self) {
        self.abort_running();
        self.leave_block(false);
    }

    /// Rolls back the running transaction, and stays in the block.
    pub(super) fn abort_running(&mut self) {
        self.statements_ran = false;
        if let Some(running) = self.running.take() {
            self.listed.transaction(0);
            let seen = running.abort(&*self.database.engine);
            self.newest_seen = self.newest_seen.max(seen);
        }
    }

    fn leave_block(&mut self, committed: bool) {
        self.block = Block::Idle;
        self.read_confirmation.transaction_ended();
        self.lost_block = LostBlock::No;
        self.ticket.leave();
        self.transaction_limited = None;
        self.statements_ran = false;
        self.modes = Modes::default();
        self.has_read_elsewhere = false;
        self.epoch += 1;
        self.portals.end_all();
        self.end_cursors(committed);
        let before = self.settings_at_begin.take();
        let unchanged = before
            .as_ref()
            .is_none_or(|before| Arc::ptr_eq(before, &self.settings));
        if unchanged {
            return;
        }
        if let Some(before) = before
            && !committed
        {
            self.settings = before;
        }
        if self.settings.has_local() {
            Arc::make_mut(&mut self.settings).end_local();
        }
        self.apply_settings();
    }
}

fn no_savepoint(name: &str) -> Error {
    Error::new(
        SqlState::INVALID_SAVEPOINT_SPECIFICATION,
        format!("savepoint \"{name}\" does not exist"),
    )
}
