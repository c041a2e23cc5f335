//! Names: of columns, tables, functions, operators, roles.

use smol_str::SmolStr;

/// A name as it is stored: a bare one in lower case, a quoted one as written. It is not cut
/// to PostgreSQL's 63 bytes; who looks it up does that, and says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub text: SmolStr,
    pub at: u32,
}

/// A name with qualifiers, from the outermost in. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(pub Vec<Name>);

impl Path {
    /// Where it begins.
    pub fn at(&self) -> u32 {
        self.0.first().map_or(0, |name| name.at)
    }
}

/// An operator, with its schema if `OPERATOR(…)` gives one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    pub schema: Vec<Name>,
    /// `!=` is read as `<>`.
    pub symbol: SmolStr,
    pub at: u32,
}

/// A role where one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    Named(Name),
    CurrentRole,
    CurrentUser,
    SessionUser,
    Public,
}

/// A table where one is read or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    pub name: Path,
    /// ONLY: without the tables that inherit from it.
    pub only: bool,
}
