//! Empty directories of a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty directory of one test, removed at the end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A directory in `folder`, which is `env!("CARGO_TARGET_TMPDIR")` of the test program.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub fn new(folder: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(folder).join(format!("scratch-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("the target directory is writable");
        Self(path)
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
