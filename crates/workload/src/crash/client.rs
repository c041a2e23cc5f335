//! One client of the crash test: it runs transfers until the connection breaks, and
//! records the outcome that the server reported for each.
//!
//! A transfer is four writes in one transaction: a debit, a credit, a line in the ledger,
//! and the client's own row, which always carries the number of its newest line. The
//! shapes of the transactions vary, so that they take different paths through a server:
//!
//! - statement by statement in a transaction block, with prepared statements, at any
//!   of the three isolation levels;
//! - the same with a detour that a savepoint rolls back;
//! - all in one simple query, which is one implicit transaction;
//! - a block that is rolled back on purpose, and must have no effect.
//!
//! Between transfers a client reads the row of another one: a transfer that it saw there
//! must survive a crash.

use coeval_check::ledger::{Account, Client, Sequence, Told, Transfer, TransferId};
use tokio_postgres::types::Type;
use tokio_postgres::{Error as WireError, Statement};

use super::Error;
use crate::Connection;
use crate::chance::Chance;

/// Pause before a client retries after the disk was full.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(5);

/// Parameters of one client.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of this client.
    pub client: u32,
    /// Number of clients.
    pub clients: u32,
    /// Number of accounts.
    pub accounts: u32,
    /// The first sequence number that this client has not used yet.
    pub first_sequence: u64,
    /// Seed of the client's random choices.
    pub seed: u64,
    /// The isolation level of every transaction, as SQL names it; random if `None`.
    pub level: Option<&'static str>,
}

/// The transfers of a client, with the outcomes that the server reported.
#[derive(Debug, Default)]
pub struct History {
    /// The client's transfers, in order.
    pub transfers: Vec<(TransferId, Transfer, Told)>,
    /// Other clients' transfers that this client has read.
    pub seen: Vec<TransferId>,
}

/// How a transfer is sent over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Block,
    BlockWithDetour,
    OneQuery,
    RolledBack,
}

/// Runs transfers until the connection breaks. If the server dies before the client has
/// connected, the history is empty.
///
/// # Errors
/// If the server refuses a statement for a reason that is neither a conflict nor its
/// death.
pub async fn run(port: u16, plan: Plan) -> Result<History, Error> {
    let mut history = History::default();
    let Ok(connection) = crate::connect(port).await else {
        return Ok(history);
    };
    let session = match Session::prepare(&connection, plan.level).await {
        Ok(session) => session,
        Err(error) if is_death(&error) => return Ok(history),
        Err(source) => return Err(refused(source)),
    };
    let mut chance = Chance::new(plan.seed);
    let mut sequence = plan.first_sequence;
    loop {
        let id = TransferId {
            client: Client(plan.client),
            sequence: Sequence(sequence),
        };
        sequence += 1;
        let transfer = plan.transfer(&mut chance);
        let (told, error) = session.transfer(id, transfer, &mut chance).await;
        history.transfers.push((id, transfer, told));
        if let Some(source) = error {
            if is_death(&source) {
                return Ok(history);
            }
            if !is_conflict(&source) {
                return Err(refused(source));
            }
            // The transaction block, if it was one, is still open.
            if connection.batch_execute("ROLLBACK").await.is_err() {
                return Ok(history);
            }
            if is_full(&source) {
                coeval_env::sleep(PATIENCE).await;
            }
        }
        if plan.clients > 1 && chance.once_in(4) {
            match session.newest_of(plan.other(&mut chance)).await {
                Ok(seen) => history.seen.extend(seen),
                Err(error) if is_death(&error) => return Ok(history),
                Err(source) => return Err(refused(source)),
            }
        }
    }
}

fn refused(source: WireError) -> Error {
    Error::Statement {
        doing: "a client's transfer",
        source,
    }
}

/// Whether the error is one that a dying server causes.
fn is_death(error: &WireError) -> bool {
    match error.code() {
        None => true,
        // SQLSTATE classes 57P (shutdown or crash) and 08 (connection exception), and 58
        // (the server stopped because of its disk).
        Some(code) => ["57P", "08", "58"]
            .iter()
            .any(|class| code.code().starts_with(class)),
    }
}

/// Whether the error is a conflict between concurrent transactions, or a temporarily full
/// disk.
fn is_conflict(error: &WireError) -> bool {
    error
        .code()
        .is_some_and(|code| matches!(code.code(), "40001" | "40P01" | "55P03"))
        || is_full(error)
}

/// Whether the disk is full: the server wrote nothing, and a retry may succeed.
fn is_full(error: &WireError) -> bool {
    error.code().is_some_and(|code| code.code() == "53100")
}

/// The outcome of a transfer, as far as the client can derive it from the result of its
/// commit or its only query.
fn told(result: &Result<(), WireError>) -> Told {
    match result {
        Ok(()) => Told::Acknowledged,
        Err(error) if is_conflict(error) => Told::Failed,
        Err(_) => Told::Unknown,
    }
}

impl Plan {
    fn transfer(&self, chance: &mut Chance) -> Transfer {
        let accounts = u64::from(self.accounts);
        let from = chance.within(0..accounts);
        // Two different accounts: the judge could not detect a torn transfer from an
        // account to itself.
        let to = (from + chance.within(1..accounts)) % accounts;
        let account = |number: u64| Account(u32::try_from(number).unwrap_or(0));
        Transfer {
            from: account(from),
            to: account(to),
            amount: i64::try_from(chance.within(1..1_000)).unwrap_or(1),
        }
    }

    /// A random client other than this one.
    fn other(&self, chance: &mut Chance) -> Client {
        let offset = chance.within(1..u64::from(self.clients));
        let other = (u64::from(self.client) + offset) % u64::from(self.clients);
        Client(u32::try_from(other).unwrap_or(0))
    }
}

struct Session<'connection> {
    connection: &'connection Connection,
    add: Statement,
    line: Statement,
    newest: Statement,
    read_newest: Statement,
    level: Option<&'static str>,
}

impl<'connection> Session<'connection> {
    async fn prepare(
        connection: &'connection Connection,
        level: Option<&'static str>,
    ) -> Result<Self, WireError> {
        const ADD: &str = "UPDATE account SET balance = balance + $1 WHERE id = $2";
        const LINE: &str = "INSERT INTO ledger (client, sequence, source, target, amount) \
                            VALUES ($1, $2, $3, $4, $5)";
        const NEWEST: &str = "UPDATE client SET newest = $1 WHERE id = $2";
        const READ_NEWEST: &str = "SELECT newest FROM client WHERE id = $1";
        let (int, long) = (Type::INT4, Type::INT8);
        let five = [
            int.clone(),
            long.clone(),
            int.clone(),
            int.clone(),
            long.clone(),
        ];
        let two = [long, int.clone()];
        Ok(Self {
            connection,
            add: connection.prepare_typed(ADD, &two).await?,
            line: connection.prepare_typed(LINE, &five).await?,
            newest: connection.prepare_typed(NEWEST, &two).await?,
            read_newest: connection.prepare_typed(READ_NEWEST, &[int]).await?,
            level,
        })
    }

    /// Sends one transfer; returns the outcome known to the client, and the error if any.
    async fn transfer(
        &self,
        id: TransferId,
        transfer: Transfer,
        chance: &mut Chance,
    ) -> (Told, Option<WireError>) {
        let shape = match chance.within(0..16) {
            0 => Shape::RolledBack,
            1..4 => Shape::BlockWithDetour,
            // A single query runs at the session's default level.
            4..8 if self.level.is_none() => Shape::OneQuery,
            _ => Shape::Block,
        };
        if shape == Shape::OneQuery {
            let result = self
                .connection
                .batch_execute(&one_query(id, transfer))
                .await;
            return (told(&result), result.err());
        }
        if let Err(error) = self.block(id, transfer, shape, chance).await {
            // The client sent no commit.
            return (Told::Failed, Some(error));
        }
        if shape == Shape::RolledBack {
            let result = self.connection.batch_execute("ROLLBACK").await;
            return (Told::Failed, result.err());
        }
        let result = self.connection.batch_execute("COMMIT").await;
        (told(&result), result.err())
    }

    /// Sends all statements of a transaction block except its end.
    async fn block(
        &self,
        id: TransferId,
        transfer: Transfer,
        shape: Shape,
        chance: &mut Chance,
    ) -> Result<(), WireError> {
        let begin = match (self.level, chance.within(0..4)) {
            (Some(level), _) => &format!("BEGIN ISOLATION LEVEL {level}"),
            (None, 0) => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            (None, 1) => "BEGIN ISOLATION LEVEL SERIALIZABLE",
            (None, _) => "BEGIN",
        };
        let connection = self.connection;
        let (from, to) = (number(transfer.from.0), number(transfer.to.0));
        let (client, sequence) = (number(id.client.0), long(id.sequence.0));
        connection.batch_execute(begin).await?;
        let debit: [(i64, i32); 2] = [(-transfer.amount, from), (transfer.amount, to)];
        // Updates in account order avoid deadlocks between clients; a few transfers break
        // the order, because deadlocks too must be handled.
        let mut moves = debit;
        if !chance.once_in(16) {
            moves.sort_by_key(|(_, account)| *account);
        }
        connection
            .execute(&self.add, &[&moves[0].0, &moves[0].1])
            .await?;
        if shape == Shape::BlockWithDetour {
            connection.batch_execute("SAVEPOINT detour").await?;
            connection
                .execute(&self.add, &[&1_000_000_000_i64, &moves[1].1])
                .await?;
            connection
                .execute(&self.newest, &[&-1_i64, &client])
                .await?;
            connection
                .batch_execute("ROLLBACK TO SAVEPOINT detour")
                .await?;
        }
        connection
            .execute(&self.add, &[&moves[1].0, &moves[1].1])
            .await?;
        connection
            .execute(
                &self.line,
                &[&client, &sequence, &from, &to, &transfer.amount],
            )
            .await?;
        connection
            .execute(&self.newest, &[&sequence, &client])
            .await?;
        Ok(())
    }

    /// The newest transfer of another client, if it has one.
    async fn newest_of(&self, other: Client) -> Result<Option<TransferId>, WireError> {
        let row = self
            .connection
            .query_one(&self.read_newest, &[&number(other.0)])
            .await?;
        let newest: i64 = row.try_get(0)?;
        Ok((newest != 0).then(|| TransferId {
            client: other,
            sequence: Sequence(newest.cast_unsigned()),
        }))
    }
}

/// The whole transfer as one simple query, which is one implicit transaction.
fn one_query(id: TransferId, transfer: Transfer) -> String {
    let Transfer { from, to, amount } = transfer;
    let mut moves = [(from.0, -amount), (to.0, amount)];
    moves.sort_unstable();
    let [(first, first_change), (second, second_change)] = moves;
    let (client, sequence) = (id.client.0, id.sequence.0);
    format!(
        "UPDATE account SET balance = balance + ({first_change}) WHERE id = {first};\n\
         UPDATE account SET balance = balance + ({second_change}) WHERE id = {second};\n\
         INSERT INTO ledger (client, sequence, source, target, amount) \
         VALUES ({client}, {sequence}, {}, {}, {amount});\n\
         UPDATE client SET newest = {sequence} WHERE id = {client};",
        from.0, to.0
    )
}

/// Converts to SQL's `int`. Accounts and clients are few.
fn number(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Converts to SQL's `bigint`.
fn long(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_has_two_accounts_and_a_seed_decides_it() {
        let plan = Plan {
            client: 1,
            clients: 2,
            accounts: 3,
            first_sequence: 1,
            seed: 5,
            level: None,
        };
        let draw = || {
            let mut chance = Chance::new(plan.seed);
            (0..100)
                .map(|_| plan.transfer(&mut chance))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
        assert!(draw().iter().all(|transfer| transfer.from != transfer.to));
        assert_eq!(plan.other(&mut Chance::new(1)), Client(0));
    }
}
