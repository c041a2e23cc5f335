//! The data directory: its lock, and the control file with the facts that recovery must
//! know before it reads the log.
//!
//! ```text
//! LOCK              locked for as long as a process uses the directory
//! CONTROL           database id, term, where the term began, clean end; of a node of
//!                   a cluster its vote and its commit index
//! MARKS             of a node of a cluster: where terms began in removed log
//! ORIGIN            of a restored directory: which backup, and to which position
//! IDENTITY          of a node of a cluster: the directory's own random number
//! FOUNDERS          of a founder of a cluster: the founders' identities
//! REMOVED           of a node that a cluster has removed: which member has said so
//! RESERVE           disk space that is given up when the disk is full
//! checkpoints/      the newest checkpoint
//! log/              segments, from where that checkpoint needs them
//! ```
//!
//! CONTROL is replaced as a whole: written under another name, made durable, renamed.
//! Each start for writing raises the term in it before the term is used; so a frame of an
//! earlier term at or after the offset where the present term began is a remnant, never a
//! part of the log. Everything before that offset was made durable first.
//!
//! One byte of a node's flags is the number of its cluster's [`Protocol`].
//!
//! On a node of a cluster the term is the newest that the node has seen, and *start* only
//! says that everything before it is durable here: terms begin at their marks, and no
//! remnant is ever left after the log's end.
//!
//! ```text
//!  16         32      40          48     52      56
//! +----------+-------+-----------+------+-------+-------- for format version 3 -----+
//! | database | start | clean end | term | clean | flags 4, vote 8, commit 8, base 8, |
//! +----------+-------+-----------+------+-------+ cut 8, install 8 -------------------+
//! ```

use std::path::{Path, PathBuf};

use coeval_env::fs;
use coeval_types::{Lsn, Protocol, Term};

use crate::Error;
use crate::checkpoint::CHECKPOINTS;
use crate::log::FIRST_LSN;
use crate::removal::REMOVED;
use crate::reserve::RESERVE;
use crate::stamp::{self, Stamp};

const MAGIC: [u8; 8] = *b"COEVALCT";
const CONTROL_BYTES: usize = 128;

/// The facts in CONTROL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// Database id: a random number, generated when the directory was created.
    pub(crate) database: u128,
    /// The last term that was used; 0 if there is none yet.
    pub(crate) term: Term,
    /// Log offset at which that term began. Everything before it is durable.
    pub(crate) start: Lsn,
    /// Log offset at which the log ended, if it was closed in order since.
    pub(crate) clean_end: Option<Lsn>,
    /// State of a cluster's node; `None` for a log that is not replicated.
    pub(crate) member: Option<Member>,
    /// Whether the log may hold memberships with a cluster version, which older programs
    /// do not read: CONTROL then has the format version that they refuse.
    pub(crate) versioned: bool,
}

/// The persistent consensus state of a cluster's node, which it reads before it takes
/// part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The node it has voted for in the present term.
    pub(crate) vote: Option<u64>,
    /// The commit index: everything before this log offset is committed.
    pub(crate) commit: Lsn,
    /// Log offset at which replication of the log began.
    pub(crate) base: Lsn,
    /// Log offset at which the log is being truncated: bytes at or after it are no part
    /// of the log.
    pub(crate) cut: Option<Lsn>,
    /// A checkpoint received from another node is replacing the whole log: the one whose
    /// replay begins at this log offset.
    pub(crate) install: Option<Lsn>,
    /// Whether the node joined with an empty log, and no leader has admitted it yet.
    pub(crate) newcomer: bool,
    /// The protocol of the node's cluster.
    pub(crate) protocol: Protocol,
}

const MEMBER: u32 = 1;
const VOTED: u32 = 2;
const CUTTING: u32 = 4;
const INSTALLING: u32 = 8;
const NEWCOMER: u32 = 16;
/// Where the protocol's number stands: in a byte of the flags.
const PROTOCOL_AT: u32 = 8;
const PROTOCOL: u32 = 0xFF << PROTOCOL_AT;
const ALL_FLAGS: u32 = PROTOCOL | MEMBER | VOTED | CUTTING | INSTALLING | NEWCOMER;

impl Member {
    fn flags(&self) -> u32 {
        let voted = if self.vote.is_some() { VOTED } else { 0 };
        let cutting = if self.cut.is_some() { CUTTING } else { 0 };
        let installing = if self.install.is_some() {
            INSTALLING
        } else {
            0
        };
        let newcomer = if self.newcomer { NEWCOMER } else { 0 };
        let protocol = u32::from(self.protocol.code()) << PROTOCOL_AT;
        MEMBER | voted | cutting | installing | newcomer | protocol
    }
}

impl Control {
    /// Reads the control file; `None` when there is none.
    pub(crate) async fn read(path: &Path) -> Result<Option<Self>, Error> {
        let exists = fs::exists(path)
            .await
            .map_err(Error::io("look for", path))?;
        if !exists {
            return Ok(None);
        }
        let block = fs::read(path).await.map_err(Error::io("read", path))?;
        let damaged = |what: &str| Error::Damaged {
            file: path.to_owned(),
            offset: 0,
            what: what.to_owned(),
        };
        if block.len() != CONTROL_BYTES {
            return Err(damaged("the file does not have its 128 bytes"));
        }
        let mut fields = stamp::check(&block, MAGIC, path)?;
        let database = u128::from_le_bytes(fields.take());
        let start = Lsn(u64::from_le_bytes(fields.take()));
        let clean_end = Lsn(u64::from_le_bytes(fields.take()));
        let term = Term(u32::from_le_bytes(fields.take()));
        let clean = u32::from_le_bytes(fields.take());
        let flags = u32::from_le_bytes(fields.take());
        let vote = u64::from_le_bytes(fields.take());
        let [commit, base, cut, install] = [(); 4].map(|()| Lsn(u64::from_le_bytes(fields.take())));
        let code = (flags & PROTOCOL) >> PROTOCOL_AT;
        let Some(protocol) = u8::try_from(code).ok().and_then(Protocol::of_code) else {
            return Err(Error::Format {
                file: path.to_owned(),
                what: format!(
                    "is of a cluster of protocol number {code}, which this program does not \
                     know; start the version that founded it, or a later one"
                ),
            });
        };
        let sound = |lsn: Lsn| lsn.0.is_multiple_of(Lsn::ALIGNMENT) && lsn < Lsn::LIMIT;
        if term > Term::MAX
            || !sound(start)
            || start < FIRST_LSN
            || (clean != 0 && (!sound(clean_end) || clean_end < start))
            || flags & !ALL_FLAGS != 0
            || (flags != 0
                && (flags & MEMBER == 0 || ![commit, base, cut, install].into_iter().all(sound)))
        {
            return Err(damaged("its contents make no sense"));
        }
        Ok(Some(Self {
            versioned: stamp::version_of(&block) >= stamp::VERSIONED_MEMBERS,
            database,
            term,
            start,
            clean_end: (clean != 0).then_some(clean_end),
            member: (flags & MEMBER != 0).then_some(Member {
                vote: (flags & VOTED != 0).then_some(vote),
                commit,
                base,
                cut: (flags & CUTTING != 0).then_some(cut),
                install: (flags & INSTALLING != 0).then_some(install),
                newcomer: flags & NEWCOMER != 0,
                protocol,
            }),
        }))
    }

    /// The file's contents.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = Stamp::new(MAGIC, CONTROL_BYTES);
        if self.versioned {
            block.set_version(stamp::VERSIONED_MEMBERS);
        }
        if self
            .member
            .is_some_and(|member| member.protocol != Protocol::Leader)
        {
            block.set_version(stamp::PROTOCOLS);
        }
        block.put(&self.database.to_le_bytes());
        block.put(&self.start.0.to_le_bytes());
        block.put(&self.clean_end.unwrap_or_default().0.to_le_bytes());
        block.put(&self.term.0.to_le_bytes());
        block.put(&u32::from(self.clean_end.is_some()).to_le_bytes());
        if let Some(member) = &self.member {
            block.put(&member.flags().to_le_bytes());
            block.put(&member.vote.unwrap_or_default().to_le_bytes());
            let (cut, install) = (member.cut, member.install);
            for lsn in [member.commit, member.base]
                .into_iter()
                .chain([cut, install].map(Option::unwrap_or_default))
            {
                block.put(&lsn.0.to_le_bytes());
            }
        }
        block.finish()
    }

    /// Log offset of a truncation that is under way, if there is one.
    pub(crate) fn cut(&self) -> Option<Lsn> {
        self.member.and_then(|member| member.cut)
    }

    /// The control data after the truncation that it names: the log ends there, closed in
    /// order.
    pub(crate) fn after_cut(self) -> Self {
        let Some(member) = self.member else {
            return self;
        };
        let Some(cut) = member.cut else {
            return self;
        };
        Self {
            start: self.start.min(cut),
            clean_end: Some(cut),
            member: Some(Member {
                cut: None,
                ..member
            }),
            ..self
        }
    }
}

/// The data directory, locked for as long as this process uses it.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    path: PathBuf,
    /// Holds the lock until it is closed.
    _lock: fs::File,
}

impl DataDirectory {
    /// Locks the directory, creating it if it does not exist.
    /// The directory must belong to the user that this process runs as; permissions of others
    /// that it is not to have are taken away.
    pub(crate) async fn lock(path: &Path) -> Result<Self, Error> {
        check_owner(path)?;
        for folder in ["log", CHECKPOINTS] {
            let folder = path.join(folder);
            fs::create_dir_all(&folder)
                .await
                .map_err(Error::io("create directory", &folder))?;
        }
        let lock_path = path.join("LOCK");
        let lock = fs::open(&lock_path, fs::OpenOptions::CREATE)
            .await
            .map_err(Error::io("open", &lock_path))?;
        let locked = lock
            .try_lock()
            .await
            .map_err(Error::io("lock", &lock_path))?;
        if !locked {
            return Err(Error::InUse { lock: lock_path });
        }
        restrict(path)?;
        fs::sync_dir(path).await.map_err(Error::io("sync", path))?;
        if let Some(parent) = path.parent().filter(|parent| *parent != Path::new("")) {
            fs::sync_dir(parent)
                .await
                .map_err(Error::io("sync", parent))?;
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Locks the directory for reading only: changes nothing, creates nothing. A copied
    /// directory may have no lock file; then the directory itself is locked, which no
    /// other process does.
    pub(crate) async fn inspect(path: &Path) -> Result<Self, Error> {
        let lock_path = path.join("LOCK");
        let exists = fs::exists(&lock_path)
            .await
            .map_err(Error::io("look for", &lock_path))?;
        let locked = if exists { &lock_path } else { path };
        let lock = fs::open(locked, fs::OpenOptions::READ)
            .await
            .map_err(Error::io("open", locked))?;
        let taken = lock.try_lock().await.map_err(Error::io("lock", locked))?;
        if !taken {
            return Err(Error::InUse { lock: lock_path });
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.path.join("CONTROL")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads CONTROL; `None` in a new directory.
    pub(crate) async fn read_control(&self) -> Result<Option<Control>, Error> {
        Control::read(&self.control()).await
    }

    /// Replaces CONTROL, durably.
    pub(crate) async fn write_control(&self, control: &Control) -> Result<(), Error> {
        replace(&self.path, "CONTROL", &control.encode()).await
    }
}

/// Returns an error when another user owns the directory.
pub(crate) fn check_owner(path: &Path) -> Result<(), Error> {
    let owner = fs::foreign_owner(path).map_err(Error::io("look at the owner of", path))?;
    owner.map_or(Ok(()), |owner| {
        Err(Error::Foreign {
            directory: path.to_owned(),
            owner,
        })
    })
}

/// Gives the directory, its folders and the files in them the modes of new ones.
fn restrict(path: &Path) -> Result<(), Error> {
    /// Files at the top of a data directory.
    fn at_the_top(name: &str) -> bool {
        [
            "LOCK",
            "CONTROL",
            "MARKS",
            "IDENTITY",
            "FOUNDERS",
            "ORIGIN",
            "RECOVERED",
            REMOVED,
            RESERVE,
        ]
        .contains(&name)
    }
    let folders = [path.to_owned(), path.join("log"), path.join(CHECKPOINTS)];
    let mut count = 0;
    for folder in &folders {
        let are_ours = if folder == path {
            at_the_top
        } else {
            |_: &str| true
        };
        count += fs::restrict(folder, are_ours)
            .map_err(Error::io("change the permissions in", folder))?;
    }
    if count > 0 {
        tracing::warn!(
            directory = %path.display(),
            count,
            "files or directories had other permissions than they are to have, and were given those"
        );
    }
    Ok(())
}

/// Replaces a file of `directory` as a whole, durably: after a crash it has either the
/// old or the new contents.
pub(crate) async fn replace(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let new = directory.join(format!("{name}.new"));
    let file = fs::open(&new, fs::OpenOptions::REPLACE)
        .await
        .map_err(Error::io("create", &new))?;
    file.write_at(bytes, 0)
        .await
        .map_err(Error::io("write", &new))?;
    file.sync_all().await.map_err(Error::io("sync", &new))?;
    fs::rename(&new, directory.join(name))
        .await
        .map_err(Error::io("rename", &new))?;
    fs::sync_dir(directory)
        .await
        .map_err(Error::io("sync", directory))
}
