//! Test data whose states after each commit are all distinct, so that a check can tell
//! exactly which commit a database shows.
//!
//! ```text
//!   commit n   insert page n, delete every third page behind, newest = n
//! ```
//!
//! A state read from the server either equals the state after commit n, to the last byte,
//! or is wrong.

use crate::Connection;

/// A page is deleted when the newest page is this many further.
const KEPT: u64 = 7;

/// Result of reading the test data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The state after this commit.
    State(u64),
    /// A state that never existed.
    Wrong(String),
    /// The server refused with an error.
    Refused(String),
}

fn text(number: u64) -> String {
    format!("{number} ").repeat(12) + &"-".repeat(usize::try_from(number % 90).unwrap_or(0))
}

/// The page that a commit deletes, if any.
fn deleted(number: u64) -> Option<u64> {
    (number.is_multiple_of(3) && number > KEPT).then(|| number - KEPT)
}

fn state(newest: u64) -> Vec<(i64, String)> {
    let gone: Vec<u64> = (1..=newest).filter_map(deleted).collect();
    let there = (1..=newest).filter(|page| !gone.contains(page));
    there.map(|page| (page.cast_signed(), text(page))).collect()
}

/// Creates the tables of the test data.
pub(super) async fn create(connection: &Connection) -> Result<(), tokio_postgres::Error> {
    let tables = "CREATE TABLE page (id bigint PRIMARY KEY, content text NOT NULL); \
                  CREATE TABLE newest (one int PRIMARY KEY, id bigint NOT NULL); \
                  INSERT INTO newest VALUES (1, 0);";
    connection.batch_execute(tables).await
}

/// Makes the commits `numbers`, one after another.
pub(super) async fn commit(
    connection: &Connection,
    numbers: std::ops::RangeInclusive<u64>,
) -> Result<(), tokio_postgres::Error> {
    for number in numbers {
        let mut script = format!(
            "BEGIN; INSERT INTO page VALUES ({number}, '{}'); UPDATE newest SET id = {number}; ",
            text(number)
        );
        if let Some(page) = deleted(number) {
            script += &format!("DELETE FROM page WHERE id = {page}; ");
        }
        connection.batch_execute(&(script + "COMMIT")).await?;
    }
    Ok(())
}

async fn read(connection: &Connection) -> Result<(i64, Vec<(i64, String)>), tokio_postgres::Error> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    connection.batch_execute(begin).await?;
    let newest = connection.query_one("SELECT id FROM newest", &[]).await?;
    let rows = "SELECT id, content FROM page ORDER BY id";
    let rows = connection.query(rows, &[]).await?;
    connection.batch_execute("COMMIT").await?;
    let page = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?));
    let pages: Result<_, tokio_postgres::Error> = rows.iter().map(page).collect();
    Ok((newest.try_get(0)?, pages?))
}

/// Reads the data from a server and identifies its state.
pub(super) async fn look(connection: &Connection) -> Shown {
    match read(connection).await {
        Ok((newest, pages)) => judge(newest, &pages),
        Err(error) => {
            let code = error
                .as_db_error()
                .map(|said| said.code().code().to_owned());
            match code {
                // The server detected damage while reading: SQLSTATE class 58 (system
                // error) or XX (internal error).
                Some(code) if code.starts_with("58") || code.starts_with("XX") => {
                    Shown::Refused(error.to_string())
                }
                _ => Shown::Wrong(format!("{error}: {code:?}")),
            }
        }
    }
}

fn judge(newest: i64, pages: &[(i64, String)]) -> Shown {
    let Ok(number) = u64::try_from(newest) else {
        return Shown::Wrong(format!("the newest page is {newest}"));
    };
    // The bound avoids computing the state of a damaged, very large number.
    if number <= 1_000_000 && state(number) == pages {
        return Shown::State(number);
    }
    Shown::Wrong(format!(
        "{} pages, and they are not those of {number}",
        pages.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_one_of_those_that_were() {
        assert_eq!(judge(40, &state(40)), Shown::State(40));
        assert_eq!(judge(0, &[]), Shown::State(0));
        assert!(matches!(judge(41, &state(40)), Shown::Wrong(_)));
        let mut pages = state(40);
        pages[3].1.pop();
        assert!(matches!(judge(40, &pages), Shown::Wrong(_)));
        assert!(matches!(judge(i64::MAX, &pages), Shown::Wrong(_)));
    }
}
