//! Findings of the house rules.

use std::fmt;

/// A violation of a rule: what is wrong, where, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path of the file, relative to the workspace.
    pub path: String,
    /// Line number, from 1.
    pub line: usize,
    /// Description of the violation.
    pub problem: String,
    /// Advice on how to mend it.
    pub remedy: String,
}

impl Finding {
    /// A finding at a line (from 1) of a file.
    pub fn new(
        path: impl Into<String>,
        line: usize,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            line,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}:{}: {}; {}",
            self.path, self.line, self.problem, self.remedy
        )
    }
}
