//! The tree: what a text says, owned, without the text and without any parser's types.
//!
//! Shapes are the grammar's: what it has always is a field, what it may leave out is an
//! [`Option`], what it repeats is a [`Vec`]. Every position `at` is a byte of the text.
//! Brackets around expressions leave no trace but in the tree's shape. Operators of one
//! precedence that associate to the left are one node, [`ExprKind::Binary`], and so are set
//! operations and joins in a row: a tree is only as deep as its text is nested.

mod alter;
mod change;
mod define;
mod expr;
mod name;
mod object;
mod routine;
mod select;
mod table;
mod types;
mod utility;
mod walk;

pub use alter::*;
pub use change::*;
pub use define::*;
pub use expr::*;
pub use name::*;
pub use object::*;
pub use routine::*;
pub use select::*;
pub use table::*;
pub use types::*;
pub use utility::*;

/// One statement of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Its first byte in the text.
    pub at: u32,
    /// The byte after its last, without the semicolon.
    pub end: u32,
    pub kind: StatementKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    Query(Box<Query>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Merge(Box<Merge>),
    CreateTable(Box<CreateTable>),
    CreateTableAs(Box<CreateTableAs>),
    CreateIndex(Box<CreateIndex>),
    CreateView(Box<CreateView>),
    CreateSequence(CreateSequence),
    CreateSchema(CreateSchema),
    CreateDatabase(CreateDatabase),
    CreateDomain(Box<CreateDomain>),
    CreateType(CreateType),
    CreateRoutine(Box<CreateRoutine>),
    CreateAggregate(CreateAggregate),
    CreateTrigger(Box<CreateTrigger>),
    CreateRule(Box<CreateRule>),
    CreatePolicy(Box<CreatePolicy>),
    CreateStatistics(CreateStatistics),
    CreateExtension(CreateExtension),
    CreateRole(CreateRole),
    CreateCast(Box<CreateCast>),
    CreateCollation(CreateCollation),
    Define(Define),
    RefreshView(RefreshView),
    AlterTable(AlterTable),
    AlterObject(Box<AlterObject>),
    AlterSequence(AlterSequence),
    AlterDomain(Box<AlterDomain>),
    AlterEnum(AlterEnum),
    AlterComposite(AlterComposite),
    AlterRole(AlterRole),
    AlterRoleSetting(AlterRoleSetting),
    AlterGroup(AlterGroup),
    AlterDatabase(AlterDatabase),
    AlterSystem(Setting),
    AlterRoutine(AlterRoutine),
    AlterPolicy(Box<AlterPolicy>),
    AlterStatistics(AlterStatistics),
    AlterDefaultPrivileges(AlterDefaultPrivileges),
    Drop(Drop),
    DropOwned(DropOwned),
    ReassignOwned(ReassignOwned),
    DropRole(DropRole),
    DropDatabase(DropDatabase),
    Truncate(Truncate),
    Comment(Comment),
    Grant(Grant),
    GrantRole(GrantRole),
    Transaction(Transaction),
    Set(Setting),
    Show(Path),
    SetConstraints(SetConstraints),
    Explain(Explain),
    Prepare(Prepare),
    Execute(Execute),
    Deallocate(Option<Name>),
    Declare(Box<Declare>),
    Fetch(Fetch),
    Close(Option<Name>),
    Copy(Box<Copy>),
    Lock(Lock),
    Vacuum(Vacuum),
    Cluster(Cluster),
    Reindex(Reindex),
    Discard(Discard),
    Checkpoint,
    Listen(Name),
    Unlisten(Option<Name>),
    Notify(Notify),
    Load(String),
    Do(Vec<DoItem>),
    Call(Box<FunctionCall>),
    /// `RETURN expression`, in the body of a routine only.
    Return(Box<Expr>),
    /// A statement of PostgreSQL's grammar that this tree does not have: recognised by its
    /// first words, and by nothing behind them.
    Unsupported(Unsupported),
}

/// A statement that is not modelled.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported {
    /// Its command, in capitals.
    pub command: &'static str,
    /// All of it, as written.
    pub text: String,
}
