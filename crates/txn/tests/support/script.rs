//! Test scripts of concurrent sessions, and the transcripts that they must produce.
//!
//! A script describes one scenario: a few sessions, one command per line. The runner plays
//! it at each isolation level, in one thread, and records the result of every command, and
//! when it was returned if the command had to wait:
//!
//! ```text
//!  a: begin
//!  a: add x 10 → ok
//!  b: begin
//!  b: add x 20 …            waits for a's lock
//!  a: commit → committed
//!  b: add x 20 → ok         its turn has come
//! ```
//!
//! Each engine has its transcript beside the script (`lost_update.serial`); with
//! `UPDATE_TRANSCRIPTS=1` in the environment the runner rewrites them, and the developer
//! reviews the difference as a change of behaviour.
//!
//! A script also describes its anomaly (`anomaly:` lines, which must all occur in the
//! transcript) and the isolation levels that permit it (`permitted by:`); the runner checks
//! that the anomaly shows at exactly those levels.
//!
//! | command | statement |
//! | --- | --- |
//! | `begin [read only]`, `commit`, `abort` | |
//! | `savepoint`, `rollback` | to the last savepoint |
//! | `get k` | value of the row with this key |
//! | `scan k l` | rows with keys from k to l |
//! | `where v` | keys of rows with this value, by the secondary index |
//! | `insert k v` | |
//! | `set k v`, `add k n` | update one row; `add` from its newest value |
//! | `delete k` | |
//! | `lock k [nowait \| skip]` | lock a row without writing it |

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::future::{Future, poll_fn};
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use coeval_txn::{
    BeginOptions, Bounds, Direction, Engine, Error, Insert, Isolation, LockWait, LockedRow,
    Outcome, Savepoint, ScanProgress, ScanRequest, ScanSource, TableLock, Transaction, Update,
};
use coeval_types::{
    ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, Rid, RowBuilder, RowRef,
    StorageDefinition, StorageId,
};

const STORAGE: StorageId = StorageId(1);
const PRIMARY: IndexId = IndexId(1);
const SECONDARY: IndexId = IndexId(2);

const LEVELS: [(Isolation, &str); 3] = [
    (Isolation::ReadCommitted, "read committed"),
    (Isolation::SnapshotIsolation, "snapshot isolation"),
    (Isolation::Serializable, "serializable"),
];

/// The key is one cell and an end mark, so that no key is a prefix of another.
#[derive(Debug)]
struct Cell(usize);

impl KeyExtractor for Cell {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        key.extend_from_slice(row.cell(self.0).unwrap_or_default());
        key.push(0);
        ExtractedKey::Comparable
    }
}

fn key(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

fn row(key: &str, value: &str) -> Vec<u8> {
    let mut builder = RowBuilder::new();
    builder.push(Some(key.as_bytes()));
    builder.push(Some(value.as_bytes()));
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    bytes
}

fn cell(row: RowRef<'_>, column: usize) -> String {
    String::from_utf8_lossy(row.cell(column).unwrap_or_default()).into_owned()
}

/// Creates the table that scripts use: a key with a primary index, and a value with a
/// secondary index.
pub fn attach_table(engine: &dyn Engine) {
    let index = |id, kind, column| IndexDefinition {
        id,
        kind,
        extractor: Arc::new(Cell(column)),
    };
    engine
        .attach_storage(StorageDefinition {
            id: STORAGE,
            schema_version: 1,
            indexes: vec![
                index(PRIMARY, IndexKind::Primary, 0),
                index(SECONDARY, IndexKind::Secondary, 1),
            ],
        })
        .expect("a new engine has no such storage");
}

/// One client: at most one transaction at a time.
pub struct Session<'engine> {
    engine: &'engine dyn Engine,
    isolation: Isolation,
    transaction: Option<Box<dyn Transaction>>,
    savepoints: Vec<Savepoint>,
}

impl<'engine> Session<'engine> {
    pub fn new(engine: &'engine dyn Engine, isolation: Isolation) -> Self {
        Self {
            engine,
            isolation,
            transaction: None,
            savepoints: Vec::new(),
        }
    }

    fn transaction(&mut self) -> Result<&mut dyn Transaction, Error> {
        match &mut self.transaction {
            Some(transaction) => Ok(&mut **transaction),
            None => Err(Error::Unknown("transaction")),
        }
    }

    /// Runs one command; an error ends the transaction.
    pub async fn run(&mut self, command: &str) -> String {
        match self.command(command).await {
            Ok(answer) => answer,
            Err(error) => {
                if let Some(mut transaction) = self.transaction.take() {
                    transaction.abort();
                }
                error.to_string()
            }
        }
    }

    async fn command(&mut self, command: &str) -> Result<String, Error> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["begin", ref how @ ..] => {
                let options = BeginOptions {
                    isolation: self.isolation,
                    read_only: how == ["read", "only"],
                    ..BeginOptions::default()
                };
                self.transaction = Some(coeval_txn::begin(self.engine, &options).await?);
                self.savepoints.clear();
                Ok("ok".into())
            }
            ["commit"] => {
                let Some(mut transaction) = self.transaction.take() else {
                    return Err(Error::Unknown("transaction"));
                };
                Ok(match coeval_txn::commit(&mut *transaction).await {
                    Outcome::Committed(_) => "committed".into(),
                    Outcome::Aborted(error) => format!("aborted: {error}"),
                    Outcome::Unknown(error) => format!("unknown: {error}"),
                })
            }
            ["abort"] => {
                self.transaction()?.abort();
                self.transaction = None;
                Ok("ok".into())
            }
            ["savepoint"] => {
                let savepoint = self.transaction()?.savepoint();
                self.savepoints.push(savepoint);
                Ok("ok".into())
            }
            ["rollback"] => {
                let savepoint = *self.savepoints.last().ok_or(Error::Unknown("savepoint"))?;
                self.transaction()?.rollback_to(savepoint)?;
                Ok("ok".into())
            }
            [word, ref arguments @ ..] => {
                let transaction = self.transaction()?;
                transaction.begin_statement()?;
                if matches!(word, "insert" | "set" | "add" | "delete" | "lock") {
                    coeval_txn::lock_table(transaction, STORAGE, TableLock::RowExclusive, 1)
                        .await?;
                }
                statement(transaction, word, arguments).await
            }
            [] => panic!("an empty command"),
        }
    }
}

async fn statement(
    transaction: &mut dyn Transaction,
    word: &str,
    arguments: &[&str],
) -> Result<String, Error> {
    match (word, arguments) {
        ("get", [name]) => Ok(get(transaction, name)?.map_or("none".into(), |(_, value)| value)),
        ("scan", [first, last]) => {
            let (first, last) = (key(first), key(last));
            let bounds = Bounds {
                lower: Bound::Included(&first),
                upper: Bound::Included(&last),
            };
            let rows = scan(transaction, PRIMARY, bounds)?;
            let rows: Vec<_> = rows.iter().map(|(k, v)| format!("{k}={v}")).collect();
            Ok(format!("[{}]", rows.join(" ")))
        }
        ("where", [value]) => {
            let value = key(value);
            let bounds = Bounds {
                lower: Bound::Included(&value),
                upper: Bound::Included(&value),
            };
            let mut keys: Vec<_> = scan(transaction, SECONDARY, bounds)?
                .into_iter()
                .map(|(key, _)| key)
                .collect();
            // Rows with the same key are visited in RID order, and engines assign RIDs as
            // they like.
            keys.sort();
            Ok(format!("[{}]", keys.join(" ")))
        }
        ("insert", [name, value]) => {
            let row = row(name, value);
            let inserted = coeval_txn::insert(transaction, STORAGE, RowRef::trusted(&row));
            Ok(match inserted.await? {
                Insert::Inserted(_) => "ok".into(),
                Insert::Duplicate { .. } => "duplicate".into(),
            })
        }
        ("set", [name, value]) => {
            change(
                transaction,
                name,
                LockWait::Wait,
                Some(&|_| (*value).into()),
            )
            .await
        }
        ("add", [name, amount]) => {
            let add = |value: &str| {
                let number = |text: &str| text.parse::<i64>().expect("a number");
                (number(value) + number(amount)).to_string()
            };
            change(transaction, name, LockWait::Wait, Some(&add)).await
        }
        ("delete", [name]) => {
            let Some((rid, _)) = locked(transaction, name, LockWait::Wait).await? else {
                return Ok("none".into());
            };
            transaction.delete(STORAGE, rid)?;
            Ok("ok".into())
        }
        ("lock", [name]) => change(transaction, name, LockWait::Wait, None).await,
        ("lock", [name, "nowait"]) => change(transaction, name, LockWait::NoWait, None).await,
        ("lock", [name, "skip"]) => change(transaction, name, LockWait::Skip, None).await,
        _ => panic!("no such command: {word} {arguments:?}"),
    }
}

fn get(transaction: &mut dyn Transaction, name: &str) -> Result<Option<(Rid, String)>, Error> {
    let mut found = None;
    transaction.get(STORAGE, PRIMARY, &key(name), &mut |rid, row| {
        found = Some((rid, cell(row, 1)));
    })?;
    Ok(found)
}

fn scan(
    transaction: &mut dyn Transaction,
    index: IndexId,
    bounds: Bounds<'_>,
) -> Result<Vec<(String, String)>, Error> {
    let mut rows = Vec::new();
    let mut lower = bounds.lower.map(<[u8]>::to_vec);
    loop {
        let request = ScanRequest {
            storage: STORAGE,
            source: ScanSource::Index(index),
            bounds: Bounds {
                lower: lower.as_ref().map(Vec::as_slice),
                upper: bounds.upper,
            },
            direction: Direction::Forward,
            limit: 2,
        };
        let progress = transaction.scan(&request, &mut |_, row| {
            rows.push((cell(row, 0), cell(row, 1)));
            ControlFlow::Continue(())
        })?;
        match progress {
            ScanProgress::Complete => return Ok(rows),
            ScanProgress::More(position) => lower = Bound::Excluded(position),
        }
    }
}

/// Locks the row with this key and returns its newest value.
async fn locked(
    transaction: &mut dyn Transaction,
    name: &str,
    wait: LockWait,
) -> Result<Option<(Rid, String)>, Error> {
    let Some((rid, _)) = get(transaction, name)? else {
        return Ok(None);
    };
    let mut newest = String::new();
    let mut visit = |_: Rid, row: RowRef<'_>| newest = cell(row, 1);
    let answer = coeval_txn::lock_row(transaction, STORAGE, rid, wait, &mut visit).await?;
    Ok(match answer {
        LockedRow::Unchanged | LockedRow::Changed => Some((rid, newest)),
        LockedRow::Gone | LockedRow::Skipped => None,
    })
}

async fn change(
    transaction: &mut dyn Transaction,
    name: &str,
    wait: LockWait,
    change: Option<&dyn Fn(&str) -> String>,
) -> Result<String, Error> {
    let Some((rid, value)) = locked(transaction, name, wait).await? else {
        return Ok("none".into());
    };
    let Some(change) = change else {
        return Ok("ok".into());
    };
    let row = row(name, &change(&value));
    let updated = coeval_txn::update(transaction, STORAGE, rid, RowRef::trusted(&row));
    Ok(match updated.await? {
        Update::Updated(_) => "ok".into(),
        Update::Duplicate { .. } => "duplicate".into(),
    })
}

/// A parsed script.
#[derive(Default)]
struct Script {
    setup: Vec<String>,
    steps: Vec<(String, String)>,
    anomaly: Vec<String>,
    permitted_by: Vec<String>,
}

impl Script {
    fn parse(text: &str) -> Self {
        let mut script = Self::default();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (who, what) = line.split_once(':').expect("who: what");
            let what = what.trim().to_owned();
            match who.trim() {
                "setup" => script.setup.push(what),
                "anomaly" => script.anomaly.push(what),
                "permitted by" => script.permitted_by.extend(
                    what.split(',')
                        .map(|level| level.trim().to_owned())
                        .filter(|level| level != "nobody"),
                ),
                session => script.steps.push((session.to_owned(), what)),
            }
        }
        for level in &script.permitted_by {
            assert!(
                LEVELS.iter().any(|(_, name)| name == level),
                "no such level: {level}"
            );
        }
        script
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

type Transcript = Rc<RefCell<Vec<String>>>;
type Task<'engine> = Pin<Box<dyn Future<Output = ()> + 'engine>>;
type Commands = Rc<RefCell<VecDeque<String>>>;

/// A session as a task: runs its commands in order, and records the results.
async fn play(mut session: Session<'_>, name: String, commands: Commands, transcript: Transcript) {
    loop {
        let command = poll_fn(|_| match commands.borrow_mut().pop_front() {
            Some(command) => Poll::Ready(command),
            None => Poll::Pending,
        })
        .await;
        let waits = format!("{name}: {command} …");
        let mut waited = false;
        let answer = {
            let mut run = std::pin::pin!(session.run(&command));
            poll_fn(|context| {
                let poll = run.as_mut().poll(context);
                if poll.is_pending() && !waited {
                    waited = true;
                    transcript.borrow_mut().push(waits.clone());
                }
                poll
            })
            .await
        };
        transcript
            .borrow_mut()
            .push(format!("{name}: {command} → {answer}"));
    }
}

/// Plays a script at one isolation level and returns its transcript.
fn perform(script: &Script, engine: &dyn Engine, isolation: Isolation) -> Vec<String> {
    attach_table(engine);
    let transcript = Transcript::default();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut sessions: BTreeMap<String, (Commands, Task<'_>)> = BTreeMap::new();

    let mut steps: Vec<(String, String)> = vec![("setup".into(), "begin".into())];
    steps.extend(
        script
            .setup
            .iter()
            .map(|command| ("setup".to_owned(), command.clone())),
    );
    steps.push(("setup".into(), "commit".into()));
    let setup_steps = steps.len();
    steps.extend(script.steps.iter().cloned());
    // Sessions that the script leaves open are dropped, so that the final read of the table
    // waits for none.
    let names: std::collections::BTreeSet<_> =
        script.steps.iter().map(|(name, _)| name.clone()).collect();
    steps.extend(names.into_iter().map(|name| (name, "abort".to_owned())));
    for command in ["begin", "scan a zz", "commit"] {
        steps.push(("end".into(), command.into()));
    }

    for (step, (name, command)) in steps.into_iter().enumerate() {
        if step == setup_steps {
            transcript.borrow_mut().clear();
        }
        let (commands, _) = sessions.entry(name.clone()).or_insert_with(|| {
            let commands = Commands::default();
            let session = Session::new(engine, isolation);
            let task = play(
                session,
                name.clone(),
                Rc::clone(&commands),
                Rc::clone(&transcript),
            );
            (commands, Box::pin(task))
        });
        commands.borrow_mut().push_back(command);
        // Polls until no session progresses: one session's result may unblock another.
        loop {
            woken.0.store(false, Ordering::Release);
            let before = transcript.borrow().len();
            for (_, task) in sessions.values_mut() {
                assert!(task.as_mut().poll(&mut context).is_pending());
            }
            if transcript.borrow().len() == before && !woken.0.load(Ordering::Acquire) {
                break;
            }
        }
    }
    drop(sessions);
    let lines = transcript.borrow();
    lines
        .iter()
        .filter(|line| !line.ends_with("no such transaction"))
        .filter(|line| *line != "end: begin → ok" && *line != "end: commit → committed")
        .cloned()
        .collect()
}

/// Plays every script in `folder` on engines that `make` makes, and compares with the
/// transcripts kept for `engine_name`.
#[expect(
    clippy::disallowed_methods,
    reason = "tests read their scripts from the source tree"
)]
pub fn run_scripts(folder: &Path, engine_name: &str, make: impl Fn() -> Box<dyn Engine>) {
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some();
    for (path, all) in play_scripts(folder, engine_name, make) {
        let transcript = path.with_extension(engine_name);
        if update {
            std::fs::write(&transcript, &all).expect("a writable folder");
        }
        let expected = std::fs::read_to_string(&transcript).unwrap_or_default();
        assert_eq!(
            all,
            expected,
            "{} is not what {engine_name} did; UPDATE_TRANSCRIPTS=1 writes it anew",
            transcript.display()
        );
    }
}

/// Plays every script in a folder at every level, and checks that its anomaly shows exactly
/// where it is permitted. Returns the transcript of each script.
#[expect(
    clippy::disallowed_methods,
    reason = "tests read their scripts from the source tree"
)]
pub fn play_scripts(
    folder: &Path,
    engine_name: &str,
    make: impl Fn() -> Box<dyn Engine>,
) -> Vec<(PathBuf, String)> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of scripts")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "script"))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no scripts in {}", folder.display());
    let play = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a readable script");
        let script = Script::parse(&text);
        let mut all = String::new();
        for (isolation, level) in LEVELS {
            let engine = make();
            let lines = perform(&script, &*engine, isolation);
            let shows = !script.anomaly.is_empty()
                && script.anomaly.iter().all(|line| lines.contains(line));
            let permitted =
                engine_name != "serial" && script.permitted_by.iter().any(|name| name == level);
            assert_eq!(
                shows,
                permitted,
                "{} at {level} on {engine_name}: the anomaly {}\n{}",
                path.display(),
                if shows { "shows" } else { "does not show" },
                lines.join("\n")
            );
            writeln!(all, "== {level}").expect("into a string");
            for line in lines {
                writeln!(all, "{line}").expect("into a string");
            }
        }
        (path, all)
    };
    names.into_iter().map(play).collect()
}
