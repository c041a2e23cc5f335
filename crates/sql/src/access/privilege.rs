//! Privileges and grants: sets of privileges, and the lists of grants on objects.
//!
//! A grant prints as PostgreSQL's `aclitem`: one letter for each privilege, with a star
//! after each privilege that carries the grant option.
//!
//! ```text
//!   readers=r*w/ada     readers has SELECT with grant option, and UPDATE;
//!                       ada granted them
//!   =r/ada              PUBLIC has SELECT
//! ```
//!
//! Sources: PostgreSQL documentation, "Privileges".

use crate::error::{Error, Result, SqlState};

/// OID that stands for PUBLIC, that is for all roles.
pub const PUBLIC_ROLE: u32 = 0;

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges(u16);

/// Privileges with their names and letters, in the order in which they are printed.
const NAMES: [(Privileges, &str, char); 9] = [
    (Privileges::INSERT, "INSERT", 'a'),
    (Privileges::SELECT, "SELECT", 'r'),
    (Privileges::UPDATE, "UPDATE", 'w'),
    (Privileges::DELETE, "DELETE", 'd'),
    (Privileges::TRUNCATE, "TRUNCATE", 'D'),
    (Privileges::REFERENCES, "REFERENCES", 'x'),
    (Privileges::TRIGGER, "TRIGGER", 't'),
    (Privileges::USAGE, "USAGE", 'U'),
    (Privileges::CREATE, "CREATE", 'C'),
];

impl Privileges {
    /// The empty set of privileges.
    pub const NONE: Self = Self(0);
    /// The privilege to insert rows.
    pub const INSERT: Self = Self(1);
    /// The privilege to read rows.
    pub const SELECT: Self = Self(1 << 1);
    /// The privilege to update rows.
    pub const UPDATE: Self = Self(1 << 2);
    /// The privilege to delete rows.
    pub const DELETE: Self = Self(1 << 3);
    /// The privilege to empty a table with TRUNCATE.
    pub const TRUNCATE: Self = Self(1 << 4);
    /// The privilege to reference a table's rows; without effect, because there are no
    /// foreign keys.
    pub const REFERENCES: Self = Self(1 << 5);
    /// The privilege to create triggers on a table; without effect, because there are no
    /// triggers.
    pub const TRIGGER: Self = Self(1 << 6);
    /// The privilege to look up objects in a schema.
    pub const USAGE: Self = Self(1 << 8);
    /// The privilege to create objects in a schema.
    pub const CREATE: Self = Self(1 << 9);
    /// All privileges on a table.
    pub const TABLE: Self = Self(0x7f);
    /// All privileges on a schema.
    pub const SCHEMA: Self = Self(Self::USAGE.0 | Self::CREATE.0);

    /// All privileges on a sequence.
    pub const SEQUENCE: Self = Self(Self::SELECT.0 | Self::UPDATE.0 | Self::USAGE.0);

    /// The set's bits, as catalog rows store them.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Decodes stored bits; `None` for bits without a meaning.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Option<Self> {
        if bits & !(Self::TABLE.0 | Self::SCHEMA.0) == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The privileges that are in this set but not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Intersection of both sets.
    #[must_use]
    pub const fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether this set includes all of `other`.
    #[must_use]
    pub const fn include(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// The privilege of this name, without regard to case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut names = NAMES.iter();
        let found = names.find(|(_, known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(privilege, ..)| *privilege)
    }

    /// Names of the privileges in the set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES
            .iter()
            .filter(move |(privilege, ..)| self.include(*privilege))
            .map(|(_, name, _)| *name)
    }
}

/// The privileges that one role has granted to another on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// OID of the role that has the privileges; [`PUBLIC_ROLE`] for all roles.
    pub grantee: u32,
    /// OID of the role that granted them.
    pub grantor: u32,
    /// The granted privileges.
    pub privileges: Privileges,
    /// Those privileges that carry the grant option.
    pub grantable: Privileges,
}

impl Grant {
    /// The grant of an owner to itself.
    #[must_use]
    pub const fn own(owner: u32, privileges: Privileges) -> Self {
        Self {
            grantee: owner,
            grantor: owner,
            privileges,
            grantable: Privileges::NONE,
        }
    }

    /// Prints the grant as an `aclitem`. `name` returns a role's name.
    pub fn show(&self, name: impl Fn(u32) -> String) -> String {
        let mut shown = match self.grantee {
            PUBLIC_ROLE => String::new(),
            grantee => name(grantee),
        };
        shown.push('=');
        for (privilege, _, letter) in NAMES {
            if self.privileges.include(privilege) {
                shown.push(letter);
                if self.grantable.include(privilege) {
                    shown.push('*');
                }
            }
        }
        shown.push('/');
        shown.push_str(&name(self.grantor));
        shown
    }
}

/// Adds a grant to a list.
pub(crate) fn grant(grants: &mut Vec<Grant>, new: Grant) {
    let same = |each: &&mut Grant| each.grantee == new.grantee && each.grantor == new.grantor;
    match grants.iter_mut().find(same) {
        Some(known) => {
            known.privileges = known.privileges.with(new.privileges);
            known.grantable = known.grantable.with(new.grantable);
        }
        None => grants.push(new),
    }
}

/// Revokes privileges, or only their grant option, from a grantee. With `cascade` it also
/// revokes the privileges that the grantee has granted to others; otherwise those are an
/// error, SQLSTATE 2BP01.
pub(crate) fn revoke(
    grants: &mut Vec<Grant>,
    gone: Grant,
    only_option: bool,
    owner: u32,
    cascade: bool,
) -> Result<()> {
    let mut lost = Privileges::NONE;
    for each in &mut *grants {
        if each.grantee != gone.grantee || each.grantor != gone.grantor {
            continue;
        }
        lost = lost.with(each.grantable.both(gone.privileges));
        each.grantable = each.grantable.without(gone.privileges);
        if !only_option {
            each.privileges = each.privileges.without(gone.privileges);
        }
    }
    grants.retain(|each| !each.privileges.is_none());
    // A grant option from another grantor stays valid.
    let kept = grants
        .iter()
        .filter(|each| each.grantee == gone.grantee)
        .fold(Privileges::NONE, |all, each| all.with(each.grantable));
    let lost = lost.without(kept);
    if lost.is_none() || gone.grantee == owner {
        return Ok(());
    }
    let dependent: Vec<Grant> = grants
        .iter()
        .filter(|each| each.grantor == gone.grantee && !each.privileges.both(lost).is_none())
        .copied()
        .collect();
    if !dependent.is_empty() && !cascade {
        return Err(Error::new(
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
            "dependent privileges exist",
        )
        .with_hint("Use CASCADE to revoke them too."));
    }
    for each in dependent {
        let further = Grant {
            privileges: each.privileges.both(lost),
            ..each
        };
        revoke(grants, further, false, owner, true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(grantor: u32, grantee: u32, grantable: bool) -> Grant {
        Grant {
            grantee,
            grantor,
            privileges: Privileges::SELECT,
            grantable: if grantable {
                Privileges::SELECT
            } else {
                Privileges::NONE
            },
        }
    }

    #[test]
    fn prints_as_postgresql_does() {
        let name = |oid: u32| format!("r{oid}");
        let mut one = given(1, 2, true);
        one.privileges = one.privileges.with(Privileges::UPDATE);
        assert_eq!(one.show(name), "r2=r*w/r1");
        assert_eq!(given(1, PUBLIC_ROLE, false).show(name), "=r/r1");
        assert_eq!(Grant::own(1, Privileges::TABLE).show(name), "r1=arwdDxt/r1");
        assert_eq!(Grant::own(1, Privileges::SCHEMA).show(name), "r1=UC/r1");
    }

    #[test]
    fn what_was_passed_on_goes_with_the_right_to_pass_it_on() {
        let chain = vec![
            Grant::own(1, Privileges::TABLE),
            given(1, 2, true),
            given(2, 3, true),
            given(3, 4, false),
        ];
        let mut grants = chain.clone();
        let gone = given(1, 2, false);
        let error = revoke(&mut grants, gone, false, 1, false).unwrap_err();
        assert_eq!(error.state().0, "2BP01");
        let mut grants = chain.clone();
        revoke(&mut grants, gone, false, 1, true).unwrap();
        assert_eq!(grants, [Grant::own(1, Privileges::TABLE)]);
        let mut grants = chain.clone();
        revoke(&mut grants, gone, true, 1, true).unwrap();
        assert_eq!(grants[1..], [given(1, 2, false)]);
        // Another grantor still gives role 2 the grant option.
        let mut grants = chain;
        grant(&mut grants, given(5, 2, true));
        revoke(&mut grants, gone, false, 1, false).unwrap();
        assert_eq!(grants.len(), 4);
    }

    #[test]
    fn grants_add_up() {
        let mut grants = Vec::new();
        grant(&mut grants, given(1, 2, false));
        grant(&mut grants, given(1, 2, true));
        assert_eq!(grants, [given(1, 2, true)]);
    }
}
