//! Classification of errors by what the caller can do about them.

/// The remedy that the caller of a failed operation has. Each boundary has its own error
/// type; each of these types maps its errors to a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// Nothing is wrong with the request: the caller should run the transaction again.
    Retry,
    /// The caller must change the request, a setting or a file first.
    Fix,
    /// The process cannot continue; acknowledged commits are safe.
    Fatal,
}
