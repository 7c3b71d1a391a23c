//! A temporary folder for one server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder for one server. Dropping it removes the folder.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        Self::inside(&std::env::temp_dir())
    }

    /// Makes a folder on a disk, for a server that must write to a disk. The folder is in
    /// `/var/tmp` if possible, because the default directory for temporary files may be in memory.
    pub(crate) fn on_disk() -> Self {
        let disk = Path::new("/var/tmp");
        if disk.is_dir() {
            Self::inside(disk)
        } else {
            Self::new()
        }
    }

    /// Makes a folder in memory if the system has `/dev/shm`. It is for servers that write each
    /// request to a file, because a busy disk would delay some requests by a second.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() {
            Self::inside(memory)
        } else {
            Self::new()
        }
    }

    fn inside(parent: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("leasehold-{}-{number}", std::process::id());
        let path = parent.join(name);
        fs::create_dir_all(&path).expect("a temporary folder can be made");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the server's log from this folder, or an empty text if there is no log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.0.join("log")).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
