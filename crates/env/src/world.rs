//! Which world the running code is in.

#[cfg(feature = "sim")]
use crate::sim;

/// The world of the running task.
pub(crate) enum World {
    /// tokio, std and the operating system.
    Real,
    /// A simulated machine.
    #[cfg(feature = "sim")]
    Sim(sim::Context),
}

/// The world of the running task: the real one unless an executor has set
/// another.
///
/// # Panics
/// On a thread that runs a simulated world, outside every task of it.
#[inline]
pub(crate) fn current() -> World {
    #[cfg(feature = "sim")]
    if let Some(context) = sim::current() {
        return World::Sim(context);
    }
    World::Real
}
