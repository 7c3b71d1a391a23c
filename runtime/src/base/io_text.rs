//! Texts of I/O errors.

use std::io;

/// The number of an error by the limit of a process, on Linux, macOS and the BSDs (`errno.h`).
const EMFILE: i32 = 24;

/// The same for the limit of a machine.
const ENFILE: i32 = 23;

/// The text of an error. One that a limit of open files causes names the limit: with the bare text
/// people look at the server.
pub(crate) fn io_text(error: &io::Error) -> String {
    let limit = match error.raw_os_error() {
        Some(EMFILE) => {
            "this process may not open more files: raise its limit (`ulimit -n`, `LimitNOFILE=` of systemd)"
        }
        Some(ENFILE) => "this machine may not open more files: raise `fs.file-max`",
        _ => return error.to_string(),
    };
    format!("{limit}; {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_files_is_named() {
        for (number, says) in [(EMFILE, "ulimit -n"), (ENFILE, "fs.file-max")] {
            let text = io_text(&io::Error::from_raw_os_error(number));
            assert!(text.contains(says) && text.contains("os error"), "{text}");
        }
        let other = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(io_text(&other), other.to_string());
    }
}
