//! Whether the process that started this one is still there.
//!
//! A server made for a test suite goes when the suite does, however that ends. The
//! kernel's parent-death signal would fire as soon as the *thread* that started us
//! ends, which in most test runners is long before the process does. So we hold the
//! parent by a process descriptor, which becomes readable when the process is gone
//! and cannot be taken over by another one with the same number.

use std::io;

use rustix::process::{Pid, getppid};

/// The process that started this one.
#[derive(Debug)]
pub(crate) struct Parent(Pid);

impl Parent {
    /// Whoever started this process; `None` when there is nobody who could go:
    /// the first process of a container has no parent.
    pub(crate) fn now() -> Option<Self> {
        getppid().map(Self)
    }

    /// Waits until it is gone. [`Parent::now`] belongs at the very start: a parent
    /// that went before it is mistaken for the process that adopts
    /// orphans.
    #[cfg(target_os = "linux")]
    pub(crate) async fn gone(self) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};
        use rustix::process::{PidfdFlags, pidfd_open};

        let descriptor = match pidfd_open(self.0, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Opened by number: of the right process only if it is still our parent.
        if getppid() != Some(self.0) {
            return Ok(());
        }
        let waiting = coeval_env::spawn_dedicated("parent", move || async move {
            loop {
                let mut watched = [PollFd::new(&descriptor, PollFlags::IN)];
                match poll(&mut watched, None) {
                    Ok(_) => return Ok(()),
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(io::Error::from(error)),
                }
            }
        });
        waiting.await.map_err(io::Error::other)?
    }

    /// Waits until it is gone.
    #[cfg(not(target_os = "linux"))]
    pub(crate) async fn gone(self) -> io::Result<()> {
        while getppid() == Some(self.0) {
            coeval_env::sleep(std::time::Duration::from_millis(200)).await;
        }
        Ok(())
    }
}
