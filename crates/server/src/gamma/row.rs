//! A row of the probe's table: the last writes of a register, with their times.
//!
//! ```text
//! 8 812000110 812004250, 9 813000100 813003981, 10 814000102
//! ```
//!
//! Value, when its write began, and when it was acknowledged, in nanoseconds of the writer's
//! clock. The last one's end is not known yet: it is the write of the row itself.

/// Number of writes that a row tells of.
pub(super) const KEPT: usize = 8;

/// A write of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) value: u64,
    pub(super) started: u64,
    /// When it was acknowledged; `None` when that is not known, or it was not.
    pub(super) finished: Option<u64>,
}

/// The writes as text.
pub(super) fn show(writes: &[Write]) -> String {
    let one = |write: &Write| {
        let Write { value, started, .. } = write;
        match write.finished {
            Some(finished) => format!("{value} {started} {finished}"),
            None => format!("{value} {started}"),
        }
    };
    let all: Vec<_> = writes.iter().map(one).collect();
    all.join(", ")
}

/// Reads what [`show`] writes; `None` for anything else.
pub(super) fn parse(text: &str) -> Option<Vec<Write>> {
    let one = |text: &str| {
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        let write = Write {
            value: numbers.next()?.ok()?,
            started: numbers.next()?.ok()?,
            finished: numbers.next().transpose().ok()?,
        };
        numbers.next().is_none().then_some(write)
    };
    text.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_read_back_what_they_show() {
        let writes = [
            Write {
                value: 8,
                started: 110,
                finished: Some(425),
            },
            Write {
                value: 9,
                started: 500,
                finished: None,
            },
        ];
        assert_eq!(show(&writes), "8 110 425, 9 500");
        assert_eq!(parse(&show(&writes)).unwrap(), writes);
        for wrong in ["", "8", "8 x", "8 1 2 3", "8 1,", "8 -1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
