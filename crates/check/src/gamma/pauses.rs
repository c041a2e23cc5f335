//! Pauses of the processes that were measured, from a file of any tool.
//!
//! ```text
//! started,finished,node
//! 1200000000,1260000000,127.0.0.2
//! ```
//!
//! CSV with a first line that names the columns: `started`, and `finished` or `duration`;
//! `node` and `what` are optional, columns that begin with `_` are passed over. Times are
//! those of the history's clock, in the same units as there
//! ([`history::csv`](crate::history::csv)).

use std::io::{BufRead, Read};

use crate::history::StreamError;
use crate::history::csv::{fields, time, time_column};

/// Greatest length of a line.
const LONGEST_LINE: u64 = 1 << 16;
/// Greatest number of pauses.
const MOST: usize = 1_000_000;

/// A time in which a process did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// When it began, in nanoseconds.
    pub started: u64,
    /// When it ended.
    pub finished: u64,
    /// Which process paused, as far as the file says.
    pub node: String,
    /// What kind of a pause it was, as far as the file says.
    pub what: String,
}

/// The places of the columns, and the units of the times.
struct Columns {
    started: (usize, usize),
    finished: (usize, usize),
    is_duration: bool,
    node: Option<usize>,
    what: Option<usize>,
    count: usize,
}

/// Reads pauses.
///
/// # Errors
/// When the text cannot be read, or a line is no pause, with its number.
pub fn read(from: &mut dyn BufRead) -> Result<Vec<Pause>, StreamError> {
    let mut pauses = Vec::new();
    let mut columns = None;
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let refused = |problem: String| StreamError::Refused { line, problem };
        let mut limited = (&mut *from).take(LONGEST_LINE);
        let length = limited.read_until(b'\n', &mut bytes)?;
        if length == 0 {
            break;
        }
        if length as u64 == LONGEST_LINE {
            return Err(refused("the line is too long".to_owned()));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| refused("not UTF-8".to_owned()))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            continue;
        }
        let fields = fields(text).map_err(|(_, problem)| refused(problem))?;
        let fields: Vec<String> = fields.into_iter().map(|(_, field)| field).collect();
        match &columns {
            None => columns = Some(Columns::of(&fields).map_err(refused)?),
            Some(columns) => pauses.push(columns.pause(&fields).map_err(refused)?),
        }
        if pauses.len() > MOST {
            return Err(refused(format!("more than {MOST} pauses")));
        }
    }
    match columns {
        None => Err(StreamError::RefusedWhole(
            "it has no first line that names columns".to_owned(),
        )),
        Some(_) => Ok(pauses),
    }
}

impl Columns {
    fn of(names: &[String]) -> Result<Self, String> {
        let (mut started, mut finished, mut node, mut what) = (None, None, None, None);
        let mut is_duration = false;
        for (place, name) in names.iter().enumerate() {
            let name = name.to_ascii_lowercase();
            let of = |stem| time_column(&name, stem).map(|power| (place, power));
            let is_taken = if name.starts_with('_') {
                false
            } else if name == "node" {
                node.replace(place).is_some()
            } else if name == "what" {
                what.replace(place).is_some()
            } else if let Some(its) = of("started") {
                started.replace(its).is_some()
            } else if let Some(its) = of("finished") {
                finished.replace(its).is_some()
            } else if let Some(its) = of("duration") {
                is_duration = true;
                finished.replace(its).is_some()
            } else {
                let known = "started, finished or duration, node and what";
                return Err(format!("column {name:?}: there are {known}"));
            };
            if is_taken {
                return Err(format!("column {name:?} says again what another says"));
            }
        }
        Ok(Self {
            started: started.ok_or("the first line names no column \"started\"")?,
            finished: finished
                .ok_or("the first line names neither \"finished\" nor \"duration\"")?,
            is_duration,
            node,
            what,
            count: names.len(),
        })
    }

    fn pause(&self, fields: &[String]) -> Result<Pause, String> {
        if fields.len() != self.count {
            let (has, wants) = (fields.len(), self.count);
            return Err(format!(
                "{has} fields, and the first line names {wants} columns"
            ));
        }
        let moment = |(place, power): (usize, usize)| {
            let text = &fields[place];
            time(text, power).ok_or_else(|| format!("{text:?}: a time is a number from 0 up"))
        };
        let started = moment(self.started)?;
        let finished = moment(self.finished)?;
        let finished = match self.is_duration {
            true => started
                .checked_add(finished)
                .ok_or("the pause never ends")?,
            false => finished,
        };
        if finished < started {
            return Err("the pause ends before it begins".to_owned());
        }
        let text = |place: Option<usize>| place.map_or_else(String::new, |at| fields[at].clone());
        Ok(Pause {
            started,
            finished,
            node: text(self.node),
            what: text(self.what),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Pause>, String> {
        super::read(&mut text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn ends_and_durations_are_read() {
        let pause = |started, finished, node: &str| Pause {
            started,
            finished,
            node: node.to_owned(),
            what: String::new(),
        };
        let ends = read("node,started,finished\na,1,5\n\nb,2,2\n");
        assert_eq!(ends, Ok(vec![pause(1, 5, "a"), pause(2, 2, "b")]));
        let durations = read("started_s,duration_ms,_gc\n1.5,2.25,G1");
        assert_eq!(durations, Ok(vec![pause(1_500_000_000, 1_502_250_000, "")]));
        assert_eq!(read("started,finished\n"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, expected) in [
            ("", "no first line"),
            ("started\n", "line 1: the first line names neither"),
            (
                "finished\n",
                "line 1: the first line names no column \"started\"",
            ),
            (
                "started,finished,duration\n",
                "line 1: column \"duration\" says again",
            ),
            ("begin,end\n", "line 1: column \"begin\""),
            ("started,finished\n\n3,x\n", "line 3: \"x\": a time"),
            (
                "started,finished\n3,2\n",
                "line 2: the pause ends before it begins",
            ),
            ("started,finished\n3\n", "line 2: 1 fields"),
            (
                "started,duration\n1,18446744073709551615\n",
                "line 2: the pause never ends",
            ),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(expected), "{text:?}: {said}");
        }
        let long = format!("started,{}\n", " ".repeat(1 << 16));
        assert!(
            read(&long)
                .unwrap_err()
                .contains("line 1: the line is too long")
        );
    }
}
