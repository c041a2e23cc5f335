//! The parser of PostgreSQL's isolation specs (`src/test/isolation/specs/*.spec`).
//!
//! ```text
//! # a comment
//! setup { CREATE TABLE t (a int); }
//! teardown { DROP TABLE t; }
//! session s1
//! setup { BEGIN; }
//! step s1r { SELECT * FROM t; }
//! step s1c { COMMIT; }
//! session s2
//! step s2w { UPDATE t SET a = 2; }
//! permutation s1r s2w(*) s1c
//! ```
//!
//! A block ends at the first closing brace. A step of a permutation may have blockers in
//! parentheses: they say how an answer that may come early or late is reported, so whether
//! such a step waits is not compared. A spec without permutations means every interleaving
//! of its sessions' steps.

use std::fmt;

/// A parsed spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// Blocks that run before each permutation.
    pub setup: Vec<String>,
    /// The block that runs after each permutation.
    pub teardown: Option<String>,
    /// The sessions.
    pub sessions: Vec<Session>,
    /// The permutations that the spec lists.
    pub permutations: Vec<Vec<Turn>>,
}

/// A session and its steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The session's name.
    pub name: String,
    /// The block that the session begins with.
    pub setup: Option<String>,
    /// The block that the session ends with.
    pub teardown: Option<String>,
    /// Names and blocks of its steps.
    pub steps: Vec<(String, String)>,
}

/// A step of a permutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The step's name.
    pub step: String,
    /// Whether it has blockers.
    pub annotated: bool,
}

/// What is wrong with a spec, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    line: usize,
    message: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for SpecError {}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Block(String),
    Open,
    Close,
    Other(char),
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, SpecError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let line = 1 + text[..text.len() - rest.len()].matches('\n').count();
        let after = &rest[first.len_utf8()..];
        let unfinished = |what: &str| SpecError {
            line,
            message: format!("unfinished {what}"),
        };
        let (token, left) = match first {
            '#' => (None, after.find('\n').map_or("", |end| &after[end..])),
            '{' => {
                let end = after.find('}').ok_or_else(|| unfinished("block"))?;
                let block = after[..end].trim().to_owned();
                (Some(Token::Block(block)), &after[end + 1..])
            }
            '"' => {
                let end = after.find('"').ok_or_else(|| unfinished("name"))?;
                (
                    Some(Token::Name(after[..end].to_owned())),
                    &after[end + 1..],
                )
            }
            '(' => (Some(Token::Open), after),
            ')' => (Some(Token::Close), after),
            space if space.is_whitespace() => (None, after),
            letter if letter.is_alphanumeric() || letter == '_' => {
                let end = rest.find(|next: char| !next.is_alphanumeric() && next != '_');
                let (name, left) = rest.split_at(end.unwrap_or(rest.len()));
                (Some(Token::Name(name.to_owned())), left)
            }
            other => (Some(Token::Other(other)), after),
        };
        tokens.extend(token.map(|token| (line, token)));
        rest = left;
    }
    Ok(tokens)
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<(usize, Token)>>,
    line: usize,
}

impl Parser {
    fn error<T>(&self, message: impl Into<String>) -> Result<T, SpecError> {
        Err(SpecError {
            line: self.line,
            message: message.into(),
        })
    }

    fn next(&mut self) -> Option<Token> {
        let (line, token) = self.tokens.next()?;
        self.line = line;
        Some(token)
    }

    fn peek(&mut self) -> Option<&Token> {
        self.tokens.peek().map(|(_, token)| token)
    }

    fn name(&mut self) -> Result<String, SpecError> {
        match self.next() {
            Some(Token::Name(name)) => Ok(name),
            other => self.error(format!("a name was expected, not {other:?}")),
        }
    }

    fn block(&mut self) -> Result<String, SpecError> {
        match self.next() {
            Some(Token::Block(block)) => Ok(block),
            other => self.error(format!("a block was expected, not {other:?}")),
        }
    }

    /// The steps of a permutation, up to the next word that begins something else.
    fn permutation(&mut self) -> Result<Vec<Turn>, SpecError> {
        let mut turns: Vec<Turn> = Vec::new();
        loop {
            match self.peek() {
                Some(Token::Name(name)) if name != "permutation" => {
                    let step = self.name()?;
                    turns.push(Turn {
                        step,
                        annotated: false,
                    });
                }
                Some(Token::Open) => {
                    let Some(turn) = turns.last_mut() else {
                        return self.error("blockers without a step");
                    };
                    turn.annotated = true;
                    while self.next().is_some_and(|token| token != Token::Close) {}
                }
                _ => return Ok(turns),
            }
        }
    }
}

impl Spec {
    /// Parses the text of a spec.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut parser = Parser {
            tokens: tokens(text)?.into_iter().peekable(),
            line: 1,
        };
        let mut spec = Self::default();
        while parser.peek().is_some() {
            let word = parser.name()?;
            let session = spec.sessions.last_mut();
            match (word.as_str(), session) {
                ("setup", None) => spec.setup.push(parser.block()?),
                ("setup", Some(session)) => session.setup = Some(parser.block()?),
                ("teardown", None) => spec.teardown = Some(parser.block()?),
                ("teardown", Some(session)) => session.teardown = Some(parser.block()?),
                ("session", _) => spec.sessions.push(Session {
                    name: parser.name()?,
                    ..Session::default()
                }),
                ("step", Some(session)) => {
                    let step = (parser.name()?, parser.block()?);
                    session.steps.push(step);
                }
                ("permutation", Some(_)) => {
                    let turns = parser.permutation()?;
                    spec.permutations.push(turns);
                }
                (other, _) => return parser.error(format!("unexpected \"{other}\"")),
            }
        }
        for turn in spec.permutations.iter().flatten() {
            if spec.step(&turn.step).is_none() {
                return parser.error(format!("there is no step \"{}\"", turn.step));
            }
        }
        Ok(spec)
    }

    /// The number of a step's session, and its block.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<(usize, &str)> {
        self.sessions.iter().enumerate().find_map(|(at, session)| {
            let step = session.steps.iter().find(|(step, _)| step == name);
            step.map(|(_, block)| (at, block.as_str()))
        })
    }

    /// The permutations to run: those of the spec, or every interleaving.
    #[must_use]
    pub fn runs(&self) -> Vec<Vec<Turn>> {
        if !self.permutations.is_empty() {
            return self.permutations.clone();
        }
        let mut runs = Vec::new();
        let mut done = vec![0; self.sessions.len()];
        self.interleave(&mut done, &mut Vec::new(), &mut runs);
        runs
    }

    fn interleave(&self, done: &mut [usize], begun: &mut Vec<Turn>, runs: &mut Vec<Vec<Turn>>) {
        let mut complete = true;
        for (at, session) in self.sessions.iter().enumerate() {
            let Some((step, _)) = session.steps.get(done[at]) else {
                continue;
            };
            complete = false;
            done[at] += 1;
            begun.push(Turn {
                step: step.clone(),
                annotated: false,
            });
            self.interleave(done, begun, runs);
            begun.pop();
            done[at] -= 1;
        }
        if complete {
            runs.push(begun.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"
# Two sessions, and all that the grammar has.
setup { CREATE TABLE t (a int); }
setup
{
  INSERT INTO t VALUES (1); -- not a comment of ours
}
teardown { DROP TABLE t; }

session s1
setup		{ BEGIN; }
step s1r { SELECT * FROM t; }
step "s1 c" { COMMIT; }
teardown { ABORT; }
session "s2"
step s2w	{ UPDATE t SET a = '2 # 3'; }

permutation s1r s2w(*) "s1 c"
permutation s2w (s1r, "s1 c" notices 2) s1r
	"s1 c"
"#;

    #[test]
    fn a_spec_is_read() {
        let spec = Spec::parse(SPEC).expect("sound");
        assert_eq!(spec.setup.len(), 2);
        assert_eq!(spec.setup[0], "CREATE TABLE t (a int);");
        assert_eq!(spec.teardown.as_deref(), Some("DROP TABLE t;"));
        assert_eq!(spec.sessions.len(), 2);
        assert_eq!(spec.sessions[0].setup.as_deref(), Some("BEGIN;"));
        assert_eq!(spec.sessions[0].teardown.as_deref(), Some("ABORT;"));
        assert_eq!(spec.step("s1 c"), Some((0, "COMMIT;")));
        assert_eq!(spec.step("s2w"), Some((1, "UPDATE t SET a = '2 # 3';")));
        let turns: Vec<Vec<(&str, bool)>> = spec
            .permutations
            .iter()
            .map(|turns| {
                let turns = turns.iter();
                turns.map(|turn| (&*turn.step, turn.annotated)).collect()
            })
            .collect();
        assert_eq!(
            turns,
            [
                vec![("s1r", false), ("s2w", true), ("s1 c", false)],
                vec![("s2w", true), ("s1r", false), ("s1 c", false)],
            ]
        );
        assert_eq!(spec.runs(), spec.permutations);
    }

    #[test]
    fn without_permutations_every_interleaving_is_run() {
        let (spec, _) = SPEC.split_once("permutation").expect("there are some");
        let spec = Spec::parse(spec).expect("sound");
        let runs: Vec<String> = spec
            .runs()
            .iter()
            .map(|turns| {
                let steps: Vec<&str> = turns.iter().map(|turn| &*turn.step).collect();
                steps.join(", ")
            })
            .collect();
        assert_eq!(runs, ["s1r, s1 c, s2w", "s1r, s2w, s1 c", "s2w, s1r, s1 c"]);
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (text, error) in [
            ("setup {", "line 1: unfinished block"),
            (
                "session a\nstep b\nstep",
                "line 3: a block was expected, not Some(Name(\"step\"))",
            ),
            (
                "session a\nstep b { }\npermutation c",
                "line 3: there is no step \"c\"",
            ),
            ("step a { }", "line 1: unexpected \"step\""),
        ] {
            let found = Spec::parse(text).expect_err(text).to_string();
            assert_eq!(found, error);
        }
    }
}
