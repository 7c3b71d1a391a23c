//! Texts of I/O errors.

use std::io;

/// Error number if the process has reached its limit of open files, on Linux, macOS and the BSDs
/// (`errno.h`).
const EMFILE: i32 = 24;

/// Error number if the machine has reached its limit of open files.
const ENFILE: i32 = 23;

/// Returns the text of an error. If a limit of open files caused the error, the text names the
/// limit. Without this hint, users would look for the problem at the server.
pub fn io_text(error: &io::Error) -> String {
    match limit_of_files(error) {
        Some(limit) => format!("{limit}; {error}"),
        None => error.to_string(),
    }
}

/// Returns the text of an error that prevented the start of a thread or of its tokio runtime. The
/// text names the limit to raise: that of open files, or that of processes or threads.
pub(crate) fn thread_text(error: &io::Error) -> String {
    match limit_of_files(error) {
        Some(_) => io_text(error),
        None => format!("{error}; raise the limit of processes or threads"),
    }
}

/// Returns a text about the limit of open files, if such a limit caused the error.
fn limit_of_files(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        EMFILE => Some(
            "this process cannot open more files: raise its limit (`ulimit -n`, `LimitNOFILE=` of \
             systemd)",
        ),
        ENFILE => Some("this machine cannot open more files: raise `fs.file-max`"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_files_is_named() {
        for (number, expected) in [(EMFILE, "ulimit -n"), (ENFILE, "fs.file-max")] {
            let text = io_text(&io::Error::from_raw_os_error(number));
            assert!(
                text.contains(expected) && text.contains("os error"),
                "{text}"
            );
        }
        let other = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(io_text(&other), other.to_string());
    }

    /// A thread could not start because of a limit. Fails if the text names the wrong limit: that
    /// of threads instead of open files, or the reverse.
    #[test]
    fn a_failed_thread_start_names_the_limit() {
        /// Error number if there are too many processes or threads (`EAGAIN` on Linux).
        const NO_THREAD: i32 = 11;
        for (number, expected, not) in [
            (EMFILE, "ulimit -n", "threads"),
            (ENFILE, "fs.file-max", "threads"),
            (NO_THREAD, "threads", "files"),
        ] {
            let text = thread_text(&io::Error::from_raw_os_error(number));
            assert!(text.contains(expected) && !text.contains(not), "{text}");
        }
    }
}
