//! Queries of the crash test: they create its tables, and read them whole in one
//! snapshot.

use std::collections::BTreeMap;

use coeval_check::ledger::{Account, Client, Sequence, Shown, Transfer, TransferId};
use tokio_postgres::{Error as WireError, Row};

use super::Error;
use crate::Connection;

/// Creates the tables, in one transaction, and opens the accounts.
pub async fn create(
    connection: &Connection,
    accounts: u32,
    opening: i64,
    clients: u32,
) -> Result<(), Error> {
    let list = |count: u32, value: i64| {
        (0..count)
            .map(|id| format!("({id}, {value})"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let script = format!(
        "BEGIN;\n\
         CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL);\n\
         CREATE TABLE client (id int PRIMARY KEY, newest bigint NOT NULL);\n\
         CREATE TABLE ledger (client int, sequence bigint, source int NOT NULL, \
         target int NOT NULL, amount bigint NOT NULL, PRIMARY KEY (client, sequence));\n\
         CREATE INDEX ledger_source ON ledger (source);\n\
         INSERT INTO account (id, balance) VALUES {};\n\
         INSERT INTO client (id, newest) VALUES {};\n\
         COMMIT;",
        list(accounts, opening),
        list(clients, 0)
    );
    connection
        .batch_execute(&script)
        .await
        .map_err(|source| Error::Statement {
            doing: "creating the tables",
            source,
        })
}

/// Reads all tables in one snapshot, and checks that the indexes agree with them.
pub async fn everything(connection: &Connection) -> Result<Shown, Error> {
    let (shown, newest, by_index) = read(connection).await.map_err(|source| Error::Statement {
        doing: "reading everything",
        source,
    })?;
    compare_newest(&shown, &newest)?;
    compare_index(&shown, &by_index)?;
    Ok(shown)
}

type Newest = BTreeMap<Client, Sequence>;
type BySource = BTreeMap<Account, usize>;

async fn read(connection: &Connection) -> Result<(Shown, Newest, BySource), WireError> {
    connection
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .await?;
    let mut shown = Shown::default();
    for row in connection
        .query("SELECT id, balance FROM account", &[])
        .await?
    {
        shown
            .balances
            .insert(Account(number(&row, 0)?), row.try_get(1)?);
    }
    let lines = connection
        .query(
            "SELECT client, sequence, source, target, amount FROM ledger",
            &[],
        )
        .await?;
    for row in lines {
        let id = TransferId {
            client: Client(number(&row, 0)?),
            sequence: Sequence(row.try_get::<_, i64>(1)?.cast_unsigned()),
        };
        let transfer = Transfer {
            from: Account(number(&row, 2)?),
            to: Account(number(&row, 3)?),
            amount: row.try_get(4)?,
        };
        shown.lines.push((id, transfer));
    }
    let mut newest = Newest::new();
    for row in connection
        .query("SELECT id, newest FROM client", &[])
        .await?
    {
        let sequence = row.try_get::<_, i64>(1)?.cast_unsigned();
        newest.insert(Client(number(&row, 0)?), Sequence(sequence));
    }
    let count = connection
        .prepare("SELECT count(*) FROM ledger WHERE source = $1")
        .await?;
    let mut by_source = BySource::new();
    for account in shown.balances.keys() {
        let row = connection
            .query_one(&count, &[&account.0.cast_signed()])
            .await?;
        let lines = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0);
        by_source.insert(*account, lines);
    }
    connection.batch_execute("COMMIT").await?;
    Ok((shown, newest, by_source))
}

fn number(row: &Row, column: usize) -> Result<u32, WireError> {
    Ok(row.try_get::<_, i32>(column)?.cast_unsigned())
}

/// Checks that each client's row carries the number of its newest ledger line: both are
/// written in one transaction.
fn compare_newest(shown: &Shown, newest: &Newest) -> Result<(), Error> {
    let mut expected: Newest = newest.keys().map(|client| (*client, Sequence(0))).collect();
    for (id, _) in &shown.lines {
        let sequence = expected.entry(id.client).or_insert(Sequence(0));
        *sequence = (*sequence).max(id.sequence);
    }
    if &expected == newest {
        return Ok(());
    }
    Err(Error::Inconsistent(format!(
        "the clients' newest lines are {expected:?}, and their rows say {newest:?}"
    )))
}

/// Checks that a count through the secondary index equals a count by a table scan.
fn compare_index(shown: &Shown, by_index: &BySource) -> Result<(), Error> {
    let mut by_scan: BySource = by_index.keys().map(|account| (*account, 0)).collect();
    for (_, transfer) in &shown.lines {
        *by_scan.entry(transfer.from).or_default() += 1;
    }
    if &by_scan == by_index {
        return Ok(());
    }
    Err(Error::Inconsistent(format!(
        "lines by source are {by_scan:?} by a scan and {by_index:?} by the index"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> Shown {
        let id = TransferId {
            client: Client(1),
            sequence: Sequence(4),
        };
        let transfer = Transfer {
            from: Account(0),
            to: Account(1),
            amount: 3,
        };
        Shown {
            lines: vec![(id, transfer)],
            balances: BTreeMap::new(),
        }
    }

    #[test]
    fn rows_and_lines_must_agree() {
        let newest =
            |sequence| Newest::from([(Client(1), Sequence(sequence)), (Client(2), Sequence(0))]);
        assert!(compare_newest(&shown(), &newest(4)).is_ok());
        assert!(compare_newest(&shown(), &newest(5)).is_err());
        assert!(compare_newest(&shown(), &Newest::new()).is_err());
    }

    #[test]
    fn index_and_table_must_agree() {
        let count = |lines| BySource::from([(Account(0), lines), (Account(1), 0)]);
        assert!(compare_index(&shown(), &count(1)).is_ok());
        assert!(compare_index(&shown(), &count(0)).is_err());
    }
}
