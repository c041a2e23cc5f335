//! Errors are sorted by what their reader can do.

/// What the caller of a failed operation can do about it. Each boundary has its
/// own error type; all of them answer this question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// Nothing is wrong with the request: run the transaction again.
    Retry,
    /// The request, a setting or a file must be changed first.
    Fix,
    /// The process cannot go on; what was acknowledged is safe.
    Fatal,
}
