//! A session of a follower: which statements it executes, and which the node of its client
//! has the leader execute.
//!
//! | | here |
//! | --- | --- |
//! | outside of a block | what only reads; BEGIN of a block that may be here |
//! | in a block that may write | what only reads, SET TRANSACTION, SHOW, and the block's end |
//! | in a block that is READ ONLY | as well: SET, PREPARE, EXECUTE, cursors, savepoints, LOCK TABLE in ACCESS SHARE; writes, which fail there |
//! | in a block that has failed | everything: it fails, but for the block's end |
//!
//! A block that may write is here only at READ COMMITTED, because it moves to the leader at
//! its first write: what it reads next is in a new snapshot anyway. A block that is READ
//! ONLY has what it began with until its end, at every level.
//!
//! ```text
//!   BEGIN       here          ┌▶ at the leader: now() and the modes of the block,
//!   SELECT      here          │                 its settings are the session's
//!   UPDATE ─── carry_block ───┘
//! ```
//!
//! A follower takes no table locks, so between two snapshots a table may get another
//! definition. A statement is planned and executed in one snapshot, so that what it tells
//! of its columns is what it returns:
//!
//! ```text
//!   on a leader    prepare ─ locks t ── a new snapshot, t as it was ── execute
//!   here           a new snapshot ── prepare ── execute
//! ```
//!
//! Only a statement that was prepared before, in an earlier Query or cycle, finds
//! that its table has changed, as on the leader (0A000, 42P01).
//!
//! Invariant: a block moves only if nothing but its start and its modes would have to be told
//! of it ([`BlockHere::is_fixed`]).

use std::sync::Arc;

use coeval_txn::{Isolation, TableLock};

use super::Session;
use super::handover::{CarriedBlock, carried_block};
use super::transaction::{Block, Running};
use crate::error::{Error, Result, SqlState};
use crate::route::{Reason, Route};
use crate::statement::{Command, Modes, SettingName, Statement};

/// A transaction block that is open in a session of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHere {
    /// Whether the block has failed.
    pub has_failed: bool,
    /// Whether it is READ ONLY.
    pub is_read_only: bool,
    /// Whether it cannot move to the leader: it has a snapshot that its next statement
    /// reads, a savepoint, or settings of its own.
    pub is_fixed: bool,
    /// Whether its next statement reads a snapshot that it has already.
    pub keeps_snapshot: bool,
}

/// SQLSTATE 0A000: a statement that only the leader executes, in a block that cannot move
/// there.
#[must_use]
pub fn not_in_this_block(reason: Reason) -> Error {
    Error::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "the transaction block is on a node that follows, and cannot move to the leader",
    )
    .with_detail(format!(
        "The leader executes the statement: {}.",
        reason.words()
    ))
    .with_hint("Begin the block with this statement, or SET coeval.read_from = leader before it.")
}

/// SQLSTATE 40001: a block ended with the tables that it read.
#[must_use]
pub fn lost_here() -> Error {
    Error::new(
        SqlState::SERIALIZATION_FAILURE,
        "the transaction was rolled back because its node no longer follows the leader",
    )
    .with_hint("Run the transaction again.")
}

impl Session {
    /// What the session of a follower prepares or executes next was asked later than what it
    /// has executed, and may need a newer snapshot.
    pub fn asks_anew(&mut self) {
        self.is_renewed = false;
    }

    /// On a follower, has what the client has asked last read one snapshot, which is as new
    /// as that, at READ COMMITTED. `began` says that the transaction has just begun with one.
    /// Returns whether the transaction has such a snapshot.
    pub(super) fn renew_here(&mut self, began: bool) -> Result<bool> {
        if !self.database.follows() {
            return Ok(began);
        }
        if !std::mem::replace(&mut self.is_renewed, true) && !began {
            self.running()?.transaction.begin_statement()?;
        }
        Ok(true)
    }

    /// Whether transaction blocks may begin in this session of a follower.
    pub fn let_blocks_begin(&mut self, may: bool) {
        self.begins_blocks = may;
    }

    /// Fails on a follower if the leader must execute the statement, as far as its syntax
    /// says so.
    pub fn check_here(&self, statement: &Statement) -> Result<()> {
        self.check_route(statement.command(), statement.route())
    }

    /// Fails on a follower if the leader must execute the statement. The catalog that the
    /// statement is executed with decides, which may be newer than the one that it was
    /// prepared with.
    pub(super) fn check_route(&self, command: &Command, route: Route) -> Result<()> {
        match route {
            Route::Leader(reason)
                if self.database.follows() && !self.runs_here(command, reason) =>
            {
                Err(Error::of_leader(reason))
            }
            Route::Leader(_) | Route::Anywhere => Ok(()),
        }
    }

    /// Whether this session of a follower executes a statement that another one would leave
    /// to the leader.
    fn runs_here(&self, command: &Command, reason: Reason) -> bool {
        match (self.block, command) {
            (Block::Failed, _) => true,
            (Block::Explicit, Command::Begin { modes, .. } | Command::SetTransaction(modes)) => {
                self.running.is_some() || self.may_be_here(*modes)
            }
            (_, Command::Begin { modes, .. }) => self.begins_blocks && self.may_be_here(*modes),
            (Block::Explicit, Command::Commit { .. } | Command::Rollback { .. }) => true,
            (Block::Explicit, Command::Show(SettingName::One(name))) => {
                self.viewer().knows(name) || self.is_read_only()
            }
            (Block::Explicit, _) if self.is_read_only() => runs_read_only(command, reason),
            _ => false,
        }
    }

    /// Whether a block with these modes may be here.
    fn may_be_here(&self, modes: Modes) -> bool {
        let parsed = self.settings.parsed();
        let isolation = modes.isolation.or(self.modes.isolation);
        let read_only = modes.read_only.or(self.modes.read_only);
        read_only.unwrap_or(parsed.read_only)
            || isolation.unwrap_or(parsed.isolation) == Isolation::ReadCommitted
    }

    /// The transaction block that is open in this session of a follower.
    #[must_use]
    pub fn block_here(&self) -> Option<BlockHere> {
        let has_failed = match self.block {
            Block::Idle | Block::Implicit => return None,
            Block::Explicit => false,
            Block::Failed => true,
        };
        let running = self.running.as_ref();
        let keeps_snapshot =
            running.is_some_and(|running| running.isolation() != Isolation::ReadCommitted);
        let has_savepoints = running.is_some_and(Running::has_savepoints);
        let before = self.settings_at_begin.as_ref();
        let is_set = before.is_some_and(|before| !Arc::ptr_eq(before, &self.settings));
        Some(BlockHere {
            has_failed,
            is_read_only: self.is_read_only(),
            is_fixed: has_failed
                || keeps_snapshot
                || has_savepoints
                || is_set
                || !self.cursors.is_empty(),
            keeps_snapshot,
        })
    }

    /// The open block, for [`Session::follow`] of the session that it moves to.
    #[must_use]
    pub fn carry_block(&self) -> Vec<u8> {
        let ran = self.transaction_limited.map_or(0, |since| {
            u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
        });
        let has_read = self.running.is_some() || self.has_read_elsewhere;
        let parsed = self.settings.parsed();
        let modes = match has_read {
            false => self.modes,
            true => Modes {
                isolation: self.modes.isolation.or(Some(parsed.isolation)),
                uncommitted: self.modes.uncommitted,
                read_only: Some(self.is_read_only()),
                deferrable: self.modes.deferrable,
            },
        };
        carried_block(CarriedBlock {
            began: self.info.style.now,
            ran,
            modes,
            has_read,
        })
    }

    /// Gives up the open transaction and its block, which goes on elsewhere.
    pub fn abandon_block(&mut self) {
        self.copy = None;
        self.roll_back();
    }

    /// Begins the block that another session has begun.
    pub(super) fn take_block(&mut self, block: &CarriedBlock) -> Result<()> {
        if self.block != Block::Idle {
            return Err(Error::internal("a block moves into another one"));
        }
        self.enter_block();
        self.block = Block::Explicit;
        self.modes = block.modes;
        self.has_read_elsewhere = block.has_read;
        self.info.style.now = block.began;
        let ran = std::time::Duration::from_micros(block.ran);
        if let Some(since) = &mut self.transaction_limited {
            *since = *since - ran;
        }
        Ok(())
    }
}

impl Session {
    /// Whether the first statement of this text fails in the open block in every state of the
    /// database: the block is READ ONLY, and the statement writes or locks rows, as its syntax
    /// says. A node that cannot ask for the newest state need not wait for that.
    pub fn refuses(&mut self, text: &str) -> bool {
        self.is_read_only()
            && self.parse(text).is_ok_and(|statements| {
                let first = statements.first();
                first.is_some_and(|first| self.always_writes(first.command()))
            })
    }

    /// [`Session::refuses`] of the prepared statement of this name.
    #[must_use]
    pub fn refuses_named(&self, name: &str) -> bool {
        self.is_read_only() && self.named_writes(name)
    }

    fn always_writes(&self, command: &Command) -> bool {
        match command {
            Command::Explain(explain) => {
                explain.options.analyze && self.always_writes(explain.statement.command())
            }
            Command::Execute { name, .. } => self.named_writes(name),
            command => writes(command),
        }
    }

    fn named_writes(&self, name: &str) -> bool {
        if let Ok(named) = self.named(name) {
            return writes(named.statement.command());
        }
        let asleep = self.asleep.get(name);
        let asleep = asleep.and_then(|asleep| asleep.parsed(self.budget()));
        asleep.is_some_and(|statement| writes(statement.command()))
    }
}

/// Whether a statement writes or locks rows, whatever it finds; not known of one that executes
/// another.
fn writes(command: &Command) -> bool {
    match command {
        Command::Query(query) => !query.locking.is_empty(),
        Command::Role(_) | Command::Grant(_) | Command::SchemaOwner { .. } => true,
        Command::Execute { .. } | Command::Explain(_) => false,
        command => command.may_write(),
    }
}

/// Whether a statement runs, or fails, in a READ ONLY block of a follower as it does on the
/// leader.
fn runs_read_only(command: &Command, reason: Reason) -> bool {
    match command {
        // They fail: a read-only transaction does not write.
        Command::CreateTable(_)
        | Command::CreateIndex(_)
        | Command::AlterTable(_)
        | Command::RenameTable { .. }
        | Command::RenameIndex { .. }
        | Command::Drop { .. }
        | Command::Truncate(_)
        | Command::View(_)
        | Command::CreateSequence(_)
        | Command::AlterSequence(_)
        | Command::ChangeSequence { .. }
        | Command::DropSequences { .. }
        | Command::Role(_)
        | Command::Grant(_)
        | Command::CreateExtension(_)
        | Command::DropExtensions { .. }
        | Command::SchemaOwner { .. } => true,
        // They fail in every block.
        Command::Vacuum(_) | Command::Backup | Command::Discard(_) => true,
        Command::Savepoint(_) | Command::RollbackTo(_) | Command::Release(_) => true,
        // Where the block is to read: the leader.
        Command::Set(set) if set.name == "coeval.read_from" => {
            let value = set.values.as_ref().and_then(|values| values.first());
            value.is_none_or(|value| !value.eq_ignore_ascii_case("leader"))
        }
        // Whatever is replayed, the table stays as the block's snapshots show it.
        Command::Lock { mode, .. } => *mode == TableLock::AccessShare,
        Command::Set(_)
        | Command::Reset(_)
        | Command::SetCharacteristics(_)
        | Command::Show(_)
        | Command::NoOperation(_) => true,
        Command::Prepare { .. } | Command::Execute { .. } | Command::Deallocate(_) => true,
        // A cursor that outlives its block is the leader's.
        Command::Declare(declare) => !declare.hold,
        Command::Fetch(_) | Command::CloseCursor(_) => true,
        // A role that lasts needs the leader's word; to give one up does not.
        Command::SetRole { local, name, .. } | Command::SetAuthorization { local, name, .. } => {
            *local || name.is_none()
        }
        Command::Explain(explain) => {
            matches!(explain.statement.command(), Command::Execute { .. }) || runs_in_place(reason)
        }
        _ => runs_in_place(reason),
    }
}

/// Whether a read-only transaction refuses a statement that goes to the leader for this
/// reason, or executes it where it is.
fn runs_in_place(reason: Reason) -> bool {
    matches!(reason, Reason::Writes | Reason::LocksRows | Reason::Setting)
}

impl super::set::Viewer {
    /// Whether the name is that of a session's setting, or of a mode of its transaction.
    fn knows(&self, name: &str) -> bool {
        use crate::expression::SessionSettings as _;
        self.show_setting(name).is_ok()
    }
}
