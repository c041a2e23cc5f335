//! Rows of extensions, beside those of tables. An extension has no content here: its functions
//! are built in, and the row says that someone has asked for them.
//!
//! ```text
//! u8 format (17)   u32 number   string name   u32 owner   string version
//! ```
//!
//! In a cluster such rows are written from cluster version 7 on.

use crate::error::Result;
use crate::record::{Reader, damaged, string};

/// First byte of an extension's row.
pub(super) const FORMAT: u8 = 17;

/// An extension that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// OID of the extension.
    pub oid: u32,
    /// Name of the extension; extensions have a name space of their own.
    pub name: String,
    /// OID of the role that owns it.
    pub owner: u32,
    /// Version, as `pg_extension` shows it.
    pub version: String,
}

/// An extension whose functions are built in.
#[derive(Debug)]
pub struct BuiltIn {
    /// Name of the extension.
    pub name: &'static str,
    /// Its version in PostgreSQL 15.
    pub version: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// The extensions that CREATE EXTENSION takes.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "pgcrypto",
        version: "1.3",
        about: "cryptographic functions",
    },
    BuiltIn {
        name: "uuid-ossp",
        version: "1.1",
        about: "generate universally unique identifiers (UUIDs)",
    },
];

/// Encodes an extension.
pub(super) fn encode(extension: &Extension) -> Vec<u8> {
    let mut out = vec![FORMAT];
    out.extend_from_slice(&extension.oid.to_le_bytes());
    string(&mut out, &extension.name);
    out.extend_from_slice(&extension.owner.to_le_bytes());
    string(&mut out, &extension.version);
    out
}

/// Decodes an extension.
pub(super) fn decode(bytes: &[u8]) -> Result<Extension> {
    let mut reader = Reader(bytes);
    if reader.u8()? != FORMAT {
        return Err(damaged("it is no extension"));
    }
    let extension = Extension {
        oid: reader.u32()?,
        name: reader.string()?,
        owner: reader.u32()?,
        version: reader.string()?,
    };
    reader.end()?;
    Ok(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_comes_back() {
        let extension = Extension {
            oid: 16_390,
            name: "uuid-ossp".to_owned(),
            owner: 10,
            version: "1.1".to_owned(),
        };
        let bytes = encode(&extension);
        assert_eq!(decode(&bytes).unwrap(), extension);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err());
        }
    }
}
