//! What the process occupies, and where: in the allocator's arenas, or beside them.
//!
//! The kernel lists what is mapped where, and how much of each mapping is there, by
//! walking its pages:
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
//! An arena is far larger than any stack, and unnamed, or named by the allocator where the
//! kernel knows names for such mappings (`[anon:mimalloc]`). A look takes some milliseconds for
//! each gigabyte that is there; where there are many, one is not repeated at once
//! ([`REST`]).
//!
//! The sum of all of it can be had for one system call ([`resident`]): whoever wants to
//! grow near the limit asks for that.

use std::ops::Range;
use std::time::Duration;

use coeval_env::Instant;

/// What belongs to no file and is larger than this is an arena of the allocator's, in bytes.
/// Stacks have 8 MiB, arenas at least 32.
const LARGEST_STACK: usize = 16 << 20;

/// What the allocator calls its mappings, where the kernel keeps that.
const NAME: &str = "[anon:mimalloc]";

/// For how many times as long as a look takes it is taken for true, where there is more
/// than [`QUICK`].
const REST: u32 = 4;
/// So many bytes are looked at within some milliseconds, which is not worth saving.
const QUICK: u64 = 2 << 30;

/// What the process occupies, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupied {
    /// Of the allocator's arenas.
    pub(crate) arenas: u64,
    /// Everything else: code, its constants, stacks.
    pub(crate) program: u64,
}

/// When somebody looked last, how long that took, and what was seen.
#[derive(Debug, Default)]
pub(crate) struct Looked(Option<(Instant, Duration, Occupied)>);

impl Looked {
    /// Looks, unless somebody has just looked. `None` then, and where the kernel does not
    /// say.
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

    /// How long the last look took.
    pub(crate) fn took(&self) -> Duration {
        self.0.map_or(Duration::ZERO, |(_, took, _)| took)
    }
}

/// What tells how much the process occupies in all, in bytes; `None` where the kernel does
/// not say. The file stays open: who has no descriptor left can ask yet.
#[expect(
    clippy::disallowed_methods,
    reason = "what the kernel says of this very process is nothing a simulator could own"
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
    reason = "what the kernel says of this very process is nothing a simulator could own"
)]
fn look() -> Option<Occupied> {
    Some(sum(&std::fs::read_to_string("/proc/self/smaps").ok()?))
}

/// The addresses of arenas, in order.
#[expect(
    clippy::disallowed_methods,
    reason = "what the kernel says of this very process is nothing a simulator could own"
)]
pub(super) fn arenas() -> std::io::Result<Vec<Range<usize>>> {
    Ok(arenas_of(&std::fs::read_to_string("/proc/self/maps")?))
}

/// Those of a list of mappings that can be written to.
fn arenas_of(mappings: &str) -> Vec<Range<usize>> {
    let writable = |line: &str| line.split_ascii_whitespace().nth(1) == Some("rw-p");
    let lines = mappings.lines().filter(|line| writable(line));
    lines.filter_map(arena).collect()
}

/// The addresses of a mapping, if it is an arena.
fn arena(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let addresses = start..usize::from_str_radix(end, 16).ok()?;
    // Rights, offset, device, file number, and a name if there is one.
    let is_the_allocators = words.nth(4).is_none_or(|name| name == NAME);
    (is_the_allocators && addresses.len() > LARGEST_STACK).then_some(addresses)
}

/// Adds a list of mappings up.
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
        // Neither files, nor what is shared, small or cannot be written to.
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
        // Without an allocator of arenas, a large vector is a mapping that looks like one.
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
