//! That the cluster has removed this node, in the file REMOVED of its directory.
//!
//! ```text
//!  0       8         12    16     24   32
//! +-------+---------+-----+------+----+-------+
//! | magic | version | crc | node | by | zeros |    64 bytes
//! +-------+---------+-----+------+----+-------+
//! ```
//!
//! A node that was away when it was removed does not have the entry that removes it: it learns
//! of its removal from a member that refuses it (`by`). What it has learned is final, so it is
//! written down: a restart away from that member must not make it a voter again. The file names
//! the number that was removed, since an empty directory may be used under another one.
//!
//! A build that does not know the file ignores it. A backup does not contain it.

use std::path::Path;

use coeval_env::fs;

use crate::Error;
use crate::control::replace;
use crate::stamp::{self, Stamp};

/// Name of the file.
pub(crate) const REMOVED: &str = "REMOVED";
const MAGIC: [u8; 8] = *b"COEVALRM";
const BYTES: usize = 64;

/// Which node was removed, and which member has said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The number that was removed.
    pub node: u64,
    /// The member that refuses it.
    pub by: u64,
}

impl Removal {
    /// The removal that is written down in a directory; `None` if none is.
    ///
    /// # Errors
    /// When the file cannot be read, or is damaged.
    pub async fn read(directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join(REMOVED);
        let exists = fs::exists(&path).await;
        if !exists.map_err(Error::io("look for", &path))? {
            return Ok(None);
        }
        let block = fs::read(&path).await.map_err(Error::io("read", &path))?;
        if block.len() != BYTES {
            return Err(Error::Damaged {
                file: path,
                offset: 0,
                what: "the file does not have its 64 bytes".to_owned(),
            });
        }
        let mut fields = stamp::check(&block, MAGIC, &path)?;
        Ok(Some(Self {
            node: u64::from_le_bytes(fields.take()),
            by: u64::from_le_bytes(fields.take()),
        }))
    }

    /// Writes the removal down in a directory that this process has locked. Durable when this
    /// returns.
    pub async fn write(self, directory: &Path) -> Result<(), Error> {
        let mut block = Stamp::new(MAGIC, BYTES);
        block.put(&self.node.to_le_bytes());
        block.put(&self.by.to_le_bytes());
        replace(directory, REMOVED, &block.finish()).await
    }

    /// Takes a removal back in a directory that this process has locked: an administrator has
    /// the node go on without the cluster that removed it.
    pub async fn forget(directory: &Path) -> Result<(), Error> {
        let path = directory.join(REMOVED);
        match fs::remove_file(&path).await {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io("remove", &path)(error)),
        }
        fs::sync_dir(directory)
            .await
            .map_err(Error::io("sync", directory))
    }
}
