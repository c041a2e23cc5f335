//! How much memory this process could have: of its machine, and of its control groups.
//!
//! The kernel says both in files, and of the machine by a system call as well, for where
//! the file is hidden (a unit of systemd with `ProcSubset=pid`). A control group may have
//! less than the machine, and so may each group that it is in:
//!
//! ```text
//!   /proc/meminfo                         MemTotal:      24683520 kB
//!                                         MemAvailable:  23105300 kB
//!   /proc/self/cgroup                     0::/system.slice/coeval.service
//!   /sys/fs/cgroup/system.slice/coeval.service/memory.max       8589934592, or max
//!                                              memory.current   1249652736
//!                                              memory.stat      file 1048576000
//!   /sys/fs/cgroup/system.slice/memory.max                      max
//! ```
//!
//! In a container its own group is where the tree begins, and its path is `/`.

use std::path::{Path, PathBuf};

use super::read;

const GROUPS: &str = "/sys/fs/cgroup";

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// What there is, whoever has it.
    pub(super) total: u64,
    /// What could be taken without anybody having to give something up.
    pub(super) free: u64,
}

impl Memory {
    fn least(self, other: Self) -> Self {
        Self {
            total: self.total.min(other.total),
            free: self.free.min(other.free),
        }
    }
}

/// Where nobody says so, `None`.
pub(super) async fn memory() -> Option<Memory> {
    let file = read("/proc/meminfo").await;
    let mut memory = file.and_then(|text| meminfo(&text)).or_else(told)?;
    let groups = read("/proc/self/cgroup").await.unwrap_or_default();
    for group in groups_of(&groups) {
        if let Some(group) = of_group(&group).await {
            memory = memory.least(group);
        }
    }
    Some(memory)
}

/// What the file says.
fn meminfo(text: &str) -> Option<Memory> {
    let bytes = |name: &str| kilobytes(text, name)?.checked_mul(1024);
    Some(Memory {
        total: bytes("MemTotal:")?,
        free: bytes("MemAvailable:")?,
    })
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// What the system call says. What others could give up of their caches does not count
/// there as free.
#[cfg(target_os = "linux")]
fn told() -> Option<Memory> {
    let said = rustix::system::sysinfo();
    let unit = u64::from(said.mem_unit);
    Some(Memory {
        total: said.totalram.checked_mul(unit)?,
        free: said.freeram.checked_mul(unit)?,
    })
}

#[cfg(not(target_os = "linux"))]
fn told() -> Option<Memory> {
    None
}

/// The folders of the process's group and of those that it is in.
fn groups_of(text: &str) -> Vec<PathBuf> {
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let own = Path::new(GROUPS).join(own.unwrap_or_default());
    let known = own.ancestors().take_while(|path| path.starts_with(GROUPS));
    known.map(Path::to_owned).collect()
}

/// What a group may have; `None` where it has no limit.
async fn of_group(folder: &Path) -> Option<Memory> {
    let number =
        async |name: &str| -> Option<u64> { read(folder.join(name)).await?.trim().parse().ok() };
    let total = number("memory.max").await?;
    let current = number("memory.current").await.unwrap_or(0);
    // What it has of files is there to be given up.
    let stat = read(folder.join("memory.stat")).await.unwrap_or_default();
    let files = stat.lines().find_map(|line| line.strip_prefix("file "));
    let files = files.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    Some(Memory {
        total,
        free: total.saturating_sub(current.saturating_sub(files)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_it_has() {
        let text = "MemFree:  12 kB\nMemTotal:       24683520 kB\nMemAvailable:   100 kB\n";
        let expected = Memory {
            total: 24_683_520 * 1024,
            free: 102_400,
        };
        assert_eq!(meminfo(text), Some(expected));
        assert_eq!(meminfo("MemTotal: much\nMemAvailable: 1 kB"), None);
        assert_eq!(meminfo("MemTotal: 1 kB"), None);
    }

    #[test]
    fn groups_are_in_groups() {
        let groups = groups_of("12:cpu:/old\n0::/system.slice/coeval.service\n");
        let expected = ["system.slice/coeval.service", "system.slice", ""];
        let expected = expected.map(|path| Path::new(GROUPS).join(path));
        assert_eq!(groups, expected);
        for text in ["0::/\n", "", "12:cpu:/old\n"] {
            assert_eq!(groups_of(text), [Path::new(GROUPS)], "{text}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn both_ways_to_ask_agree() {
        let memory = memory().await.unwrap();
        let told = told().unwrap();
        assert!(memory.free <= memory.total && told.free <= told.total);
        assert!(memory.total <= told.total, "{memory:?} {told:?}");
        assert!(told.total > 64 << 20, "{told:?}");
    }
}
