//! Selection of the environment, real or simulated, in which the running code is.

#[cfg(feature = "sim")]
use crate::sim;

/// The environment of the running task.
pub(crate) enum World {
    /// tokio, std and the operating system.
    Real,
    /// A machine of a simulated world.
    #[cfg(feature = "sim")]
    Sim(sim::Context),
}

/// The environment of the running task: the real one unless a simulated world's executor
/// has set another.
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
