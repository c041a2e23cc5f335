//! Objects as DROP, COMMENT, ALTER and GRANT name them, and what is done with them by name.

use super::{
    AggregateRef, Literal, Name, OperatorRef, Path, Relation, Role, RoutineKind, RoutineRef,
    TypeName,
};

/// Kinds of objects that a plain name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Table,
    Sequence,
    View,
    MaterializedView,
    Index,
    ForeignTable,
    Collation,
    Conversion,
    Statistics,
    TextSearchParser,
    TextSearchDictionary,
    TextSearchTemplate,
    TextSearchConfiguration,
    AccessMethod,
    EventTrigger,
    Extension,
    ForeignDataWrapper,
    Language,
    Publication,
    Schema,
    Server,
    Database,
    Role,
    Subscription,
    Tablespace,
}

/// Kinds of objects that belong to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablePartKind {
    Policy,
    Rule,
    Trigger,
    Constraint,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    Named(ObjectKind, Path),
    Type(TypeName),
    Domain(TypeName),
    Routine(RoutineKind, RoutineRef),
    Aggregate(AggregateRef),
    Operator(OperatorRef),
    /// An operator class or, if the flag is set, a family, and its access method.
    OperatorClass(bool, Path, Name),
    Cast(TypeName, TypeName),
    Transform(TypeName, Name),
    PartOfTable(TablePartKind, Name, Path),
    DomainConstraint(Name, Path),
    Column(Path),
    LargeObject(Literal),
    /// A table, or what is altered like one, where it may be ONLY.
    Relation(ObjectKind, Relation),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Drop {
    /// At least one, and all of one kind.
    pub objects: Vec<Object>,
    pub if_exists: bool,
    pub concurrently: bool,
    pub cascade: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DropOwned {
    pub roles: Vec<Role>,
    pub cascade: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReassignOwned {
    pub roles: Vec<Role>,
    pub to: Role,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DropRole {
    pub roles: Vec<Role>,
    pub if_exists: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DropDatabase {
    pub name: Name,
    pub if_exists: bool,
    pub force: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Truncate {
    pub tables: Vec<Relation>,
    pub restart_identity: bool,
    pub cascade: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Comment {
    pub object: Object,
    /// None takes it away.
    pub text: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub revoke: bool,
    /// REVOKE GRANT OPTION FOR
    pub option_for: bool,
    pub privileges: Privileges,
    pub target: GrantTarget,
    pub grantees: Vec<Role>,
    pub with_grant_option: bool,
    pub granted_by: Option<Role>,
    pub cascade: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Privileges {
    All(Vec<Name>),
    List(Vec<Privilege>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Privilege {
    pub name: String,
    pub columns: Vec<Name>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum GrantTarget {
    Objects(GrantKind, Vec<Path>),
    Routines(RoutineKind, Vec<RoutineRef>),
    LargeObjects(Vec<Literal>),
    AllInSchema(GrantKind, Vec<Name>),
    /// Of objects made later.
    Default(GrantKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantKind {
    Table,
    Sequence,
    ForeignDataWrapper,
    ForeignServer,
    Database,
    Domain,
    Language,
    Parameter,
    Schema,
    Tablespace,
    Type,
    Function,
    Procedure,
    Routine,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GrantRole {
    pub revoke: bool,
    /// REVOKE ADMIN OPTION FOR
    pub option_for: bool,
    pub roles: Vec<Privilege>,
    pub grantees: Vec<Role>,
    pub with_admin_option: bool,
    pub granted_by: Option<Role>,
    pub cascade: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterDefaultPrivileges {
    pub of: Vec<DefaultsOf>,
    pub grant: Grant,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DefaultsOf {
    Schemas(Vec<Name>),
    Roles(Vec<Role>),
}
