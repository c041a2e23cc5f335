//! Request shapes: the ways in which clients of PostgreSQL's protocol send a request.

/// Table that the shapes write to and read from: `k bigint PRIMARY KEY, v text`.
const TABLE: &str = "pair";

/// Makes the table of the shapes.
pub const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS pair (k bigint PRIMARY KEY, v text)";

/// Frames of PostgreSQL's protocol.
mod message {
    fn frame(kind: u8, contents: &[u8]) -> Vec<u8> {
        let length = u32::try_from(contents.len() + 4).unwrap_or(u32::MAX);
        [&[kind][..], &length.to_be_bytes(), contents].concat()
    }

    pub(in crate::pipelines) fn query(text: &str) -> Vec<u8> {
        frame(b'Q', &[text.as_bytes(), b"\0"].concat())
    }

    pub(super) fn parse(text: &str) -> Vec<u8> {
        parse_as("", text)
    }

    pub(super) fn parse_as(name: &str, text: &str) -> Vec<u8> {
        let contents = [name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\0"];
        frame(b'P', &contents.concat())
    }

    /// Binds a statement without parameters.
    pub(super) fn bind_of(name: &str) -> Vec<u8> {
        frame(b'B', &[b"\0", name.as_bytes(), &[0; 7]].concat())
    }

    /// The first bytes of a Query that never ends.
    pub(super) fn unfinished(length: usize) -> Vec<u8> {
        let mut frame = frame(b'Q', &vec![b' '; length]);
        frame[1..5].copy_from_slice(&(u32::MAX >> 6).to_be_bytes());
        frame
    }

    pub(super) fn bind() -> Vec<u8> {
        frame(b'B', &[0; 8])
    }

    pub(super) fn describe(what: u8) -> Vec<u8> {
        frame(b'D', &[what, 0])
    }

    pub(super) fn execute(rows: i32) -> Vec<u8> {
        frame(b'E', &[&[0][..], &rows.to_be_bytes()].concat())
    }

    pub(super) fn close_portal() -> Vec<u8> {
        frame(b'C', b"P\0")
    }

    pub(super) fn sync() -> Vec<u8> {
        frame(b'S', b"")
    }

    pub(super) fn flush() -> Vec<u8> {
        frame(b'H', b"")
    }

    pub(super) fn copy_data(data: &str) -> Vec<u8> {
        frame(b'd', data.as_bytes())
    }

    pub(super) fn copy_done() -> Vec<u8> {
        frame(b'c', b"")
    }
}

pub(super) use message::query;
use message::{
    bind, bind_of, close_portal, copy_data, copy_done, describe, execute, flush, parse, parse_as,
    sync, unfinished,
};

macro_rules! shapes {
    ($($(#[doc = $what:literal])+ $shape:ident = $name:literal,)+) => {
        /// A way to send a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Shape {
            $($(#[doc = $what])+ $shape,)+
        }

        impl Shape {
            /// All shapes.
            pub const ALL: &'static [Self] = &[$(Self::$shape),+];

            /// Name of the shape, for reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$shape => $name,)+
                }
            }
        }
    };
}

shapes! {
    /// A Query of one statement.
    Query = "query",
    /// A Query of three statements.
    Several = "three statements",
    /// Parse, Bind, Describe, Execute, Sync.
    Extended = "extended",
    /// Three times Parse, Bind, Execute, Sync, before any answer.
    Pipelined = "three syncs in flight",
    /// Parse, Bind, Execute and Flush; the Sync once the answer is there.
    Flushed = "flush without sync",
    /// A Query of COPY FROM STDIN.
    CopyIn = "copy in",
    /// COPY FROM STDIN by Execute.
    CopyInExtended = "copy in, extended",
    /// A Query of COPY TO STDOUT.
    CopyOut = "copy out",
    /// SQL's PREPARE and EXECUTE, as two queries in flight.
    Prepared = "prepare and execute",
    /// A statement that is described and not executed.
    Described = "describe only",
    /// A portal that is executed with a row limit, twice.
    Portal = "portal with row limit",
    /// Syncs without anything before them.
    Syncs = "three syncs alone",
}

/// State of the transaction block in which a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Outside a transaction block.
    Outside,
    /// In a block.
    Within,
    /// In a block that has failed.
    Failed,
}

impl State {
    /// All states.
    pub const ALL: &'static [Self] = &[Self::Outside, Self::Within, Self::Failed];

    /// The queries that lead to the state.
    #[must_use]
    pub const fn queries(self) -> &'static [&'static str] {
        match self {
            Self::Outside => &[],
            Self::Within => &["BEGIN"],
            Self::Failed => &["BEGIN", "SELECT 1/0"],
        }
    }
}

/// A part of a request, which the client sends at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub(super) bytes: Vec<u8>,
    /// Number of ReadyForQuery messages that the part is owed.
    pub(super) cycles: usize,
    /// Types of the answers of which one lets the client go on: an error always does, and
    /// without any the client goes on at once.
    pub(super) until: &'static [u8],
    /// Whether the client sends the part after an error, too.
    pub(super) even_after_error: bool,
}

impl Part {
    fn new(messages: &[Vec<u8>], cycles: usize) -> Self {
        Self {
            bytes: messages.concat(),
            cycles,
            until: b"",
            even_after_error: false,
        }
    }

    /// Parse of a statement with a name, and Flush.
    #[must_use]
    pub fn prepare(name: &str, text: &str) -> Self {
        Self::new(&[parse_as(name, text), flush()], 0).until(b"1")
    }

    /// Parse of a statement with a name, and the insertion of a row by another one.
    #[must_use]
    pub fn prepare_and_insert(name: &str, text: &str, key: u64) -> Self {
        let insert = [parse(&insert(key)), bind(), execute(0), sync()];
        Self::new(&[&[parse_as(name, text)][..], &insert].concat(), 1)
    }

    /// Executes a prepared statement without parameters.
    #[must_use]
    pub fn run(name: &str) -> Self {
        Self::new(&[bind_of(name), execute(0), sync()], 1)
    }

    /// A Sync.
    #[must_use]
    pub fn sync() -> Self {
        Self::new(&[sync()], 1).even_after_error()
    }

    /// So many bytes of a message that never ends.
    #[must_use]
    pub fn unfinished(length: usize) -> Self {
        Self::new(&[unfinished(length)], 1)
    }

    /// Number of ReadyForQuery messages that the part is owed.
    #[must_use]
    pub const fn cycles(&self) -> usize {
        self.cycles
    }

    const fn until(mut self, until: &'static [u8]) -> Self {
        self.until = until;
        self
    }

    const fn even_after_error(mut self) -> Self {
        self.even_after_error = true;
        self
    }
}

fn insert(key: u64) -> String {
    format!("INSERT INTO {TABLE} VALUES ({key}, '0')")
}

impl Shape {
    /// Number of rows that the shape inserts.
    #[must_use]
    pub const fn rows(self) -> u64 {
        match self {
            Self::Query
            | Self::Extended
            | Self::Flushed
            | Self::CopyIn
            | Self::CopyInExtended
            | Self::Prepared => 1,
            Self::Several => 2,
            Self::Pipelined => 3,
            Self::CopyOut | Self::Described | Self::Portal | Self::Syncs => 0,
        }
    }

    /// The cycle, counted from 0, that inserts the row of this number.
    #[must_use]
    pub const fn cycle_of(self, row: u64) -> usize {
        match self {
            Self::Pipelined => row as usize,
            Self::Prepared => 2,
            _ => 0,
        }
    }

    /// The parts of a request that inserts rows from key `key` on.
    #[must_use]
    pub fn parts(self, key: u64) -> Vec<Part> {
        let copy = format!("COPY {TABLE} FROM STDIN");
        let line = copy_data(&format!("{key}\t0\n"));
        let run = |key| [parse(&insert(key)), bind(), execute(0), sync()];
        match self {
            Self::Query => vec![Part::new(&[query(&insert(key))], 1)],
            Self::Several => {
                let text = format!("{}; {}; SELECT 1", insert(key), insert(key + 1));
                vec![Part::new(&[query(&text)], 1)]
            }
            Self::Extended => {
                let steps = [parse(&insert(key)), bind(), describe(b'P'), execute(0)];
                vec![Part::new(&[&steps[..], &[sync()]].concat(), 1)]
            }
            Self::Pipelined => {
                let runs: Vec<_> = (key..key + 3).flat_map(run).collect();
                vec![Part::new(&runs, 3)]
            }
            Self::Flushed => vec![
                Part::new(&[parse(&insert(key)), bind(), execute(0), flush()], 0).until(b"C"),
                Part::new(&[sync()], 1).even_after_error(),
            ],
            Self::CopyIn => vec![
                Part::new(&[query(&copy)], 1).until(b"G"),
                Part::new(&[line], 0),
                Part::new(&[copy_done()], 0),
            ],
            Self::CopyInExtended => vec![
                Part::new(&[parse(&copy), bind(), execute(0), flush()], 0).until(b"G"),
                Part::new(&[line], 0),
                Part::new(&[copy_done()], 0),
                Part::new(&[sync()], 1).even_after_error(),
            ],
            Self::CopyOut => {
                let copy = format!("COPY {TABLE} TO STDOUT");
                vec![Part::new(&[query(&copy)], 1).until(b"d")]
            }
            Self::Prepared => {
                let prepare = format!("PREPARE p (bigint) AS INSERT INTO {TABLE} VALUES ($1, '0')");
                let execute = format!("EXECUTE p ({key})");
                vec![
                    Part::new(&[query("DEALLOCATE ALL")], 1).until(b"Z"),
                    Part::new(&[query(&prepare), query(&execute)], 2).even_after_error(),
                ]
            }
            Self::Described => {
                let text = format!("SELECT v FROM {TABLE} WHERE k = $1");
                vec![Part::new(&[parse(&text), describe(b'S'), sync()], 1)]
            }
            Self::Portal => {
                let text = format!("SELECT k FROM {TABLE} ORDER BY k");
                vec![
                    Part::new(&[parse(&text), bind(), execute(1), flush()], 0).until(b"sC"),
                    Part::new(&[execute(1), close_portal()], 0),
                    Part::new(&[sync()], 1).even_after_error(),
                ]
            }
            Self::Syncs => vec![Part::new(&[sync(), sync(), sync()], 3)],
        }
    }
}
