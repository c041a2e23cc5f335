//! Transcripts: statements of one or several sessions, and what they say.
//!
//! ```text
//! # A comment.
//! > select 1 as one
//!   one
//!   1
//!   SELECT 1
//! b> update t set a = 2          another session, by its name
//!   … waits
//! > commit
//!   COMMIT
//!   b: UPDATE 1                  what others say once they can go on
//! ```
//!
//! A line that begins with a name and `>` is a statement; lines that begin with `|`
//! go with it: more of its text, or its data if it is a COPY FROM STDIN. The rest
//! is what is said, and is compared. With `UPDATE_TRANSCRIPTS=1` set it is
//! written instead; look at the difference before you keep it.
//!
//! Scripts whose first line is `# concurrent` need sessions that run at once, so
//! the serial engine does not play them. All others are played on every engine,
//! which must all say the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use coeval_sql::Database;
use coeval_sql::session::Session;
use coeval_txn::Engine;

use crate::client::{query, session};
use crate::engines;

/// Times a session is polled before it counts as waiting. Nothing but another
/// session's statement can make one that waits go on.
const POLLS: usize = 200;

enum Item {
    Comment(String),
    Statement {
        name: String,
        text: String,
        data: Vec<String>,
    },
}

fn parse(script: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for line in script.lines() {
        if line.starts_with('#') || line.is_empty() {
            items.push(Item::Comment(line.to_owned()));
        } else if let Some(more) = line.strip_prefix('|') {
            match items.last_mut() {
                Some(Item::Statement { data, .. }) => data.push(more.to_owned()),
                _ => panic!("a continuation of nothing: {line}"),
            }
        } else if let Some((name, text)) = line.split_once('>')
            && !line.starts_with(' ')
        {
            items.push(Item::Statement {
                name: name.to_owned(),
                text: text.trim().to_owned(),
                data: Vec::new(),
            });
        }
    }
    items
}

type Running = Pin<Box<dyn Future<Output = (Box<Session>, Vec<String>)>>>;

enum Player {
    Free(Box<Session>),
    Waiting(Running),
}

fn poll(running: &mut Running) -> Option<(Box<Session>, Vec<String>)> {
    let mut context = Context::from_waker(Waker::noop());
    (0..POLLS).find_map(|_| match running.as_mut().poll(&mut context) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    })
}

fn play(items: &[Item], database: &Arc<Database>) -> String {
    let mut players: BTreeMap<String, Player> = BTreeMap::new();
    let mut out = String::new();
    for item in items {
        let (name, text, data) = match item {
            Item::Comment(line) => {
                writeln!(out, "{line}").expect("writes to memory");
                continue;
            }
            Item::Statement { name, text, data } => (name, text, data),
        };
        writeln!(out, "{name}> {text}").expect("writes to memory");
        for line in data {
            writeln!(out, "|{line}").expect("writes to memory");
        }
        let player = players
            .remove(name)
            .unwrap_or_else(|| Player::Free(Box::new(session(database))));
        let Player::Free(mut session) = player else {
            panic!("session {name} waits and cannot run {text}");
        };
        let is_copy = text.to_lowercase().starts_with("copy");
        let (text, copy) = if is_copy {
            let copy: String = data.iter().map(|line| format!("{line}\n")).collect();
            (text.clone(), copy)
        } else {
            let more: String = data.iter().map(|line| format!("\n{line}")).collect();
            (format!("{text}{more}"), String::new())
        };
        let mut running: Running = Box::pin(async move {
            let said = query(&mut session, &text, &copy).await;
            (session, said)
        });
        match poll(&mut running) {
            Some((session, said)) => {
                for line in said {
                    writeln!(out, "{line}").expect("writes to memory");
                }
                players.insert(name.clone(), Player::Free(session));
            }
            None => {
                writeln!(out, "  … waits").expect("writes to memory");
                players.insert(name.clone(), Player::Waiting(running));
            }
        }
        // Others may go on now, and let others again. One that left its attempt to another,
        // which was polled after it and cannot go on, goes on in the second round.
        let mut quiet_rounds = 0;
        while quiet_rounds < 2 {
            let mut progress = false;
            for (other, player) in &mut players {
                if let Player::Waiting(running) = player
                    && let Some((session, said)) = poll(running)
                {
                    for line in said {
                        writeln!(out, "  {other}: {}", line.trim_start())
                            .expect("writes to memory");
                    }
                    *player = Player::Free(session);
                    progress = true;
                }
            }
            quiet_rounds = if progress { 0 } else { quiet_rounds + 1 };
        }
    }
    for (name, player) in &players {
        assert!(
            matches!(player, Player::Free(_)),
            "session {name} waits for ever"
        );
    }
    out
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scripts");
    #[expect(clippy::disallowed_methods, reason = "a test reads its scripts")]
    let entries = std::fs::read_dir(&folder).expect("the scripts are there");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|end| end == "script"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no scripts in {}", folder.display());
    paths
}

fn run(engine: fn() -> Arc<dyn Engine>, concurrent: bool) {
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some();
    let mut wrong = Vec::new();
    for path in scripts() {
        #[expect(clippy::disallowed_methods, reason = "a test reads its scripts")]
        let script = std::fs::read_to_string(&path).expect("a readable script");
        if script.starts_with("# concurrent") && !concurrent {
            continue;
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let _entered = runtime.enter();
        let database = runtime.block_on(engines::database(engine()));
        let played = play(&parse(&script), &database);
        if played == script {
            continue;
        }
        if update {
            #[expect(clippy::disallowed_methods, reason = "a test writes its scripts")]
            std::fs::write(&path, &played).expect("a writable script");
            continue;
        }
        let (line, (expected, found)) = script
            .lines()
            .chain(std::iter::repeat(""))
            .zip(played.lines().chain(std::iter::repeat("")))
            .enumerate()
            .find(|(_, (expected, found))| expected != found)
            .expect("they differ");
        wrong.push(format!(
            "{}:{}:\n  expected {expected}\n  found    {found}",
            path.display(),
            line + 1
        ));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn transcripts_on_serial() {
    run(engines::serial, false);
}

#[test]
fn transcripts_on_occ() {
    run(engines::occ, true);
}
