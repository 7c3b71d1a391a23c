//! The signals that this process ignored when it started.
//!
//! Rust's runtime ignores SIGPIPE before `main` begins, so the setting of the parent is read even
//! earlier.

use core::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::read;
use rustix::process::Signal;

/// A bit for each signal, set if it was ignored. Bit 0 is signal 1.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// The C library calls the functions in the section `.init_array` before `main`.
#[used]
#[allow(
    unsafe_code,
    reason = "the attribute is unsafe, as a section may need another type: this one has pointers \
              to such functions"
)]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// Records the ignored signals. Does not use `std`, which is not guaranteed to work before `main`,
/// and does not panic.
extern "C" fn before_main() {
    let mut stat = [0; 1024];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let length =
        open(c"/proc/self/stat", flags, Mode::empty()).and_then(|file| read(file, &mut stat));
    let ignored = length.ok().and_then(|length| parse(stat.get(..length)?));
    IGNORED.store(ignored.unwrap_or(0), Ordering::Relaxed);
}

/// True if this process ignored a signal when it started.
pub(super) fn ignored(signal: Signal) -> bool {
    is_in(IGNORED.load(Ordering::Relaxed), signal)
}

fn is_in(mask: u64, signal: Signal) -> bool {
    (mask >> (signal.as_raw() - 1)) & 1 == 1
}

/// Parses the field `sigignore` of `/proc/<pid>/stat`. The process's name, an earlier field, may
/// contain brackets and spaces.
fn parse(stat: &[u8]) -> Option<u64> {
    let mut fields = stat
        .rsplit(|byte| *byte == b')')
        .next()?
        .split(|byte| *byte == b' ');
    // The first of these fields is the empty text between the name and the state.
    let mask = core::str::from_utf8(fields.nth(31)?).ok()?;
    mask.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if another field of the line is read, or a bit is taken for another signal.
    #[test]
    fn the_signal_mask_is_read_from_its_field() {
        let stat =
            b"42 (a) b) S 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 99 1 1 1 1 1 1 1 1 0 \
            32 4097 66 0 0 0 17 0";
        let ignored = parse(stat).expect("it has the field");
        assert!(is_in(ignored, Signal::HUP) && is_in(ignored, Signal::PIPE));
        assert!(!is_in(ignored, Signal::TERM));
        assert_eq!(parse(b"nonsense"), None);
    }

    /// Fails if the mask in this process's file `stat` differs from the mask in its file `status`.
    #[test]
    fn this_process() {
        let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = u64::from_str_radix(mask.expect("a mask").trim(), 16).expect("a number");
        let stat = std::fs::read("/proc/self/stat").expect("/proc is there");
        // The file `stat` contains only the first 31 signals.
        assert_eq!(parse(&stat), Some(mask & 0x7fff_ffff));
    }
}
