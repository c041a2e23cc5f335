//! Memory use of this process.
#![expect(
    clippy::disallowed_methods,
    reason = "measurements of the real machine, not of a simulated one"
)]

/// Resident size of the process, in bytes.
///
/// # Errors
/// If the kernel does not report it.
pub fn resident_bytes() -> std::io::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split_ascii_whitespace().nth(1);
    let pages: Option<u64> = pages.and_then(|pages| pages.parse().ok());
    let pages = pages.ok_or(std::io::ErrorKind::InvalidData)?;
    Ok(pages * rustix::param::page_size() as u64)
}
