//! Memory use of the process by place: in the allocator's arenas, or outside them.
//!
//! The kernel lists all mappings, and the resident size of each, by walking their pages:
//!
//! ```text
//!   /proc/self/smaps
//!     55766b8fc000-55766c851000 r-xp … /usr/bin/coeval      code
//!     Rss:                6980 kB
//!     7fd85f973000-7fd860173000 rw-p …                      a stack
//!     Rss:                  12 kB
//!     20000000000-20040000000   rw-p …                      an arena
//!     Rss:              614336 kB
//! ```
//!
//! An arena is far larger than any stack, and unnamed, or named by the allocator where
//! the kernel keeps names of such mappings (`[anon:mimalloc]`). A scan takes some
//! milliseconds for each resident gigabyte; where there are many, a scan is not repeated
//! at once ([`REST`]).
//!
//! The resident total costs one system call ([`resident`]): a writer that wants to grow
//! near the limit asks for that.

use std::ops::Range;
use std::time::Duration;

use coeval_env::Instant;

/// A mapping that belongs to no file and is larger than this is an arena of the
/// allocator, in bytes. Stacks have 8 MiB, arenas at least 32.
const LARGEST_STACK: usize = 16 << 20;

/// The allocator's name for its mappings, where the kernel keeps names.
const NAME: &str = "[anon:mimalloc]";

/// How many times its own duration a scan remains valid when there is more resident
/// memory than [`QUICK`].
const REST: u32 = 4;
/// Resident bytes that a scan covers within some milliseconds; a smaller scan is always
/// repeated.
const QUICK: u64 = 2 << 30;

/// Resident memory of the process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupied {
    /// Memory in the allocator's arenas.
    pub(crate) arenas: u64,
    /// All other memory: code, constants, stacks.
    pub(crate) program: u64,
}

/// Time, duration and result of the last scan.
#[derive(Debug, Default)]
pub(crate) struct Looked(Option<(Instant, Duration, Occupied)>);

impl Looked {
    /// Scans, unless the last scan is still valid. `None` in that case, and where the
    /// kernel does not report mappings.
    pub(crate) fn look(&mut self) -> Option<Occupied> {
        let now = coeval_env::now();
        if let Some((at, took, seen)) = self.0
            && seen.arenas > QUICK
            && now.duration_since(at) < took * REST
        {
            return None;
        }
        let occupied = look()?;
        self.0 = Some((coeval_env::now(), now.elapsed(), occupied));
        Some(occupied)
    }

    /// Duration of the last scan.
    pub(crate) fn took(&self) -> Duration {
        self.0.map_or(Duration::ZERO, |(_, took, _)| took)
    }
}

/// A function that returns the resident size of the process, in bytes; `None` where the
/// kernel does not report it. The file stays open, so that the function works when no
/// descriptor is left.
#[expect(
    clippy::disallowed_methods,
    reason = "the simulator does not model what the kernel reports of this process"
)]
pub(super) fn resident() -> Option<impl Fn() -> Option<u64> + Send + Sync + 'static> {
    let file = std::fs::File::open("/proc/self/statm").ok()?;
    let page = rustix::param::page_size() as u64;
    Some(move || {
        let mut line = [0; 128];
        let length = std::os::unix::fs::FileExt::read_at(&file, &mut line, 0).ok()?;
        let line = std::str::from_utf8(&line[..length]).ok()?;
        let pages: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
        pages.checked_mul(page)
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the simulator does not model what the kernel reports of this process"
)]
fn look() -> Option<Occupied> {
    Some(sum(&std::fs::read_to_string("/proc/self/smaps").ok()?))
}

/// The address ranges of arenas, in order.
#[expect(
    clippy::disallowed_methods,
    reason = "the simulator does not model what the kernel reports of this process"
)]
pub(super) fn arenas() -> std::io::Result<Vec<Range<usize>>> {
    Ok(arenas_of(&std::fs::read_to_string("/proc/self/maps")?))
}

/// The arenas in a list of mappings, those that are writable.
fn arenas_of(mappings: &str) -> Vec<Range<usize>> {
    let writable = |line: &str| line.split_ascii_whitespace().nth(1) == Some("rw-p");
    let lines = mappings.lines().filter(|line| writable(line));
    lines.filter_map(arena).collect()
}

/// The address range of a mapping, if it is an arena.
fn arena(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let addresses = start..usize::from_str_radix(end, 16).ok()?;
    // The fields are: rights, offset, device, inode, and an optional name.
    let is_the_allocators = words.nth(4).is_none_or(|name| name == NAME);
    (is_the_allocators && addresses.len() > LARGEST_STACK).then_some(addresses)
}

/// Adds up the resident sizes of a list of mappings.
fn sum(mappings: &str) -> Occupied {
    let mut occupied = Occupied::default();
    let mut in_arena = false;
    for line in mappings.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("Rss:") => {
                let kilobytes: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
                let class = match in_arena {
                    true => &mut occupied.arenas,
                    false => &mut occupied.program,
                };
                *class += kilobytes * 1024;
            }
            Some(first) if !first.ends_with(':') => {
                in_arena = arena(line).is_some();
            }
            _ => {}
        }
    }
    occupied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arenas_are_large_and_no_files() {
        let mappings = "\
55766b8fc000-55766c851000 r-xp 00530000 fe:00 77                        /usr/bin/coeval
Size:              15700 kB
Rss:                6980 kB
VmFlags: rd ex mr mw me sd
20000000000-20040000000 rw-p 00000000 00:00 0 
Size:            1048576 kB
Rss:              614336 kB
Anonymous:        614336 kB
20080000000-200c0000000 rw-p 00000000 00:00 0                            [anon:mimalloc]
Rss:                 100 kB
7fd85f973000-7fd860173000 rw-p 00000000 00:00 0 
Rss:                  12 kB
7ffd6e6eb000-7ffd6e70c000 rw-p 00000000 00:00 0                          [stack]
Rss:                   8 kB
";
        let expected = Occupied {
            arenas: 614_436 * 1024,
            program: 7_000 * 1024,
        };
        assert_eq!(sum(mappings), expected);
        assert_eq!(sum(""), Occupied::default());
    }

    #[test]
    fn arenas_are_told_by_what_may_be_done_with_them() {
        let mappings = "\
55766b8fc000-5577ab851000 rw-p 00530000 fe:00 77                        /usr/bin/coeval
20000000000-20040000000 rw-p 00000000 00:00 0 
20040000000-20080000000 ---p 00000000 00:00 0 
20080000000-200c0000000 rw-p 00000000 00:00 0                            [anon:mimalloc]
200c0000000-20100000000 rw-p 00000000 00:00 0                            [anon:other]
7fd85f973000-7fd860173000 rw-p 00000000 00:00 0 
7fd8a0000000-7fd8b0000000 rw-s 00000000 00:01 9                          /dev/zero (deleted)
";
        // Mappings of files, and those that are shared, small or read-only, are not
        // arenas.
        let expected: [Range<usize>; 2] = [
            0x200_0000_0000..0x200_4000_0000,
            0x200_8000_0000..0x200_c000_0000,
        ];
        assert_eq!(arenas_of(mappings), expected);
        assert!(arenas_of("nonsense\n\n1-0 rw-p 0 0 0\n").is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_touched_is_there() {
        // Without an allocator of arenas, a large vector is a mapping that looks like an
        // arena.
        const SIZE: u64 = 64 << 20;
        let mut looked = Looked::default();
        let before = looked.look().unwrap();
        assert!(before.program > 1 << 20);
        let touched = std::hint::black_box(vec![1_u8; SIZE as usize]);
        let after = look().unwrap();
        assert!(
            after.arenas >= before.arenas + SIZE / 2,
            "{before:?} {after:?}"
        );
        let resident = resident().unwrap();
        let there = resident().unwrap();
        assert!(there > SIZE, "{there}");
        drop(touched);
        assert!(
            resident().unwrap() < there,
            "the same file says what is so by now"
        );
        let large = Occupied {
            arenas: QUICK + 1,
            program: 0,
        };
        looked.0 = Some((coeval_env::now(), Duration::from_secs(60), large));
        assert_eq!(looked.look(), None, "it has just been looked, for long");
    }
}
