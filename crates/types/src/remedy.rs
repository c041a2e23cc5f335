//! Classification of errors by what the caller can do about them.

/// What the caller of a failed operation can do about it. Each boundary has its
/// own error type; all of them answer this question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// Nothing is wrong with the request: the caller should run the transaction again.
    Retry,
    /// The caller must change the request, a setting or a file first.
    Fix,
    /// The process cannot continue; acknowledged commits are safe.
    Fatal,
}
