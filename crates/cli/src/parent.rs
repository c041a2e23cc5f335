//! Detection of the parent process's end, for servers that must end with it.
//!
//! A server made for a test suite must end when the suite does, however that ends. The
//! kernel's parent-death signal fires as soon as the *thread* that started the child
//! ends, which in most test runners is long before the process does. So the server holds
//! a process descriptor of its parent, which becomes readable when the process ends and
//! cannot refer to another process that gets the same number.

use std::io;

use rustix::process::{Pid, getppid};

/// The parent process.
#[derive(Debug)]
pub(crate) struct Parent(Pid);

impl Parent {
    /// The parent of this process; `None` for the first process of a container, which has
    /// no parent.
    pub(crate) fn now() -> Option<Self> {
        getppid().map(Self)
    }

    /// Waits until the parent has ended. The caller must call [`Parent::now`] at the very
    /// start: if the parent ends before that, the process that adopts orphans is mistaken
    /// for it.
    #[cfg(target_os = "linux")]
    pub(crate) async fn gone(self) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};
        use rustix::process::{PidfdFlags, pidfd_open};

        let descriptor = match pidfd_open(self.0, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // The descriptor was opened by number: it is the parent's only if the number is
        // still the parent's.
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

    /// Waits until the parent has ended.
    #[cfg(not(target_os = "linux"))]
    pub(crate) async fn gone(self) -> io::Result<()> {
        while getppid() == Some(self.0) {
            coeval_env::sleep(std::time::Duration::from_millis(200)).await;
        }
        Ok(())
    }
}
