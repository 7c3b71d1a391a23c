//! The exit codes. The codes from 64 to 75 come from `sysexits.h`. The codes from 126 have the same
//! meaning as in a shell.

/// The command has succeeded.
pub(crate) const SUCCESS: u8 = 0;
/// The negative answer of a command: the lock is not held, the user did not confirm its release, or
/// `check` found an error.
pub(crate) const NO: u8 = 1;
/// The command line is invalid, or a setting in it is not supported (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// The lock store cannot be reached or does not work (`EX_UNAVAILABLE`).
pub(crate) const UNAVAILABLE: u8 = 69;
/// The lease was lost, although the command itself ended with 0 (`EX_SOFTWARE`).
pub(crate) const LOST: u8 = 70;
/// The operating system refuses what the command needs, such as a thread (`EX_OSERR`).
pub(crate) const SYSTEM: u8 = 71;
/// The lock is held elsewhere (`EX_TEMPFAIL`).
pub(crate) const HELD: u8 = 75;
/// The command of `run` exists but cannot be started.
#[cfg(target_os = "linux")]
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command of `run` does not exist.
#[cfg(target_os = "linux")]
pub(crate) const NOT_FOUND: u8 = 127;
/// Offset of the exit codes for signals: a command ended by signal 9 has the code 128 + 9.
#[cfg(target_os = "linux")]
pub(crate) const SIGNAL: u8 = 128;

/// Returns the exit code for a process that exited or was ended by a signal.
#[cfg(target_os = "linux")]
pub(crate) fn of(exited: Option<i32>, signal: Option<i32>) -> u8 {
    let by_signal = signal.map(|signal| i32::from(SIGNAL) + signal);
    let code = exited
        .or(by_signal)
        .and_then(|code| u8::try_from(code).ok());
    code.unwrap_or(u8::MAX)
}
