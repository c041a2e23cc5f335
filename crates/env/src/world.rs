//! Which world the running code is in.

/// The world of the running task.
pub(crate) enum World {
    /// tokio, std and the operating system.
    Real,
}

/// The world of the running task: the real one unless an executor has set
/// another.
#[inline]
pub(crate) fn current() -> World {
    World::Real
}
