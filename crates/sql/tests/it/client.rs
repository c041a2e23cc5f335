//! A client without a wire: what it is told, as lines of text.

use std::sync::Arc;
use std::task::{Context, Poll};

use coeval_sql::output::{Column, CommandTag, Completion, Format, Notice, OutputRow, Sink};
use coeval_sql::session::{Session, SessionOptions};
use coeval_sql::{Database, Error};
use coeval_txn::ResponseDependencies;

/// Collects what a statement says.
#[derive(Debug, Default)]
pub struct Lines {
    pub lines: Vec<String>,
    notices: Vec<String>,
    pub drains: usize,
}

impl Sink for Lines {
    fn columns(&mut self, columns: &[Column], _formats: &[Format]) {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        self.lines.push(format!("  {}", names.join(" | ")));
    }

    fn row(&mut self, row: OutputRow<'_>) {
        let mut cells = Vec::new();
        for column in 0..row.len() {
            let mut bytes = Vec::new();
            cells.push(if row.write(column, &mut bytes) {
                String::from_utf8_lossy(&bytes).into_owned()
            } else {
                "∅".to_owned()
            });
        }
        self.lines.push(format!("  {}", cells.join(" | ")));
    }

    fn restart(&mut self) {
        self.lines = self.notices.clone();
    }

    fn notice(&mut self, notice: Notice) {
        let line = format!(
            "  {} {}: {}",
            notice.severity.as_str(),
            notice.report.state.0,
            notice.report.message
        );
        self.notices.push(line.clone());
        self.lines.push(line);
    }

    fn copy_out(&mut self, _columns: usize) {}

    fn copy_data(&mut self, data: &[u8]) {
        let text = String::from_utf8_lossy(data);
        for line in text.strip_suffix('\n').unwrap_or(&text).split('\n') {
            self.lines.push(format!("  <{line}"));
        }
    }

    fn poll_drain(
        &mut self,
        _dependencies: ResponseDependencies,
        _context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        self.drains += 1;
        Poll::Ready(Ok(()))
    }
}

/// A session of a test.
pub fn session(database: &Arc<Database>) -> Session {
    Session::new(
        Arc::clone(database),
        SessionOptions {
            user: "tester".to_owned(),
            database: "test".to_owned(),
            process_id: 7,
            ..SessionOptions::default()
        },
    )
    .expect("sound options")
}

/// An error as lines.
pub fn report(error: &Error) -> Vec<String> {
    let report = error.report();
    let mut lines = vec![format!("  ERROR {}: {}", report.state.0, report.message)];
    if let Some(position) = report.position {
        lines[0].push_str(&format!(" at {position}"));
    }
    // The details of deadlocks and conflicts name transactions by numbers.
    let detail = match report.detail.as_deref() {
        Some(_) if report.state.0 == "40P01" => None,
        Some(detail) => Some(match detail.split_once(", by transaction ") {
            Some((before, named)) => {
                let rest = named.trim_start_matches(|c: char| c.is_ascii_digit());
                format!("{before}, by transaction N{rest}")
            }
            None => detail.to_owned(),
        }),
        None => None,
    };
    for (name, part) in [
        ("DETAIL", &detail),
        ("HINT", &report.hint),
        ("CONTEXT", &report.context),
    ] {
        if let Some(part) = part {
            lines.push(format!("  {name}: {}", part.replace('\n', "\\n")));
        }
    }
    lines
}

/// Runs a query string as a simple query. `copy` is sent if it asks for data.
pub async fn query(session: &mut Session, text: &str, copy: &str) -> Vec<String> {
    let mut said = Vec::new();
    let result = statements(session, text, copy, &mut said).await;
    if let Err(error) = result {
        said.extend(report(&error));
    }
    if let Err(error) = session.finish().await {
        said.extend(report(&error));
    }
    said
}

async fn statements(
    session: &mut Session,
    text: &str,
    copy: &str,
    said: &mut Vec<String>,
) -> Result<(), Error> {
    let statements = session.parse(text).inspect_err(|_| session.fail())?;
    let count = statements.len();
    for (position, statement) in statements.into_iter().enumerate() {
        let last = position + 1 == count;
        let prepared = session.prepare(statement, &[]).await?;
        let mut portal = session
            .bind(&prepared, &[], &[], &[])
            .inspect_err(|_| session.fail())?;
        let mut sink = Lines::default();
        if last {
            session.expect_finish();
        }
        let completion = session.execute(&mut portal, None, &mut sink).await;
        said.append(&mut sink.lines);
        let mut completion = completion?;
        if let Completion::CopyIn { .. } = completion {
            // In pieces of an odd size, as a network would have it.
            for piece in copy.as_bytes().chunks(7) {
                session.copy_data(piece).await?;
            }
            completion = session.copy_done().await?;
        }
        if last {
            session.finish().await?;
        }
        said.push(match completion {
            Completion::Complete(tag) => format!("  {tag}"),
            other => format!("  {other:?}"),
        });
    }
    Ok(())
}

/// Runs a query string that must succeed; what it says.
pub async fn must(session: &mut Session, text: &str) -> Vec<String> {
    let said = query(session, text, "").await;
    assert!(
        !said
            .iter()
            .any(|line| line.trim_start().starts_with("ERROR")),
        "{text}: {said:#?}"
    );
    said
}

/// The tag of a completed statement.
pub fn tag(completion: &Completion) -> Option<CommandTag> {
    match completion {
        Completion::Complete(tag) => Some(*tag),
        _ => None,
    }
}
