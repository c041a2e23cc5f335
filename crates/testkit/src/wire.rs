//! A raw client of PostgreSQL's protocol: sends exactly the bytes that a test gives it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A message from the server.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The message's type byte.
    pub kind: char,
    /// The contents after the length.
    pub contents: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} {:?}",
            self.kind,
            String::from_utf8_lossy(&self.contents)
        )
    }
}

impl Answer {
    /// The field with this code, of an error or a notice.
    pub fn field(&self, code: u8) -> Option<&str> {
        assert!(matches!(self.kind, 'E' | 'N'), "{self:?}");
        self.contents
            .split(|&byte| byte == 0)
            .find(|field| field.first() == Some(&code))
            .and_then(|field| std::str::from_utf8(&field[1..]).ok())
    }

    /// An error's SQLSTATE.
    pub fn sqlstate(&self) -> &str {
        self.field(b'C').expect("every report has a SQLSTATE")
    }

    /// A row's values as text.
    pub fn values(&self) -> Vec<Option<String>> {
        assert_eq!(self.kind, 'D', "{self:?}");
        let mut rest = &self.contents[2..];
        let mut values = Vec::new();
        while let Some((length, tail)) = rest.split_first_chunk::<4>() {
            let length = i32::from_be_bytes(*length);
            rest = tail;
            values.push(usize::try_from(length).ok().map(|length| {
                let (value, tail) = rest.split_at(length);
                rest = tail;
                String::from_utf8_lossy(value).into_owned()
            }));
        }
        values
    }

    /// The text of a command tag.
    pub fn tag(&self) -> &str {
        assert_eq!(self.kind, 'C', "{self:?}");
        std::str::from_utf8(&self.contents[..self.contents.len() - 1]).unwrap()
    }
}

/// The types of the answers, in order, as one word.
pub fn kinds(answers: &[Answer]) -> String {
    answers.iter().map(|answer| answer.kind).collect()
}

/// The only error among the answers.
pub fn error(answers: &[Answer]) -> &Answer {
    let mut errors = answers.iter().filter(|answer| answer.kind == 'E');
    let error = errors
        .next()
        .unwrap_or_else(|| panic!("no error in {answers:?}"));
    assert!(errors.next().is_none(), "{answers:?}");
    error
}

/// A message of this type, with its length.
pub fn message(kind: u8, contents: &[u8]) -> Vec<u8> {
    let length = u32::try_from(contents.len() + 4).unwrap();
    [&[kind][..], &length.to_be_bytes(), contents].concat()
}

/// Query: a simple query.
pub fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), b"\0"].concat())
}

/// Parse, with the types of parameters by OID.
pub fn parse(name: &str, text: &str, types: &[u32]) -> Vec<u8> {
    let mut contents = [name.as_bytes(), b"\0", text.as_bytes(), b"\0"].concat();
    contents.extend((types.len() as u16).to_be_bytes());
    types
        .iter()
        .for_each(|oid| contents.extend(oid.to_be_bytes()));
    message(b'P', &contents)
}

/// Bind, with all values as text.
pub fn bind(portal: &str, statement: &str, values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut contents = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0"].concat();
    contents.extend((values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            Some(value) => {
                contents.extend((value.len() as u32).to_be_bytes());
                contents.extend(*value);
            }
            None => contents.extend((-1i32).to_be_bytes()),
        }
    }
    contents.extend(0u16.to_be_bytes());
    message(b'B', &contents)
}

/// Execute; 0 rows means no limit.
pub fn execute(portal: &str, max_rows: i32) -> Vec<u8> {
    message(
        b'E',
        &[portal.as_bytes(), b"\0", &max_rows.to_be_bytes()].concat(),
    )
}

/// Describe: `S` for a statement, `P` for a portal.
pub fn describe(what: u8, name: &str) -> Vec<u8> {
    message(b'D', &[&[what], name.as_bytes(), b"\0"].concat())
}

/// Close: `S` for a statement, `P` for a portal.
pub fn close(what: u8, name: &str) -> Vec<u8> {
    message(b'C', &[&[what], name.as_bytes(), b"\0"].concat())
}

/// Sync: the end of a series of messages.
pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

/// Flush: a request for the answers so far.
pub fn flush() -> Vec<u8> {
    message(b'H', b"")
}

/// A startup packet with this request code.
pub fn packet(code: u32, rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(rest.len() + 8).unwrap();
    [&length.to_be_bytes(), &code.to_be_bytes(), rest].concat()
}

/// StartupMessage with these parameters.
pub fn start(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut rest = Vec::new();
    for (name, value) in parameters {
        rest.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    rest.push(0);
    packet(3 << 16, &rest)
}

/// A connection to a server.
pub struct Wire {
    /// The connection's socket.
    pub stream: coeval_env::Stream,
    /// Process id and secret from BackendKeyData, which a cancel request must present.
    pub key: Vec<u8>,
    /// The parameters that the server reported at the start.
    pub parameters: Vec<(String, String)>,
}

/// How long a test waits for an answer before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

impl Wire {
    /// Opens a socket, and sends nothing.
    pub async fn open(address: SocketAddr) -> Self {
        Self {
            stream: coeval_env::connect(address).await.unwrap(),
            key: Vec::new(),
            parameters: Vec::new(),
        }
    }

    /// Opens a session, ready for messages.
    pub async fn connect(address: SocketAddr) -> Self {
        Self::connect_as(address, "ada").await
    }

    /// Opens a session of this user.
    pub async fn connect_as(address: SocketAddr, user: &str) -> Self {
        let mut wire = Self::open(address).await;
        wire.send(&start(&[("user", user), ("database", "bank")]))
            .await;
        let answers = wire.until('Z').await;
        for answer in answers {
            match answer.kind {
                'K' => wire.key = answer.contents,
                'S' => {
                    let mut parts = answer.contents.split(|&byte| byte == 0);
                    let mut part = || String::from_utf8(parts.next().unwrap().to_vec()).unwrap();
                    let parameter = (part(), part());
                    wire.parameters.push(parameter);
                }
                'R' | 'Z' => {}
                _ => panic!("{answer:?}"),
            }
        }
        wire
    }

    /// Sends these bytes.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next message; `None` when the server has closed the connection.
    pub async fn receive(&mut self) -> Option<Answer> {
        let receiving = async {
            let kind = self.stream.read_u8().await.ok()?;
            let length = self.stream.read_u32().await.ok()? as usize;
            assert!(length >= 4, "{length}");
            let mut contents = vec![0; length - 4];
            self.stream.read_exact(&mut contents).await.ok()?;
            Some(Answer {
                kind: char::from(kind),
                contents,
            })
        };
        coeval_env::timeout(PATIENCE, receiving)
            .await
            .expect("an answer in time")
    }

    /// The messages up to and including one of this type.
    pub async fn until(&mut self, kind: char) -> Vec<Answer> {
        let mut answers = Vec::new();
        loop {
            let Some(answer) = self.receive().await else {
                panic!("closed after {answers:?}")
            };
            answers.push(answer);
            if answers.last().is_some_and(|answer| answer.kind == kind) {
                return answers;
            }
        }
    }

    /// The messages until the server closes the connection.
    pub async fn until_closed(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some(answer) = self.receive().await {
            answers.push(answer);
        }
        answers
    }

    /// The messages up to ReadyForQuery, or until the server closes the connection.
    pub async fn until_ready_or_closed(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some(answer) = self.receive().await {
            answers.push(answer);
            if answers.last().is_some_and(|answer| answer.kind == 'Z') {
                break;
            }
        }
        answers
    }

    /// Sends messages that end in a Sync or are a Query; returns the answers.
    pub async fn ask(&mut self, messages: &[Vec<u8>]) -> Vec<Answer> {
        self.send(&messages.concat()).await;
        self.until('Z').await
    }

    /// Runs a simple query.
    pub async fn query(&mut self, text: &str) -> Vec<Answer> {
        self.ask(&[query(text)]).await
    }

    /// Runs a simple query that must succeed; returns its rows.
    pub async fn rows(&mut self, text: &str) -> Vec<Vec<Option<String>>> {
        let answers = self.query(text).await;
        assert!(
            answers.iter().all(|answer| answer.kind != 'E'),
            "{text}: {answers:?}"
        );
        let rows = answers.iter().filter(|answer| answer.kind == 'D');
        rows.map(Answer::values).collect()
    }

    /// Runs a simple query that must succeed; returns its one value.
    pub async fn value(&mut self, text: &str) -> Option<String> {
        let mut rows = self.rows(text).await;
        assert_eq!(rows.len(), 1, "{text}: {rows:?}");
        rows[0].swap_remove(0)
    }
}
