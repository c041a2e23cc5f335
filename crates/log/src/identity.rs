//! The identity of a data directory: a random number, drawn once, in the file IDENTITY.
//!
//! ```text
//!  0       8         12    16
//! +-------+---------+-----+----------+-------+
//! | magic | version | crc | identity | zeros |    64 bytes
//! +-------+---------+-----+----------+-------+
//! ```
//!
//! A node's number says which member it is meant to be; the identity says whether it still
//! has what that member promised. A disk that was replaced, a directory that was removed
//! and a backup that was restored in its place have another identity under the same number,
//! so a cluster that knows its members by both does not take their votes or
//! acknowledgements. A directory of an earlier build gets its identity at its first start
//! by this one. A backup does not contain the file.
//!
//! A *copy* of all files of a directory has its identity, too: nothing in the files tells
//! the copy from the original. See docs/operations/cluster.md.

use std::path::Path;

use coeval_env::fs;
use coeval_types::DirectoryId;

use crate::Error;
use crate::control::{DataDirectory, replace};
use crate::stamp::{self, Stamp};

/// Name of the file.
const NAME: &str = "IDENTITY";
const MAGIC: [u8; 8] = *b"COEVALID";
const BYTES: usize = 64;

/// The identity of a directory; `None` if it has none yet.
///
/// # Errors
/// When the file cannot be read, or is damaged.
pub async fn read_identity(directory: &Path) -> Result<Option<DirectoryId>, Error> {
    let path = directory.join(NAME);
    let exists = fs::exists(&path).await;
    if !exists.map_err(Error::io("look for", &path))? {
        return Ok(None);
    }
    let block = fs::read(&path).await.map_err(Error::io("read", &path))?;
    let damaged = |what: &str| Error::Damaged {
        file: path.clone(),
        offset: 0,
        what: what.to_owned(),
    };
    if block.len() != BYTES {
        return Err(damaged("the file does not have its 64 bytes"));
    }
    let mut fields = stamp::check(&block, MAGIC, &path)?;
    match u128::from_le_bytes(fields.take()) {
        0 => Err(damaged("its contents make no sense")),
        id => Ok(Some(DirectoryId(id))),
    }
}

/// The identity of a directory that this process has locked; drawn if it has none.
pub(crate) async fn of(directory: &DataDirectory) -> Result<DirectoryId, Error> {
    if let Some(id) = read_identity(directory.path()).await? {
        return Ok(id);
    }
    let mut drawn = [0; 16];
    coeval_env::random_bytes(&mut drawn);
    // 0 stands for no identity in messages.
    let id = DirectoryId(u128::from_le_bytes(drawn).max(1));
    let mut block = Stamp::new(MAGIC, BYTES);
    block.put(&id.0.to_le_bytes());
    replace(directory.path(), NAME, &block.finish()).await?;
    tracing::info!(identity = %id, "the data directory has an identity from now on");
    Ok(id)
}
