//! List-append workload: transactions that append to lists and read them.
//!
//! A list contains every element that was appended to it, in order. So a read shows the
//! order of the versions too, and a judge of histories need not guess it (Alvaro,
//! Kingsbury: *Elle*, VLDB 2020).
//!
//! ```text
//!   T1  append 7 to x, read y → [3]
//!   T2  append 4 to y, read x → [7]        T1 before T2, and not the other way round
//! ```
//!
//! Elements are unique over all clients and attempts. The workload replaces keys over
//! time to keep lists short: a window of a few keys moves as elements are appended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use coeval_check::history::Operation;
use serde_json::json;

use super::steps::{self, KeyOperation};
use crate::store::{Cells, ColumnKind, Failure, Loader, Maker, Row, Scan, Session, Table};
use crate::workload::{Client, Done, Nature, Parameters, Workload};

/// The list-append workload.
#[derive(Debug)]
pub struct ListAppend {
    /// Number of keys in use at a time.
    keys: u64,
    /// Approximate final length of a list.
    length: u64,
    /// Most operations of a transaction.
    operations: u64,
    appended: AtomicU64,
    table: Table,
}

impl ListAppend {
    /// A workload with `keys` lists in use at a time, of about `length` elements, in
    /// transactions of up to `operations` operations; each at least 1.
    #[must_use]
    pub fn new(keys: u64, length: u64, operations: u64) -> Self {
        let columns = [("key", ColumnKind::Bigint), ("elements", ColumnKind::Text)];
        Self {
            keys: keys.max(1),
            length: length.max(1),
            operations: operations.max(1),
            appended: AtomicU64::new(0),
            table: Table::new("list_append", 1, &columns),
        }
    }
}

impl ListAppend {
    /// Records a read of every list that may exist; an absent list counts as empty,
    /// because elements may be lost together with their whole list.
    fn note(&self, lists: &[(i64, String)], session: &mut Session) -> Result<(), Failure> {
        let by_key: BTreeMap<u64, &String> = lists
            .iter()
            .map(|(key, list)| (key.cast_unsigned(), list))
            .collect();
        let last = self.appended.load(Ordering::Relaxed) / self.length + self.keys;
        let last = by_key
            .keys()
            .next_back()
            .map_or(last, |&key| last.max(key + 1));
        for key in 0..last {
            let list = by_key.get(&key).map_or("", |list| list.as_str());
            let elements = parse(list)?;
            session.note(|| Operation::ReadList {
                key,
                elements: Some(elements),
            });
        }
        Ok(())
    }
}

/// Parses the elements of a list that is stored as text.
fn parse(text: &str) -> Result<Vec<i64>, Failure> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let element = |part: &str| part.parse::<i64>();
    let elements: Result<Vec<i64>, _> = text.split(',').map(element).collect();
    elements.map_err(|error| Failure::Wrong(format!("{text:?} is no list of numbers: {error}")))
}

impl Workload for ListAppend {
    type Request = Vec<KeyOperation>;
    /// Number of elements appended.
    type Effect = u64;

    fn name(&self) -> &'static str {
        "list-append"
    }

    fn tables(&self) -> Vec<Table> {
        vec![self.table.clone()]
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["append", "read"]
    }

    fn parameters(&self) -> Parameters {
        Parameters::from([
            ("keys".to_owned(), json!(self.keys)),
            ("list_length".to_owned(), json!(self.length)),
            ("operations".to_owned(), json!(self.operations)),
        ])
    }

    async fn load(&self, _part: u64, _loader: &mut Loader) -> Result<(), Failure> {
        Ok(())
    }

    async fn resume(&self, session: &mut Session) -> Result<u64, Failure> {
        let mut texts = Vec::new();
        session
            .scan(&Scan::of(0, &[]), &mut |row| {
                texts.push(row.text(1).to_owned());
            })
            .await?;
        let (mut count, mut greatest) = (0, 0);
        for text in texts {
            let elements = parse(&text)?;
            count += elements.len() as u64;
            greatest = elements.into_iter().fold(greatest, i64::max);
        }
        // The window of keys continues from its position.
        self.appended.fetch_max(count, Ordering::Relaxed);
        Ok(greatest.unsigned_abs())
    }

    fn draw(&self, client: &mut Client) -> Vec<KeyOperation> {
        let first = self.appended.load(Ordering::Relaxed) / self.length;
        steps::draw(&mut client.chance, self.operations, |chance| {
            first + chance.within(0..self.keys)
        })
    }

    fn nature(&self, request: &Vec<KeyOperation>) -> Nature {
        steps::nature(request)
    }

    async fn run(
        &self,
        request: &Vec<KeyOperation>,
        client: &mut Client,
        session: &mut Session,
    ) -> Result<u64, Failure> {
        let mut row = Row::default();
        let mut appended = 0;
        for &step in request {
            match step {
                KeyOperation::Read(key) => {
                    let found = session.get(0, &[key.cast_signed()], &mut row).await?;
                    let elements = parse(if found { row.text(1) } else { "" })?;
                    session.note(|| Operation::ReadList {
                        key,
                        elements: Some(elements),
                    });
                }
                KeyOperation::Write(key) => {
                    let element = client.unique().cast_signed();
                    // The append is recorded before it is tried: an attempt that fails
                    // may have succeeded in the database.
                    session.note(|| Operation::Append { key, element });
                    append(&self.table, session, key, element, &mut row).await?;
                    appended += 1;
                }
            }
        }
        Ok(appended)
    }

    fn ended(&self, _request: &Vec<KeyOperation>, effect: Option<u64>, _done: Done) {
        self.appended
            .fetch_add(effect.unwrap_or(0), Ordering::Relaxed);
    }

    async fn check(&self, session: &mut Session) -> Result<Vec<String>, Failure> {
        let mut lists = Vec::new();
        session
            .scan(&Scan::of(0, &[]), &mut |row| {
                lists.push((row.integer(0), row.text(1).to_owned()));
            })
            .await?;
        if session.is_recording() {
            self.note(&lists, session)?;
        }
        judge(&lists)
    }
}

async fn append(
    table: &Table,
    session: &mut Session,
    key: u64,
    element: i64,
    row: &mut Row,
) -> Result<(), Failure> {
    let key = key.cast_signed();
    if session.lock(0, &[key], row).await? {
        let list = format!("{},{element}", row.text(1));
        row.set_text(1, &list);
        return session.update(0, row, &[1]).await;
    }
    let mut maker = Maker::new();
    maker.integer(table, key).text(&element.to_string());
    maker.finish(row);
    // Another client may create the list concurrently.
    let inserted = session.insert(0, row).await;
    inserted.map_err(Failure::or_retry_duplicate)
}

/// Checks that no element occurs twice.
fn judge(lists: &[(i64, String)]) -> Result<Vec<String>, Failure> {
    let mut seen = BTreeMap::new();
    let mut wrong = Vec::new();
    for (key, list) in lists {
        for element in parse(list)? {
            if let Some(other) = seen.insert(element, key) {
                wrong.push(format!("element {element} is in list {other} and in {key}"));
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_twice_is_seen() {
        let lists = [(1, "1,2,3".to_owned()), (2, "4".to_owned())];
        assert_eq!(judge(&lists), Ok(Vec::new()));
        let twice = [(1, "1,2".to_owned()), (2, "2".to_owned())];
        assert_eq!(judge(&twice).unwrap().len(), 1);
        assert!(judge(&[(1, "1,,2".to_owned())]).is_err());
    }

    #[test]
    fn the_window_of_keys_moves_on() {
        let lists = ListAppend::new(3, 10, 4);
        let mut client = Client::new(0, 1, 7);
        let keys = |lists: &ListAppend, client: &mut Client| {
            let steps = (0..100).flat_map(|_| lists.draw(client));
            let key = |step| match step {
                KeyOperation::Write(key) | KeyOperation::Read(key) => key,
            };
            steps.map(key).collect::<std::collections::BTreeSet<u64>>()
        };
        assert_eq!(keys(&lists, &mut client), (0..3).collect());
        lists.ended(&vec![], Some(25), Done::Committed);
        assert_eq!(keys(&lists, &mut client), (2..5).collect());
    }
}
