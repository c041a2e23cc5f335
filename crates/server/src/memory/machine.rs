//! How much memory this process may use: the limits of its machine and of its control
//! groups.
//!
//! The kernel reports both in files. The machine's total also comes from a system call,
//! for systems that hide the file (a unit of systemd with `ProcSubset=pid`); the call
//! does not report available memory, because it does not count the page cache that the
//! kernel could drop. A control group may have less than the machine, and so may each of
//! its parents (version 2 of control groups; version 1 is not read):
//!
//! ```text
//!   /proc/meminfo                         MemTotal:      24683520 kB
//!                                         MemAvailable:  23105300 kB
//!   /proc/self/cgroup                     0::/system.slice/coeval.service
//!   /sys/fs/cgroup/system.slice/coeval.service/memory.max       8589934592, or max
//!                                              memory.high      likewise
//!                                              memory.current   1249652736
//!                                              memory.stat      active_file 848576000
//!                                                               inactive_file 200000000
//!   /sys/fs/cgroup/system.slice/memory.max                      max
//! ```
//!
//! In a container, the process's own group is the root of the tree, and its path is `/`.

use std::path::{Path, PathBuf};

use super::read;

const GROUPS: &str = "/sys/fs/cgroup";

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Total memory, used or not.
    pub(super) total: u64,
    /// Memory that the process could take without forcing other memory out; `None` where
    /// the kernel does not report it.
    pub(super) free: Option<u64>,
}

impl Memory {
    fn least(self, other: Self) -> Self {
        Self {
            total: self.total.min(other.total),
            free: match (self.free, other.free) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
        }
    }
}

/// The memory available to this process, the smallest of all limits; `None` where the
/// kernel reports none.
pub(super) async fn memory() -> Option<Memory> {
    let file = read("/proc/meminfo").await;
    let mut memory = file.and_then(|text| meminfo(&text)).or_else(sysinfo)?;
    let groups = read("/proc/self/cgroup").await.unwrap_or_default();
    for group in groups_of(&groups) {
        if let Some(group) = of_group(&group).await {
            memory = memory.least(group);
        }
    }
    Some(memory)
}

/// Parses `/proc/meminfo`.
fn meminfo(text: &str) -> Option<Memory> {
    let bytes = |name: &str| kilobytes(text, name)?.checked_mul(1024);
    Some(Memory {
        total: bytes("MemTotal:")?,
        free: bytes("MemAvailable:"),
    })
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The machine's total, by the system call `sysinfo`.
#[cfg(target_os = "linux")]
fn sysinfo() -> Option<Memory> {
    let said = rustix::system::sysinfo();
    Some(Memory {
        total: said.totalram.checked_mul(u64::from(said.mem_unit))?,
        free: None,
    })
}

#[cfg(not(target_os = "linux"))]
fn sysinfo() -> Option<Memory> {
    None
}

/// The directories of the process's control group and of its parents.
fn groups_of(text: &str) -> Vec<PathBuf> {
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let own = Path::new(GROUPS).join(own.unwrap_or_default());
    let known = own.ancestors().take_while(|path| path.starts_with(GROUPS));
    known.map(Path::to_owned).collect()
}

/// The limit and the use of one control group; `None` where it has no limit.
async fn of_group(folder: &Path) -> Option<Memory> {
    let text = async |name: &str| read(folder.join(name)).await.unwrap_or_default();
    let limits = [text("memory.max").await, text("memory.high").await];
    group(
        &limits,
        &text("memory.current").await,
        &text("memory.stat").await,
    )
}

/// Computes the same from the contents of the group's files.
fn group(limits: &[String; 2], current: &str, stat: &str) -> Option<Memory> {
    let limits = limits.iter().filter_map(|limit| limit.trim().parse().ok());
    let total: u64 = limits.min()?;
    // The kernel can drop the group's page cache, so it counts as free.
    let files = |line: &str| {
        let (name, bytes) = line.split_once(' ')?;
        let is_file = ["active_file", "inactive_file"].contains(&name);
        bytes.parse::<u64>().ok().filter(|_| is_file)
    };
    let files: u64 = stat.lines().filter_map(files).sum();
    let current: Option<u64> = current.trim().parse().ok();
    Some(Memory {
        total,
        free: current.map(|bytes| total.saturating_sub(bytes.saturating_sub(files))),
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
            free: Some(102_400),
        };
        assert_eq!(meminfo(text), Some(expected));
        assert_eq!(meminfo("MemTotal: much\nMemAvailable: 1 kB"), None);
        assert_eq!(meminfo("MemTotal: 1 kB").unwrap().free, None);
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

    #[test]
    fn a_group_has_its_smaller_limit_less_what_it_took() {
        let stat = "anon 500\nfile 90\nactive_file 30\ninactive_file 20\nshmem 40\n";
        let free = |max: &str, high: &str, current: &str, stat: &str| {
            let limits = [max.to_owned(), high.to_owned()];
            group(&limits, current, stat).map(|group| (group.total, group.free))
        };
        assert_eq!(
            free("1000\n", "max\n", "550\n", stat),
            Some((1000, Some(500)))
        );
        assert_eq!(
            free("1000\n", "700\n", "550\n", stat),
            Some((700, Some(200)))
        );
        assert_eq!(free("100\n", "", "550\n", stat), Some((100, Some(0))));
        assert_eq!(
            free("1000\n", "max\n", "550\n", ""),
            Some((1000, Some(450)))
        );
        assert_eq!(free("1000\n", "max\n", "", stat), Some((1000, None)));
        assert_eq!(free("max\n", "max\n", "550\n", stat), None);
        assert_eq!(free("", "", "", ""), None);
    }

    #[test]
    fn whoever_has_least_decides() {
        let of = |total, free| Memory { total, free };
        let machine = of(100, Some(50));
        assert_eq!(machine.least(of(60, Some(70))), of(60, Some(50)));
        assert_eq!(machine.least(of(120, Some(7))), of(100, Some(7)));
        assert_eq!(of(100, None).least(of(60, Some(7))), of(60, Some(7)));
        assert_eq!(of(100, None).least(of(60, None)), of(60, None));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn both_ways_to_ask_agree() {
        let memory = memory().await.unwrap();
        let machine = sysinfo().unwrap();
        assert!(
            memory.free.is_some_and(|free| free <= memory.total),
            "{memory:?}"
        );
        assert!(memory.total <= machine.total, "{memory:?} {machine:?}");
        assert!(machine.total > 64 << 20, "{machine:?}");
    }
}
