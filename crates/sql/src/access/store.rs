//! Encoding of roles and privileges as catalog rows.
//!
//! ```text
//! u8 format      u8 what                 format 1, or 2 for what came later
//!   0  a role     u32 number  string name  u8 attributes  i32 connection limit
//!                 u8 flags (1 has a password, 2 has an end)
//!                 [string password] [i64 end]
//!                 u16 n × membership { u32 role, u32 grantor, u8 admin }
//!   1  a schema   u32 number  owned
//!   2  a secret   32 bytes
//!   3  settings   u32 key  u32 database  u32 role
//!                 u16 n × setting { string name, string value }      (format 2)
//!
//! owned           u32 owner  u8 flags (1 has grants) [u16 n × grant {
//!                 u32 grantee, u32 grantor, u16 privileges, u16 grantable }]
//! ```
//!
//! A row's key is a number: the OID of the role or the schema, 0 for the secret, or an OID that
//! settings have for it. From
//! the secret authentication derives its answers for unknown users, which thus are the
//! same after every start.
//!
//! A build that knows no settings refuses a row of format 2 and says that a newer one wrote it.
//! In a cluster such rows are written once every member reads them.

use super::privilege::{Grant, Privileges};
use super::{Access, Membership, Owned, OwnedSettings, Role, SettingOwner};
use crate::error::Result;
use crate::record::{Reader, count, damaged, string};

const FORMAT: u8 = 1;
/// Format of rows with settings.
const FORMAT_OF_SETTINGS: u8 = 2;
const ROLE: u8 = 0;
const SCHEMA: u8 = 1;
const SECRET: u8 = 2;
const SETTINGS: u8 = 3;

const HAS_PASSWORD: u8 = 1;
const HAS_END: u8 = 2;

/// Key of the secret's row.
pub(crate) const SECRET_KEY: u32 = 0;
/// OID of the schema `public`, as in PostgreSQL, and key of its row.
pub(crate) const PUBLIC_OID: u32 = 2200;

/// Encodes a role.
pub(crate) fn encode_role(role: &Role) -> Vec<u8> {
    let mut out = vec![FORMAT, ROLE];
    out.extend_from_slice(&role.oid.to_le_bytes());
    string(&mut out, &role.name);
    let attributes = [
        role.superuser,
        role.inherit,
        role.create_role,
        role.create_database,
        role.login,
        role.replication,
        role.bypass_policies,
    ];
    let bits = attributes.iter().zip(0..);
    out.push(bits.fold(0, |all, (set, bit)| all | u8::from(*set) << bit));
    out.extend_from_slice(&role.connection_limit.to_le_bytes());
    let mut flags = 0;
    if role.password.is_some() {
        flags |= HAS_PASSWORD;
    }
    if role.valid_until.is_some() {
        flags |= HAS_END;
    }
    out.push(flags);
    if let Some(password) = &role.password {
        string(&mut out, password);
    }
    if let Some(end) = role.valid_until {
        out.extend_from_slice(&end.to_le_bytes());
    }
    count(&mut out, role.memberships.len());
    for membership in &role.memberships {
        out.extend_from_slice(&membership.role.to_le_bytes());
        out.extend_from_slice(&membership.grantor.to_le_bytes());
        out.push(u8::from(membership.admin));
    }
    out
}

/// Encodes the privileges on the schema `public`.
pub(crate) fn encode_schema(schema: &Owned) -> Vec<u8> {
    let mut out = vec![FORMAT, SCHEMA];
    out.extend_from_slice(&PUBLIC_OID.to_le_bytes());
    encode_owned(&mut out, schema);
    out
}

/// Encodes the secret.
pub(crate) fn encode_secret(secret: &[u8; 32]) -> Vec<u8> {
    [&[FORMAT, SECRET], &secret[..]].concat()
}

/// Encodes the settings of roles or the database.
pub(crate) fn encode_settings(owner: SettingOwner, owned: &OwnedSettings) -> Vec<u8> {
    let mut out = vec![FORMAT_OF_SETTINGS, SETTINGS];
    for number in [owned.key, owner.database, owner.role] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    count(&mut out, owned.settings.len());
    for (name, value) in &owned.settings {
        string(&mut out, name);
        string(&mut out, value);
    }
    out
}

/// Encodes an owner and grants.
pub(crate) fn encode_owned(out: &mut Vec<u8>, owned: &Owned) {
    out.extend_from_slice(&owned.owner.to_le_bytes());
    let Some(grants) = &owned.grants else {
        out.push(0);
        return;
    };
    out.push(1);
    count(out, grants.len());
    for grant in grants {
        out.extend_from_slice(&grant.grantee.to_le_bytes());
        out.extend_from_slice(&grant.grantor.to_le_bytes());
        out.extend_from_slice(&grant.privileges.bits().to_le_bytes());
        out.extend_from_slice(&grant.grantable.bits().to_le_bytes());
    }
}

/// Decodes one row into the part of `access` that it belongs to.
pub(crate) fn decode(bytes: &[u8], access: &mut Access) -> Result<()> {
    let mut reader = Reader(bytes);
    let format = reader.u8()?;
    if !matches!(format, FORMAT | FORMAT_OF_SETTINGS) {
        return Err(
            damaged(&format!("its format is {format}, not {FORMAT_OF_SETTINGS}"))
                .with_hint("It was probably written by a newer version of this program."),
        );
    }
    match reader.u8()? {
        SETTINGS if format == FORMAT_OF_SETTINGS => {
            let (owner, owned) = decode_settings(&mut reader)?;
            access.put_settings(owner, Some(owned));
        }
        other if format != FORMAT => {
            return Err(damaged(&format!("nothing is of the kind {other}")));
        }
        ROLE => {
            let role = decode_role(&mut reader)?;
            access.put(role);
        }
        SCHEMA => {
            reader.u32()?;
            access.schema = decode_owned(&mut reader)?;
        }
        SECRET => access.secret = reader.array()?,
        other => return Err(damaged(&format!("nothing is of the kind {other}"))),
    }
    reader.end()
}

fn decode_settings(reader: &mut Reader<'_>) -> Result<(SettingOwner, OwnedSettings)> {
    let key = reader.u32()?;
    let owner = SettingOwner {
        database: reader.u32()?,
        role: reader.u32()?,
    };
    let settings = reader.list(|reader| Ok((reader.string()?, reader.string()?)))?;
    Ok((owner, OwnedSettings { key, settings }))
}

fn decode_role(reader: &mut Reader<'_>) -> Result<Role> {
    let oid = reader.u32()?;
    let mut role = Role::new(oid, reader.string()?);
    let attributes = reader.u8()?;
    for (place, bit) in [
        &mut role.superuser,
        &mut role.inherit,
        &mut role.create_role,
        &mut role.create_database,
        &mut role.login,
        &mut role.replication,
        &mut role.bypass_policies,
    ]
    .into_iter()
    .zip(0..)
    {
        *place = attributes >> bit & 1 == 1;
    }
    role.connection_limit = reader.i32()?;
    let flags = reader.u8()?;
    if flags & HAS_PASSWORD != 0 {
        role.password = Some(reader.string()?);
    }
    if flags & HAS_END != 0 {
        role.valid_until = Some(reader.i64()?);
    }
    role.memberships = reader.list(|reader| {
        Ok(Membership {
            role: reader.u32()?,
            grantor: reader.u32()?,
            admin: reader.u8()? != 0,
        })
    })?;
    Ok(role)
}

/// Decodes an owner and grants.
pub(crate) fn decode_owned(reader: &mut Reader<'_>) -> Result<Owned> {
    let mut owned = Owned::by(reader.u32()?);
    if reader.u8()? == 0 {
        return Ok(owned);
    }
    let privileges = |reader: &mut Reader<'_>| {
        let bits = reader.u16()?;
        Privileges::from_bits(bits).ok_or_else(|| damaged("there is no such privilege"))
    };
    owned.grants = Some(reader.list(|reader| {
        Ok(Grant {
            grantee: reader.u32()?,
            grantor: reader.u32()?,
            privileges: privileges(reader)?,
            grantable: privileges(reader)?,
        })
    })?);
    Ok(owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<u8>> {
        let mut role = Role::first();
        role.oid = 16_400;
        role.name = "ada".to_owned();
        role.superuser = false;
        role.password = Some("SCRAM-SHA-256$…".to_owned());
        role.valid_until = Some(-1);
        role.connection_limit = 7;
        role.memberships = vec![Membership {
            role: 10,
            grantor: 10,
            admin: true,
        }];
        let mut schema = Owned::by(16_400);
        schema.grants = Some(vec![Grant {
            grantee: 0,
            grantor: 16_400,
            privileges: Privileges::SCHEMA,
            grantable: Privileges::USAGE,
        }]);
        vec![
            encode_role(&role),
            encode_schema(&schema),
            encode_secret(&[7; 32]),
            encode_settings(OWNER, &settings()),
        ]
    }

    const OWNER: SettingOwner = SettingOwner {
        database: 5,
        role: 16_400,
    };

    fn settings() -> OwnedSettings {
        OwnedSettings {
            key: 16_401,
            settings: vec![("work_mem".to_owned(), "8MB".to_owned())],
        }
    }

    #[test]
    fn the_row_of_settings_is_this() {
        let expected = [
            &[2, 3][..],
            &[0x11, 0x40, 0, 0],
            &[5, 0, 0, 0],
            &[0x10, 0x40, 0, 0],
            &[1, 0],
            &[8, 0, 0, 0],
            b"work_mem",
            &[3, 0, 0, 0],
            b"8MB",
        ];
        assert_eq!(encode_settings(OWNER, &settings()), expected.concat());
    }

    #[test]
    fn what_is_written_comes_back() {
        let mut access = Access::default();
        for row in rows() {
            decode(&row, &mut access).unwrap();
        }
        let role = access.role_by_name("ada").unwrap();
        assert_eq!(encode_role(role), rows()[0]);
        assert!(!role.superuser && role.login && role.bypass_policies);
        assert_eq!(encode_schema(&access.schema), rows()[1]);
        assert_eq!(access.secret, [7; 32]);
        assert_eq!(access.settings_of(OWNER), Some(&settings()));
    }

    #[test]
    fn damage_is_an_error() {
        for good in rows() {
            for length in 0..good.len() {
                assert!(decode(&good[..length], &mut Access::default()).is_err());
            }
            for at in 0..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 0xff;
                // The decoder refuses the row or reads another one from it, but never
                // panics.
                let _ = decode(&bad, &mut Access::default());
            }
            assert!(decode(&[&good[..], b"x"].concat(), &mut Access::default()).is_err());
        }
    }
}
