//! What ALTER changes.

use super::{
    Attributes, ColumnDefinition, ColumnType, DatabaseOption, Expr, GenericOption, ListedOption,
    Name, Object, ObjectKind, PartitionBound, Path, Relation, Role, RoleOption, SequenceOption,
    Setting, TableConstraint, TypeName,
};

#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// A table, or what is altered like one.
    pub kind: ObjectKind,
    pub if_exists: bool,
    pub table: Relation,
    pub actions: Vec<TableAction>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableAction {
    AddColumn {
        if_not_exists: bool,
        column: ColumnDefinition,
    },
    DropColumn {
        if_exists: bool,
        name: Name,
        cascade: bool,
    },
    AlterColumn(Name, ColumnAction),
    /// A column of an index, by its number.
    SetStatisticsOf(i32, i32),
    AddConstraint(TableConstraint),
    AlterConstraint(Name, Attributes),
    ValidateConstraint(Name),
    DropConstraint {
        if_exists: bool,
        name: Name,
        cascade: bool,
    },
    SetWithoutOids,
    ClusterOn(Name),
    SetWithoutCluster,
    SetLogged(bool),
    Trigger(Switch, Triggers),
    Rule(Switch, Name),
    Inherit(Path),
    NoInherit(Path),
    Of(Path),
    NotOf,
    Owner(Role),
    SetAccessMethod(Name),
    SetTablespace(Name),
    SetOptions(Vec<ListedOption>),
    ResetOptions(Vec<ListedOption>),
    ReplicaIdentity(ReplicaIdentity),
    RowSecurity(bool),
    ForceRowSecurity(bool),
    GenericOptions(Vec<GenericAction>),
    AttachPartition(Path, Option<PartitionBound>),
    DetachPartition {
        name: Path,
        concurrently: bool,
        finalize: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum ColumnAction {
    SetDefault(Expr),
    DropDefault,
    SetNotNull(bool),
    DropExpression(bool),
    SetStatistics(i32),
    SetOptions(Vec<ListedOption>),
    ResetOptions(Vec<ListedOption>),
    SetStorage(Name),
    SetCompression(Name),
    AddIdentity {
        always: bool,
        options: Vec<SequenceOption>,
    },
    SetIdentity(Vec<IdentityAction>),
    DropIdentity(bool),
    SetType {
        kind: TypeName,
        collation: Option<Path>,
        using: Option<Expr>,
    },
    GenericOptions(Vec<GenericAction>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum IdentityAction {
    /// RESTART, with or without SET in front of it, and all others behind SET.
    Option(SequenceOption),
    Generated(bool),
}

#[derive(Clone, Debug, PartialEq)]
pub enum GenericAction {
    Plain(GenericOption),
    Set(GenericOption),
    Add(GenericOption),
    Drop(Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    Enable,
    EnableAlways,
    EnableReplica,
    Disable,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Triggers {
    Named(Name),
    All,
    User,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ReplicaIdentity {
    Nothing,
    Full,
    Default,
    Index(Name),
}

/// RENAME, OWNER TO, SET SCHEMA and DEPENDS, which all objects have alike.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterObject {
    pub object: Object,
    pub if_exists: bool,
    pub action: ObjectAction,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ObjectAction {
    Rename(Name),
    RenameColumn(Name, Name),
    RenameConstraint(Name, Name),
    RenameAttribute { from: Name, to: Name, cascade: bool },
    Owner(Role),
    Schema(Name),
    DependsOn { no: bool, extension: Name },
    SetOptions(Vec<ListedOption>),
    RefreshVersion,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterSequence {
    pub if_exists: bool,
    pub name: Path,
    pub options: Vec<SequenceOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterDomain {
    pub name: Path,
    pub action: DomainAction,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DomainAction {
    SetDefault(Expr),
    DropDefault,
    SetNotNull(bool),
    AddConstraint(TableConstraint),
    DropConstraint {
        if_exists: bool,
        name: Name,
        cascade: bool,
    },
    ValidateConstraint(Name),
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterEnum {
    pub name: Path,
    pub action: EnumAction,
}

#[derive(Clone, Debug, PartialEq)]
pub enum EnumAction {
    Add {
        if_not_exists: bool,
        value: String,
        place: Option<EnumPlace>,
    },
    Rename(String, String),
}

#[derive(Clone, Debug, PartialEq)]
pub enum EnumPlace {
    Before(String),
    After(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterComposite {
    pub name: Path,
    pub actions: Vec<AttributeAction>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AttributeAction {
    Add(ColumnType, bool),
    Drop {
        if_exists: bool,
        name: Name,
        cascade: bool,
    },
    SetType {
        name: Name,
        kind: TypeName,
        collation: Option<Path>,
        cascade: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterRole {
    pub role: Role,
    pub options: Vec<RoleOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterRoleSetting {
    /// None is ALL.
    pub role: Option<Role>,
    pub database: Option<Name>,
    pub setting: Setting,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterGroup {
    pub role: Role,
    pub add: bool,
    pub members: Vec<Role>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterDatabase {
    pub name: Name,
    pub action: DatabaseAction,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DatabaseAction {
    Options(Vec<DatabaseOption>),
    Tablespace(Name),
    RefreshCollation,
    Setting(Setting),
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterStatistics {
    pub if_exists: bool,
    pub name: Path,
    pub target: i32,
}
