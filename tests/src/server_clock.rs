//! The system time of a server, replaced by a clock that a test can set forward and back.
//!
//! The library `libfaketime` is loaded into the server. It adds an offset, which it reads from a
//! file, to the system time. It does not change the monotonic clocks, which the server's timers
//! use.

use std::ffi::OsString;
use std::process::{Command, Output};
use std::sync::{Arc, LazyLock};
use std::{fs, io};

use crate::folder::Folder;

/// A clock for a server. Pass it to [`ServerOptions::clock`](crate::server::ServerOptions::clock).
#[derive(Debug, Clone)]
pub struct ServerClock {
    folder: Arc<Folder>,
    libraries: String,
}

impl ServerClock {
    /// Makes a clock that shows the system time.
    ///
    /// # Panics
    ///
    /// Panics if `faketime` is missing. The message explains what to do.
    pub fn new() -> Self {
        let folder = Arc::new(Folder::new());
        let clock = Self {
            folder,
            libraries: libraries(),
        };
        clock.set(0);
        clock
    }

    /// Sets the clock to the system time plus `seconds`.
    ///
    /// # Panics
    ///
    /// Panics if the file with the offset cannot be written.
    pub fn set(&self, seconds: i64) {
        // The new offset is written to another file, which is then renamed. So the server never
        // reads a half-written file.
        let next = self.folder.path().join("next");
        fs::write(&next, format!("{seconds:+}\n")).expect("the clock can be set");
        fs::rename(&next, self.folder.path().join("offset")).expect("the clock can be set");
    }

    /// Environment variables that make the server's process use this clock.
    pub(crate) fn environment(&self) -> [(&'static str, OsString); 5] {
        let file = self.folder.path().join("offset");
        [
            ("LD_PRELOAD", self.libraries.clone().into()),
            ("FAKETIME_TIMESTAMP_FILE", file.into()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("NO_FAKE_STAT", "1".into()),
        ]
    }
}

impl Default for ServerClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Removes the files that `libfaketime` made for a killed process.
pub(crate) fn clean_up(process: u32) {
    for name in ["faketime_shm", "sem.faketime_sem"] {
        // An error is ignored, because some versions of the library leave no files.
        let _ = fs::remove_file(format!("/dev/shm/{name}_{process}"));
    }
}

/// Returns the libraries to load into the server: `libfaketime` and libc. The server's own
/// allocator, jemalloc, reads the time before `libfaketime` is ready. With libc in the list, the
/// server uses the allocator of libc instead.
fn libraries() -> String {
    static FOUND: LazyLock<String> = LazyLock::new(find_libraries);
    FOUND.clone()
}

fn find_libraries() -> String {
    let ask = || {
        Command::new("faketime")
            .args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"])
            .output()
    };
    // `faketime` fails if a killed process with the same process id left files behind. So it is
    // started up to six times, each time with another process id.
    let is_found = |asked: &io::Result<Output>| asked.as_ref().is_ok_and(|it| it.status.success());
    let asked = (0..5).map(|_| ask()).find(is_found);
    let library = match asked.unwrap_or_else(ask) {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout),
        other => panic!(
            "tests that set a server's clock need the program faketime ({other:?}): install it with \
             `apt-get install faketime`, `dnf install libfaketime` or `apk add libfaketime`"
        ),
    };
    let library = library.expect("the path is text");
    format!("{}:libc.so.6", library.trim())
}
